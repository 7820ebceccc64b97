//! `cargo xtask measure`: everything that the README shows as measured, in release builds, one
//! after the other; writes `docs/measured` and then the generated parts of the documentation.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use groupcommit_lab::measurement::Results;
use serde::de::DeserializeOwned;

use crate::{
    docs::{self, transcript},
    measured::{self, Kills, Medians, Probes},
    program::{self, cargo},
    root::root,
};

/// Options of `cargo xtask measure`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rows of each setting
    #[arg(long, value_name = "N", default_value_t = 500_000)]
    rows: u64,

    /// How often to measure each setting; medians are recorded
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeat: u64,

    /// End a measurement after so many seconds
    #[arg(long, value_name = "S", default_value_t = 120)]
    seconds_limit: u64,

    /// The folder for databases: the disk that is measured [default: the build folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// The full flights data (CSV, may be compressed with gzip), of which data/ holds a sample
    #[arg(long, value_name = "FILE")]
    flights: Option<PathBuf>,

    /// How often to kill an ingest and resume it
    #[arg(long, value_name = "N", default_value_t = 50)]
    kills: u64,
}

/// The test that kills ingests: package, file, name.
const KILL_TEST: (&str, &str, &str) = ("groupcommit-cli", "kill", "any_moment_can_be_the_last");

pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(options.repeat >= 3, "a median needs --repeat 3 at least");
    let program = program::groupcommit(true)?;
    let bench_program = program::bench(&[], true)?;
    let xtask = program::build("xtask", "xtask", true)?;
    let parent = program.parent().unwrap_or(root());
    let dir = options.dir.as_deref().unwrap_or(parent);
    let folder = tempfile::tempdir_in(dir)
        .with_context(|| format!("cannot create a folder in {}", dir.display()))?;
    let folder = folder.path();

    transcript::record(&program)?;
    let in_flight = "1,16,64,256,1000";
    let conditions = "wal,groupcommit-blocking,groupcommit-async";
    let settings =
        ["--batch", "1,10,100,1000", "--in-flight", in_flight, "--conditions", conditions];
    let write = bench(&bench_program, options, folder, &settings)?;
    measured::save(measured::WRITE, &write)?;
    let settings = ["--batch", "1", "--threads", "25", "--conditions", "wal,groupcommit-blocking"];
    let threads = bench(&bench_program, options, folder, &settings)?;
    measured::save(measured::THREADS, &threads)?;

    let mut ingest = None;
    if let Some(flights) = &options.flights {
        let flights =
            flights.canonicalize().with_context(|| format!("cannot read {}", flights.display()))?;
        let repeat = options.repeat.to_string();
        let arguments: [&Path; 3] = [program.as_ref(), flights.as_ref(), repeat.as_ref()];
        ingest = Some(probe(&xtask, "ingest", folder, &arguments)?);
    }
    let probes = Probes {
        rejected: probe(&xtask, "rejected", folder, &[])?,
        memory: probe(&xtask, "memory", folder, &[])?,
        databases: probe(&xtask, "databases", folder, &[])?,
        ingest,
        kills: kills(options.kills)?,
    };
    measured::save(measured::PROBES, &probes)?;
    docs::write()
}

/// Runs `groupcommit-bench write` and condenses its records.
fn bench(program: &Path, options: &Options, folder: &Path, settings: &[&str]) -> Result<Medians> {
    let out = folder.join("records");
    let status = Command::new(program)
        .args(["write", "--rows", &options.rows.to_string()])
        .args(["--repeat", &options.repeat.to_string()])
        .args(["--seconds-limit", &options.seconds_limit.to_string()])
        .args(settings)
        .arg("--out")
        .arg(&out)
        .arg("--dir")
        .arg(folder)
        .status()
        .context("cannot start groupcommit-bench")?;
    ensure!(status.success(), "`groupcommit-bench write` ended with {status}");
    Medians::of(Results::load(&out)?)
}

/// Runs one probe in a process of its own and reads its record.
fn probe<T: DeserializeOwned>(
    xtask: &Path,
    name: &str,
    folder: &Path,
    arguments: &[&Path],
) -> Result<T> {
    eprintln!("probe: {name}");
    let own = tempfile::tempdir_in(folder).context("cannot create a folder")?;
    let mut command = Command::new(xtask);
    command.args(["probe", name]).arg(own.path()).args(arguments);
    let output =
        command.stderr(std::process::Stdio::inherit()).output().context("cannot start xtask")?;
    ensure!(output.status.success(), "the probe `{name}` ended with {}", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| format!("the record of probe `{name}`"))
}

/// Runs the test that kills ingests at random moments and resumes them.
fn kills(kills: u64) -> Result<Option<Kills>> {
    if kills == 0 {
        return Ok(None);
    }
    let (package, file, test) = KILL_TEST;
    let output = cargo()
        .args(["test", "--release", "--package", package, "--test", file, "--", "--exact", test])
        .env("GROUPCOMMIT_KILLS", kills.to_string())
        .output()
        .context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && said.contains("1 passed"),
        "the test {test} failed:\n{said}"
    );
    Ok(Some(Kills { kills, test: test.to_owned() }))
}
