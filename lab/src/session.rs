//! What all experiments have in common: folders, environment, warm-up, interleaved repeats, records.
//!
//! 1. Repeats are interleaved over the settings (A B A B), so that whatever changes slowly on the
//!    machine falls on all of them alike; each setting is warmed up once, uncounted, before the
//!    first repeat.
//! 2. Every measurement has a database of its own, begins when the file system has nothing left to
//!    write, and ends with a look at the rows by a fresh connection. Rows that differ from what was
//!    acknowledged are an error.
//! 3. The records are saved every second or measurement, whichever takes longer, so that an
//!    interrupted run keeps what it has.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::driver::Load;
use crate::engine::Engine;
use crate::environment::Environment;
use crate::error::LabError;
use crate::measure::{Data, Trial, measure};
use crate::measurement::{Measurement, Results};
use crate::server::{self, Schema};
use crate::setting::Setting;
use crate::workload::{VALUE_CHARS, Workload};

/// Transactions of a warm-up at most, and how long it may take: so long, or so large a share of a
/// short measurement.
const WARM_UP_TRANSACTIONS: usize = 2_000;
const WARM_UP_LIMIT: Duration = Duration::from_millis(500);
const WARM_UP_SHARE: u32 = 3;

/// Records are saved at most so often, and at the end.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// Where an experiment leaves its records, and what it shares with all others.
#[derive(Debug, Clone)]
pub struct Common {
    /// What is measured.
    pub engine: Engine,
    /// Bytes of each value.
    pub value_bytes: usize,
    /// Of a server: where it is.
    pub url: Option<String>,
    /// How often each setting is measured.
    pub repeats: usize,
    /// The folder for the records; created when missing, earlier records in it are replaced.
    pub out: PathBuf,
    /// The folder for the databases, which are removed afterwards; `out` when `None`.
    pub database_folder: Option<PathBuf>,
    /// Determines the values of the rows, the keys and the arrivals.
    pub seed: u64,
    /// Added to every flush; each is measured. Zero is the disk as it is.
    pub flush_delays: Vec<Duration>,
    /// For the record.
    pub command_line: String,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            engine: Engine::Sqlite,
            value_bytes: VALUE_CHARS,
            url: None,
            repeats: 3,
            out: PathBuf::from("bench-results"),
            database_folder: None,
            seed: 1,
            flush_delays: vec![Duration::ZERO],
            command_line: String::new(),
        }
    }
}

impl Common {
    pub(crate) fn check(&self) -> Result<(), LabError> {
        self.engine.check()?;
        if self.engine.is_server() && self.url.is_none() {
            return Err(LabError::Options(format!(
                "give the URL of a server with {} with --url; `cargo xtask servers start` starts one",
                self.engine.title()
            )));
        }
        at_least_one("repeat", self.repeats)?;
        at_least_one("value-bytes", self.value_bytes)?;
        if self.engine != Engine::Sqlite && self.flush_delays.iter().any(|delay| !delay.is_zero()) {
            return Err(LabError::Options(format!(
                "--flush-delay cannot delay the flushes that {} does itself; measure without it",
                self.engine.title()
            )));
        }
        if self.flush_delays.is_empty() {
            return Err(LabError::Options("--flush-delay is empty; give 0 for none".to_owned()));
        }
        Ok(())
    }

    /// So many rows, generated.
    pub(crate) fn workload(&self, rows: usize) -> Workload {
        Workload::of_bytes(rows, self.seed, self.value_bytes)
    }

    /// `settings`, with each of the flush delays.
    pub(crate) fn delayed(&self, settings: &[Setting]) -> Vec<Setting> {
        let with =
            |&flush_delay| settings.iter().map(move |&setting| Setting { flush_delay, ..setting });
        self.flush_delays.iter().flat_map(with).collect()
    }
}

/// Refuses a zero of the option `name`.
pub(crate) fn at_least_one(name: &str, value: usize) -> Result<(), LabError> {
    if value == 0 {
        return Err(LabError::Options(format!("--{name} must be at least 1")));
    }
    Ok(())
}

/// Refuses an empty list, and a setting that is there twice.
pub(crate) fn check_settings(settings: &[Setting]) -> Result<(), LabError> {
    if settings.is_empty() {
        return Err(LabError::Options("nothing to measure: a list of values is empty".to_owned()));
    }
    for (index, setting) in settings.iter().enumerate() {
        if settings[..index].contains(setting) {
            return Err(LabError::Options(format!(
                "{setting} is asked for twice; name each value once, and use --repeat to measure it more often"
            )));
        }
    }
    Ok(())
}

/// What a run tells while it goes on.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The environment is recorded; the databases lie in the named folder until the run ends.
    Prepared(&'a Environment, &'a Path),
    /// The uncounted warm-up of a setting begins.
    Warming(&'a Setting),
    /// A measurement begins: the how manieth of how many in this part of the run.
    Started {
        /// What is measured.
        setting: &'a Setting,
        /// Counted from 1.
        number: usize,
        /// How many there will be.
        count: usize,
    },
    /// A measurement goes on; told about every two seconds.
    Running {
        /// Rows or operations submitted so far.
        rows: usize,
        /// Since it began.
        elapsed: Duration,
    },
    /// A measurement is done and verified; its record is saved within a second or with the next.
    Finished(&'a Measurement),
}

/// A run of one or several experiments into one folder of records.
pub(crate) struct Session<'a> {
    common: &'a Common,
    databases: tempfile::TempDir,
    results: Results,
    saved: Option<Instant>,
    observe: &'a mut dyn FnMut(Event<'_>),
}

impl<'a> Session<'a> {
    /// Creates the folders and records the environment.
    pub(crate) fn begin(
        common: &'a Common,
        observe: &'a mut dyn FnMut(Event<'_>),
    ) -> Result<Self, LabError> {
        common.check()?;
        fs::create_dir_all(&common.out).map_err(LabError::io("create the folder", &common.out))?;
        let parent = common.database_folder.as_ref().unwrap_or(&common.out);
        fs::create_dir_all(parent).map_err(LabError::io("create the folder", parent))?;
        let databases = tempfile::Builder::new()
            .prefix("databases-")
            .tempdir_in(parent)
            .map_err(LabError::io("create a folder in", parent))?;
        settle(databases.path())?;
        let server = common.url.as_deref().filter(|_| common.engine.is_server());
        let server = server.map(server::describe).transpose()?;
        let environment =
            Environment::record(databases.path(), common.command_line.clone(), server)?;
        observe(Event::Prepared(&environment, databases.path()));
        let results = Results { title: None, environment, measurements: Vec::new() };
        Ok(Self { common, databases, results, saved: None, observe })
    }

    /// A folder for databases, on the disk that is measured.
    pub(crate) fn folder(&self) -> &Path {
        self.databases.path()
    }

    /// What was measured so far.
    pub(crate) fn measurements(&self) -> &[Measurement] {
        &self.results.measurements
    }

    /// Measures every setting, as often as asked for.
    pub(crate) fn run(
        &mut self,
        settings: &[Setting],
        data: &Data,
        load: impl Fn(&Setting) -> Load,
    ) -> Result<(), LabError> {
        for setting in settings {
            (self.observe)(Event::Warming(setting));
            let load = load(setting);
            let rows = load.rows.min(setting.batch.saturating_mul(WARM_UP_TRANSACTIONS));
            let load = Load { rows, limit: WARM_UP_LIMIT.min(load.limit / WARM_UP_SHARE), ..load };
            measure_in(self.folder(), self.common, setting, data, load, &mut |_, _| {})?;
        }
        let count = settings.len() * self.common.repeats;
        for repeat in 1..=self.common.repeats {
            for (index, setting) in settings.iter().enumerate() {
                let number = (repeat - 1) * settings.len() + index + 1;
                (self.observe)(Event::Started { setting, number, count });
                let observe = &mut self.observe;
                let mut running = |rows, elapsed| observe(Event::Running { rows, elapsed });
                let folder = self.databases.path();
                let trial =
                    measure_in(folder, self.common, setting, data, load(setting), &mut running)?;
                self.results.measurements.push(trial.to_measurement(setting, repeat));
                if self.saved.is_none_or(|saved| saved.elapsed() >= SAVE_EVERY) {
                    self.save()?;
                }
                if let Err(doubt) = trial.verify(setting) {
                    self.save()?;
                    return Err(doubt);
                }
                if let Some(measurement) = self.results.measurements.last() {
                    (self.observe)(Event::Finished(measurement));
                }
            }
        }
        self.save()
    }

    /// Tells what goes on.
    pub(crate) fn tell(&mut self, event: Event<'_>) {
        (self.observe)(event);
    }

    /// Keeps a record that was made elsewhere.
    pub(crate) fn keep(&mut self, measurement: Measurement) -> Result<(), LabError> {
        self.results.measurements.push(measurement);
        self.save()?;
        if let Some(measurement) = self.results.measurements.last() {
            (self.observe)(Event::Finished(measurement));
        }
        Ok(())
    }

    fn save(&mut self) -> Result<(), LabError> {
        self.results.save(&self.common.out)?;
        self.saved = Some(Instant::now());
        Ok(())
    }

    /// Removes the databases and hands the records over, which are also in the folder.
    pub(crate) fn end(self) -> Result<Results, LabError> {
        let parent = self.common.database_folder.as_ref().unwrap_or(&self.common.out);
        self.databases.close().map_err(LabError::io("remove the databases in", parent))?;
        Ok(self.results)
    }
}

/// Measures once with a new database in `folder`, or on the server, which holds as much afterwards as before.
fn measure_in(
    folder: &Path,
    common: &Common,
    setting: &Setting,
    data: &Data,
    load: Load,
    running: &mut dyn FnMut(usize, Duration),
) -> Result<Trial, LabError> {
    if let Some(url) = common.url.as_ref().filter(|_| common.engine.is_server()) {
        let schema = Schema::create(url)?;
        let trial = measure(setting, data, load, Path::new(schema.url()), running)?;
        schema.drop_all()?;
        return Ok(trial);
    }
    let own = tempfile::tempdir_in(folder).map_err(LabError::io("create a folder in", folder))?;
    let trial = measure(setting, data, load, &own.path().join("lab.db"), running)?;
    own.close().map_err(LabError::io("remove the database in", folder))?;
    Ok(trial)
}

/// Waits until what was written before has reached the disk, so that nobody pays for it later.
pub(crate) fn settle(folder: &Path) -> Result<(), LabError> {
    #[cfg(target_os = "linux")]
    File::open(folder)
        .and_then(|folder| rustix::fs::syncfs(folder).map_err(Into::into))
        .map_err(LabError::io("flush the file system of", folder))?;
    #[cfg(not(target_os = "linux"))]
    File::open(folder)
        .map(|_| rustix::fs::sync())
        .map_err(LabError::io("flush the file system of", folder))?;
    Ok(())
}
