//! Experiment 1, pure write: rows of an integer key and a text, by rows a transaction, condition
//! and number in flight.

use std::time::Duration;

use crate::condition::Condition;
use crate::driver::{Load, submitting_threads};
use crate::engine::Engine;
use crate::error::LabError;
use crate::measure::Data;
use crate::measurement::Results;
use crate::session::{Common, Event, Session, at_least_one, check_settings};
use crate::setting::{Setting, Task};

/// What to measure, and where. The default is the published experiment, three times.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// Rows to write in each measurement.
    pub rows: usize,
    /// Rows a transaction, one setting each.
    pub batches: Vec<usize>,
    /// Tickets outstanding, one setting each, for conditions whose callers do not block.
    pub in_flight: Vec<usize>,
    /// Threads that submit, one setting each for conditions whose callers block; the others submit
    /// from the first of these.
    pub threads: Vec<usize>,
    /// Which conditions.
    pub conditions: Vec<Condition>,
    /// After this long a measurement submits no more, and records the rows it has.
    pub time_limit: Duration,
    /// Repeats, folders, seed, flush delays.
    pub common: Common,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            rows: 1_000_000,
            batches: Self::batches_of(Engine::Sqlite),
            in_flight: vec![1_000],
            threads: vec![1],
            conditions: Condition::ALL.to_vec(),
            time_limit: Duration::from_mins(1),
            common: Common::default(),
        }
    }
}

impl WriteOptions {
    /// Rows a transaction: as published for SQLite; elsewhere single rows are set against batches
    /// made by hand.
    #[must_use]
    pub fn batches_of(engine: Engine) -> Vec<usize> {
        if engine == Engine::Sqlite { vec![1, 10, 100, 1_000] } else { vec![1] }
    }

    /// Whether the options can be measured.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        let refuse = |reason: String| Err(LabError::Options(reason));
        at_least_one("rows", self.rows)?;
        at_least_one("threads", self.threads.len())?;
        self.threads.iter().try_for_each(|&threads| at_least_one("threads", threads))?;
        self.batches.iter().try_for_each(|&batch| at_least_one("batch", batch))?;
        self.in_flight.iter().try_for_each(|&in_flight| at_least_one("in-flight", in_flight))?;
        Condition::check_all(&self.conditions, Condition::of_write(self.common.engine), "write")?;
        self.common.check()?;
        if self.time_limit.is_zero() {
            return refuse("--seconds-limit must be more than 0".to_owned());
        }
        if let Some(batch) = self.batches.iter().find(|&&batch| batch > self.rows) {
            return refuse(format!("--batch {batch} is more than --rows {} can fill", self.rows));
        }
        check_settings(&self.settings())
    }

    /// Measures into `session`.
    pub(crate) fn run(&self, session: &mut Session<'_>) -> Result<(), LabError> {
        let data = Data::rows(&self.common, self.rows);
        session.run(&self.settings(), &data, |setting| Load {
            rows: self.rows,
            batch: setting.batch,
            limit: self.time_limit,
        })
    }

    /// Every combination to be measured, in the order of one round.
    fn settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        let submitting = self.threads.first().copied().unwrap_or(1);
        for &batch in &self.batches {
            for &condition in &self.conditions {
                let setting = |in_flight, threads| Setting {
                    task: Task::Write,
                    condition,
                    batch,
                    in_flight,
                    threads,
                    flush_delay: Duration::ZERO,
                };
                if condition.is_async() {
                    settings.extend(self.in_flight.iter().map(|&in_flight| {
                        setting(in_flight, submitting_threads(submitting, in_flight))
                    }));
                } else if condition == Condition::SyncThreads {
                    settings.push(setting(Condition::SYNC_THREADS, Condition::SYNC_THREADS));
                } else if condition == Condition::OneConnection {
                    settings.push(setting(1, 1));
                } else if condition == Condition::Connections {
                    let connections = Condition::SERVER_CONNECTIONS;
                    settings.push(setting(connections, connections));
                } else if condition != Condition::Batched {
                    settings.extend(self.threads.iter().map(|&threads| setting(threads, threads)));
                }
            }
        }
        // By hand there is one number of rows, whatever the others have.
        settings.extend(self.conditions.contains(&Condition::Batched).then_some(Setting {
            task: Task::Write,
            condition: Condition::Batched,
            batch: Condition::BATCHED_ROWS.min(self.rows),
            in_flight: submitting,
            threads: submitting,
            flush_delay: Duration::ZERO,
        }));
        self.common.delayed(&settings)
    }
}

/// Runs the experiment and returns the records, which are also in the folder of `options`.
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
    let mut session = Session::begin(&options.common, &mut observe)?;
    options.run(&mut session)?;
    session.end()
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
            o.threads = vec![25, 40];
        })
        .settings();
        assert_eq!(settings.len(), 2 * (4 * 2 + 2));
        for setting in settings {
            if setting.condition.is_async() {
                assert_eq!(setting.threads, setting.in_flight.min(25));
            } else {
                assert_eq!(setting.in_flight, setting.threads);
                assert!([25, 40].contains(&setting.threads));
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
            (options(|o| o.threads = vec![0]), "--threads"),
            (options(|o| o.common.repeats = 0), "--repeat"),
            (options(|o| o.time_limit = Duration::ZERO), "--seconds-limit"),
            (options(|o| o.conditions.clear()), "nothing to measure"),
            (options(|o| o.batches = vec![10, 10]), "twice"),
            (options(|o| o.conditions = vec![Condition::Merged]), "merged is not"),
        ] {
            let error = options.check().expect_err("refused");
            assert!(error.to_string().contains(named), "{error}");
        }
        options(|_| {}).check().expect("the default is measurable");
    }
}
