//! Where and with what a run was measured, recorded before the first measurement.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::driver::lab_cost_ns;
use crate::error::LabError;
use crate::file_system::FileSystem;
use crate::flush_probe::{FlushTimes, measure_flush};

/// What a figure has to be read together with. Texts are `unknown` where they could not be found
/// out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// When the run began, UTC, as in `2026-01-31T12:00:00Z`.
    pub date: String,
    /// The command that was run.
    pub command_line: String,
    /// As the processor calls itself.
    pub cpu_model: String,
    /// Logical processors that the process may use.
    pub cpu_cores: usize,
    /// Main memory, in bytes; 0 when unknown.
    pub memory_bytes: u64,
    /// Name and release of the kernel.
    pub kernel: String,
    /// The operating system's own name.
    pub os: String,
    /// Load of the machine at the start, averaged over 1, 5 and 15 minutes.
    pub load_average: [f64; 3],
    /// Where the databases were put.
    pub file_system: FileSystem,
    /// What a flush takes there, measured at the start.
    pub flush: FlushTimes,
    /// Versions of what was measured.
    pub versions: Versions,
    /// Flags that the bundled SQLite was compiled with.
    pub sqlite_build_flags: String,
    /// The commit that the program was built from.
    pub git_commit: String,
    /// Whether the sources differed from that commit; `null` when unknown.
    pub git_dirty: Option<bool>,
    /// `release` or `debug`.
    pub build_profile: String,
    /// What the lab's own clock and bookkeeping cost a transaction, in nanoseconds, measured at the
    /// start.
    #[serde(default = "crate::statistics::unknown")]
    pub lab_cost_ns_per_transaction: f64,
    /// What makes the figures less than they seem.
    pub warnings: Vec<String>,
}

/// Versions of the parts that the figures depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// This project.
    pub groupcommit: String,
    /// The SQLite library, the same for all conditions.
    pub sqlite: String,
    /// Its Rust binding.
    pub rusqlite: String,
    /// The compiler.
    pub rustc: String,
    /// The server, as it describes itself; absent where a file is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

impl Versions {
    /// The database's name and version.
    #[must_use]
    pub fn database(&self) -> String {
        self.server.clone().unwrap_or_else(|| format!("SQLite {}", self.sqlite))
    }
}

impl Environment {
    /// Looks around, and measures the flush in `database_folder` and the lab's own cost; takes up
    /// to some seconds. `server` is the server to be measured, in its own words.
    ///
    /// # Errors
    /// When `database_folder` cannot be written to.
    pub fn record(
        database_folder: &Path,
        command_line: String,
        server: Option<String>,
    ) -> Result<Self, LabError> {
        let load_average = load_average();
        let cpu_cores = std::thread::available_parallelism().map_or(1, usize::from);
        let file_system = FileSystem::of(database_folder);
        let mut warnings: Vec<String> = file_system.warning().into_iter().collect();
        if load_average[0] > 0.5 * cpu_cores as f64 {
            warnings.push(format!(
                "The machine was busy at the start: load {:.1} on {cpu_cores} cores. Measure again when it is quiet.",
                load_average[0]
            ));
        }
        if cfg!(debug_assertions) {
            warnings.push(
                "This is a debug build: its figures mean nothing. Build with --release.".to_owned(),
            );
        }
        Ok(Self {
            date: date_now(),
            command_line,
            cpu_model: cpu_model(),
            cpu_cores,
            memory_bytes: memory_bytes(),
            kernel: kernel(),
            os: os_name(),
            load_average,
            flush: measure_flush(database_folder)?,
            file_system,
            versions: Versions {
                groupcommit: env!("CARGO_PKG_VERSION").to_owned(),
                sqlite: rusqlite::version().to_owned(),
                rusqlite: env!("GROUPCOMMIT_LAB_RUSQLITE").to_owned(),
                rustc: env!("GROUPCOMMIT_LAB_RUSTC").to_owned(),
                server,
            },
            sqlite_build_flags: env!("GROUPCOMMIT_LAB_SQLITE_FLAGS").to_owned(),
            git_commit: env!("GROUPCOMMIT_LAB_COMMIT").to_owned(),
            git_dirty: env!("GROUPCOMMIT_LAB_DIRTY").parse().ok(),
            build_profile: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
            lab_cost_ns_per_transaction: lab_cost_ns(),
            warnings,
        })
    }
}

const UNKNOWN: &str = "unknown";

/// SQLite knows the calendar.
fn date_now() -> String {
    let now = || {
        let connection = rusqlite::Connection::open_in_memory()?;
        connection.query_row("SELECT strftime('%Y-%m-%dT%H:%M:%SZ', 'now')", [], |row| row.get(0))
    };
    now().unwrap_or_else(|_: rusqlite::Error| UNKNOWN.to_owned())
}

fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    // x86 calls it `model name`; some other architectures have `Model` or nothing.
    ["model name", "Model", "cpu model"]
        .iter()
        .find_map(|key| value_of(&text, key, ':'))
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn memory_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = value_of(&text, "MemTotal", ':')
        .and_then(|value| value.trim_end_matches(" kB").trim().parse().ok());
    kib.map_or(0, |kib: u64| kib * 1024)
}

fn kernel() -> String {
    let uname = rustix::system::uname();
    format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy())
}

fn os_name() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    value_of(&text, "PRETTY_NAME", '=')
        .map_or_else(|| std::env::consts::OS.to_owned(), |name| name.trim_matches('"').to_owned())
}

fn load_average() -> [f64; 3] {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut averages = text.split(' ').map_while(|field| field.parse().ok());
    [(); 3].map(|()| averages.next().unwrap_or(0.0))
}

/// The value of the first line `key<separator>value`, without blanks around it.
fn value_of(text: &str, key: &str, separator: char) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(separator))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Environment {
        /// A plausible environment for tests of records.
        pub(crate) fn example() -> Self {
            let percentiles =
                crate::flush_probe::FlushPercentiles { samples: 256, p50: 58.0, p99: 130.5 };
            Self {
                date: "2026-01-31T12:00:00Z".to_owned(),
                command_line: "groupcommit bench write".to_owned(),
                cpu_model: "A Processor".to_owned(),
                cpu_cores: 2,
                memory_bytes: 8 << 30,
                kernel: "Linux 6.1".to_owned(),
                os: "An OS".to_owned(),
                load_average: [0.0, 0.1, 0.2],
                file_system: FileSystem {
                    folder: "/data".into(),
                    kind: "ext4".to_owned(),
                    device: "/dev/vda".to_owned(),
                    mount_point: "/".into(),
                    mount_options: "rw".to_owned(),
                },
                flush: FlushTimes { overwrite_us: percentiles, extend_us: percentiles },
                versions: Versions {
                    groupcommit: "0.1.0".to_owned(),
                    sqlite: "3.51.3".to_owned(),
                    rusqlite: "0.41.0".to_owned(),
                    rustc: "rustc 1.95.0".to_owned(),
                    server: None,
                },
                sqlite_build_flags: UNKNOWN.to_owned(),
                git_commit: UNKNOWN.to_owned(),
                git_dirty: None,
                build_profile: "release".to_owned(),
                lab_cost_ns_per_transaction: 30.5,
                warnings: vec!["a warning".to_owned()],
            }
        }
    }

    #[test]
    fn the_environment_is_found_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let environment =
            Environment::record(folder.path(), "a command".to_owned(), None).expect("records");
        assert_eq!(environment.command_line, "a command");
        assert!(
            environment.date.starts_with("20") && environment.date.ends_with('Z'),
            "{}",
            environment.date
        );
        assert!(environment.versions.rustc.starts_with("rustc "), "{}", environment.versions.rustc);
        assert!(
            environment.versions.rusqlite.starts_with("0."),
            "{}",
            environment.versions.rusqlite
        );
        assert!(environment.versions.sqlite.starts_with("3."));
        assert!(environment.lab_cost_ns_per_transaction > 0.0);
        assert!(environment.cpu_cores >= 1);
        assert_eq!(
            environment.build_profile == "debug",
            environment.warnings.iter().any(|w| w.contains("debug"))
        );
        if cfg!(target_os = "linux") {
            assert!(environment.kernel.starts_with("Linux "));
            assert!(environment.memory_bytes > 1 << 20);
            assert_ne!(environment.file_system.kind, UNKNOWN);
        }
    }

    #[test]
    fn values_are_taken_from_the_first_matching_line() {
        let text = "processor\t: 0\nmodel name\t: A CPU @ 2 GHz\nmodel name\t: Another\n";
        assert_eq!(value_of(text, "model name", ':').as_deref(), Some("A CPU @ 2 GHz"));
        assert_eq!(value_of(text, "flags", ':'), None);
    }
}
