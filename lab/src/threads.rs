//! Experiment 2, transaction merging: threads that each insert single documents, every one in a
//! durable transaction of its own.
//!
//! `shared`: the threads take turns on one connection behind a mutex. `connections`: each has its
//! own, and SQLite's busy handler, or the server, keeps order. `merged`: they block in groupcommit,
//! which commits together whatever waits.

use std::time::Duration;

use crate::condition::Condition;
use crate::driver::Load;
use crate::engine::Engine;
use crate::error::LabError;
use crate::measure::Data;
use crate::measurement::Results;
use crate::session::{Common, Event, Session, at_least_one, check_settings};
use crate::setting::{Setting, Task};

/// What to measure, and where.
#[derive(Debug, Clone)]
pub struct ThreadsOptions {
    /// Numbers of threads, one setting each.
    pub threads: Vec<usize>,
    /// Documents at most, in each measurement.
    pub rows: usize,
    /// After this long a measurement submits no more.
    pub time_limit: Duration,
    /// Which of [`Condition::of_threads`].
    pub conditions: Vec<Condition>,
    /// Repeats, folders, seed, flush delays.
    pub common: Common,
}

impl Default for ThreadsOptions {
    fn default() -> Self {
        Self {
            threads: Self::threads_of(Engine::Sqlite),
            rows: 1_000_000,
            time_limit: Duration::from_secs(3),
            conditions: Condition::THREADS.to_vec(),
            common: Common::default(),
        }
    }
}

impl ThreadsOptions {
    /// Numbers of threads: powers of two up to 256; on a server up to 64, each of which may have a
    /// connection of its own, and a server takes about a hundred unless it was told otherwise.
    #[must_use]
    pub fn threads_of(engine: Engine) -> Vec<usize> {
        let most = if engine.is_server() { 6 } else { 8 };
        (0..=most).map(|power| 1 << power).collect()
    }

    /// Whether the options can be measured.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        at_least_one("rows", self.rows)?;
        self.threads.iter().try_for_each(|&threads| at_least_one("threads", threads))?;
        Condition::check_all(
            &self.conditions,
            Condition::of_threads(self.common.engine),
            "threads",
        )?;
        self.common.check()?;
        check_settings(&self.settings())
    }

    fn settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        for &threads in &self.threads {
            settings.extend(self.conditions.iter().map(|&condition| Setting {
                task: Task::Threads,
                condition,
                batch: 1,
                in_flight: threads,
                threads,
                flush_delay: Duration::ZERO,
            }));
        }
        self.common.delayed(&settings)
    }

    /// Measures into `session`.
    pub(crate) fn run(&self, session: &mut Session<'_>) -> Result<(), LabError> {
        let data = Data::rows(&self.common, self.rows);
        let load = Load { rows: self.rows, batch: 1, limit: self.time_limit };
        session.run(&self.settings(), &data, |_| load)
    }
}

/// Runs the experiment and returns the records, which are also in the folder of `options`.
///
/// # Errors
/// As [`run_write`](crate::write::run_write).
pub fn run_threads(
    options: &ThreadsOptions,
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

    #[test]
    fn the_default_goes_from_1_to_256_threads_under_three_conditions() {
        let settings = ThreadsOptions::default().settings();
        assert_eq!(settings.len(), 9 * 3);
        assert_eq!((settings[0].threads, settings[26].threads), (1, 256));
    }

    #[test]
    fn conditions_of_other_experiments_are_refused() {
        let options =
            ThreadsOptions { conditions: vec![Condition::Wal], ..ThreadsOptions::default() };
        let error = options.check().expect_err("refused").to_string();
        assert!(error.contains("wal is not") && error.contains("merged"), "{error}");
        ThreadsOptions::default().check().expect("the default is measurable");
    }
}
