//! Experiment 1, pure write: rows of an integer key and a UUID, by rows a transaction, condition
//! and number in flight.
//!
//! 1. Repeats are interleaved over the settings (A B A B), so that whatever changes slowly on the
//!    machine falls on all of them alike; each setting is warmed up once, uncounted, before the
//!    first repeat.
//! 2. Every measurement has a database of its own, begins when the file system has nothing left to
//!    write, and ends with a count of the rows by a fresh connection. A count that differs from
//!    what was acknowledged is an error.
//! 3. The records are saved after every measurement, so that an interrupted run keeps what it has.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::condition::Condition;
use crate::driver::{Load, submitting_threads};
use crate::environment::Environment;
use crate::error::LabError;
use crate::measure::{Setting, Trial, measure};
use crate::measurement::{Measurement, Results};
use crate::workload::Workload;

/// The name of the experiment in the records.
const EXPERIMENT: &str = "write";

/// Transactions of a warm-up at most, and how long it may take.
const WARM_UP_TRANSACTIONS: usize = 2_000;
const WARM_UP_LIMIT: Duration = Duration::from_millis(500);

/// What to measure, and where. The default is the published experiment, three times.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// Rows to write in each measurement.
    pub rows: usize,
    /// Rows a transaction, one setting each.
    pub batches: Vec<usize>,
    /// Tickets outstanding, one setting each, for conditions whose callers do not block.
    pub in_flight: Vec<usize>,
    /// Threads that submit.
    pub threads: usize,
    /// Which conditions.
    pub conditions: Vec<Condition>,
    /// How often each setting is measured.
    pub repeats: usize,
    /// The folder for the records; created when missing, earlier records in it are replaced.
    pub out: PathBuf,
    /// The folder for the databases, which are removed afterwards; `out` when `None`.
    pub database_folder: Option<PathBuf>,
    /// After this long a measurement submits no more, and records the rows it has.
    pub time_limit: Duration,
    /// Determines the values of the rows.
    pub seed: u64,
    /// For the record.
    pub command_line: String,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            rows: 1_000_000,
            batches: vec![1, 10, 100, 1_000],
            in_flight: vec![1_000],
            threads: 1,
            conditions: Condition::ALL.to_vec(),
            repeats: 3,
            out: PathBuf::from("bench-results"),
            database_folder: None,
            time_limit: Duration::from_mins(1),
            seed: 1,
            command_line: String::new(),
        }
    }
}

impl WriteOptions {
    fn check(&self) -> Result<(), LabError> {
        let refuse = |reason: String| Err(LabError::Options(reason));
        let zero = [("rows", self.rows), ("threads", self.threads), ("repeat", self.repeats)]
            .into_iter()
            .chain(self.batches.iter().map(|&batch| ("batch", batch)))
            .chain(self.in_flight.iter().map(|&in_flight| ("in-flight", in_flight)))
            .find(|&(_, value)| value == 0);
        if let Some((name, _)) = zero {
            return refuse(format!("--{name} must be at least 1"));
        }
        if self.time_limit.is_zero() {
            return refuse("--seconds-limit must be more than 0".to_owned());
        }
        if let Some(batch) = self.batches.iter().find(|&&batch| batch > self.rows) {
            return refuse(format!("--batch {batch} is more than --rows {} can fill", self.rows));
        }
        if self.settings().is_empty() {
            return refuse(
                "nothing to measure: --conditions, --batch or --in-flight is empty".to_owned(),
            );
        }
        for (index, setting) in self.settings().iter().enumerate() {
            if self.settings()[..index].contains(setting) {
                return refuse(format!(
                    "{setting} is asked for twice; name each value once, and use --repeat to measure it more often"
                ));
            }
        }
        Ok(())
    }

    /// Every combination to be measured, in the order of one round.
    fn settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        for &batch in &self.batches {
            for &condition in &self.conditions {
                if condition.is_async() {
                    settings.extend(self.in_flight.iter().map(|&in_flight| Setting {
                        condition,
                        batch,
                        in_flight,
                        threads: submitting_threads(self.threads, in_flight),
                    }));
                } else {
                    let threads = self.threads;
                    settings.push(Setting { condition, batch, in_flight: threads, threads });
                }
            }
        }
        settings
    }
}

/// What a run tells while it goes on.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The environment is recorded; the databases lie in the named folder until the run ends.
    Prepared(&'a Environment, &'a Path),
    /// The uncounted warm-up of a setting begins.
    Warming(&'a Setting),
    /// A measurement begins: the how manieth of how many.
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
        /// Rows submitted so far.
        rows: usize,
        /// Since it began.
        elapsed: Duration,
    },
    /// A measurement is done, verified and saved.
    Finished(&'a Measurement),
}

/// Runs the experiment and returns the records, which are also in the folder `options.out`.
///
/// # Errors
/// When the options make no sense, a folder cannot be used, a transaction is not committed, or the
/// rows found at the end are not the rows acknowledged. Records of the measurements before are kept
/// in the folder, and in the last case the one in doubt is the last of them.
pub fn run_write(
    options: &WriteOptions,
    mut observe: impl FnMut(Event<'_>),
) -> Result<Results, LabError> {
    options.check()?;
    fs::create_dir_all(&options.out).map_err(LabError::io("create the folder", &options.out))?;
    let parent = options.database_folder.as_ref().unwrap_or(&options.out);
    fs::create_dir_all(parent).map_err(LabError::io("create the folder", parent))?;
    let databases = tempfile::Builder::new()
        .prefix("databases-")
        .tempdir_in(parent)
        .map_err(LabError::io("create a folder in", parent))?;

    settle(databases.path())?;
    let environment = Environment::record(databases.path(), options.command_line.clone())?;
    observe(Event::Prepared(&environment, databases.path()));
    let mut results = Results { environment, measurements: Vec::new() };
    let workload = Arc::new(Workload::generate(options.rows, options.seed));
    let settings = options.settings();

    for setting in &settings {
        observe(Event::Warming(setting));
        let rows = options.rows.min(setting.batch.saturating_mul(WARM_UP_TRANSACTIONS));
        let load = Load { rows, batch: setting.batch, limit: WARM_UP_LIMIT };
        measure_in(databases.path(), setting, &workload, load, |_, _| {})?;
    }

    let count = settings.len() * options.repeats;
    for repeat in 1..=options.repeats {
        for setting in &settings {
            observe(Event::Started { setting, number: results.measurements.len() + 1, count });
            let load = Load { rows: options.rows, batch: setting.batch, limit: options.time_limit };
            let trial = measure_in(databases.path(), setting, &workload, load, |rows, elapsed| {
                observe(Event::Running { rows, elapsed });
            })?;
            results.measurements.push(trial.to_measurement(EXPERIMENT, setting, repeat));
            results.save(&options.out)?;
            trial.verify(setting)?;
            if let Some(measurement) = results.measurements.last() {
                observe(Event::Finished(measurement));
            }
        }
    }
    databases.close().map_err(LabError::io("remove the databases in", parent))?;
    Ok(results)
}

/// Measures once with a new database in `folder`, which is empty before and after.
fn measure_in(
    folder: &Path,
    setting: &Setting,
    workload: &Arc<Workload>,
    load: Load,
    running: impl FnMut(usize, Duration),
) -> Result<Trial, LabError> {
    let own = tempfile::tempdir_in(folder).map_err(LabError::io("create a folder in", folder))?;
    settle(own.path())?;
    let trial = measure(setting, workload, load, &own.path().join("write.db"), running)?;
    own.close().map_err(LabError::io("remove the database in", folder))?;
    Ok(trial)
}

/// Waits until what was written before has reached the disk, so that nobody pays for it later.
fn settle(folder: &Path) -> Result<(), LabError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn options(change: impl FnOnce(&mut WriteOptions)) -> WriteOptions {
        let mut options = WriteOptions::default();
        change(&mut options);
        options
    }

    #[test]
    fn the_window_multiplies_async_settings_only() {
        let settings = options(|o| {
            o.batches = vec![1, 10];
            o.in_flight = vec![16, 64];
            o.threads = 25;
        })
        .settings();
        assert_eq!(settings.len(), 2 * (4 + 2));
        for setting in settings {
            if setting.condition.is_async() {
                assert_eq!(setting.threads, setting.in_flight.min(25));
            } else {
                assert_eq!((setting.in_flight, setting.threads), (25, 25));
            }
        }
    }

    #[test]
    fn senseless_options_are_refused_by_name() {
        for (options, named) in [
            (options(|o| o.rows = 0), "--rows must"),
            (options(|o| o.batches = vec![1, 0]), "--batch"),
            (options(|o| o.rows = 999), "--batch 1000"),
            (options(|o| o.in_flight = vec![0]), "--in-flight"),
            (options(|o| o.threads = 0), "--threads"),
            (options(|o| o.repeats = 0), "--repeat"),
            (options(|o| o.time_limit = Duration::ZERO), "--seconds-limit"),
            (options(|o| o.conditions.clear()), "--conditions"),
            (options(|o| o.batches = vec![10, 10]), "twice"),
        ] {
            let error = options.check().expect_err("refused");
            assert!(error.to_string().contains(named), "{error}");
        }
        options(|_| {}).check().expect("the default is measurable");
    }
}
