//! Experiment 1, mixed: after the rows are in, single operations, a read of a random key and a write
//! of one in turn.
//!
//! One caller. Where it blocks, each write is durable before the next read. `groupcommit-async`
//! keeps writes outstanding while it reads; its reads come from a snapshot of a connection of their
//! own and may not see writes that are still on their way, as those of the published experiment.
//! What it measures is the time until everything is durable.

use std::sync::Arc;
use std::time::Duration;

use crate::condition::Condition;
use crate::driver::Load;
use crate::error::LabError;
use crate::measure::{Data, Preloaded, preload};
use crate::measurement::Results;
use crate::operations::Operations;
use crate::session::{Common, Event, Session, at_least_one, check_settings};
use crate::setting::{Setting, Task};

/// What to measure, and where. The default is the published experiment, three times.
#[derive(Debug, Clone)]
pub struct MixedOptions {
    /// Rows that are there at the start.
    pub rows: usize,
    /// Reads and writes together, alternating.
    pub operations: usize,
    /// Writes outstanding, one setting each, for conditions whose caller does not block.
    pub in_flight: Vec<usize>,
    /// Which conditions.
    pub conditions: Vec<Condition>,
    /// After this long a measurement submits no more, and records the operations it has.
    pub time_limit: Duration,
    /// Repeats, folders, seed, flush delays.
    pub common: Common,
}

impl Default for MixedOptions {
    fn default() -> Self {
        Self {
            rows: 1_000_000,
            operations: 2_000_000,
            in_flight: vec![1_000],
            conditions: Condition::ALL.to_vec(),
            time_limit: Duration::from_mins(1),
            common: Common::default(),
        }
    }
}

impl MixedOptions {
    /// Whether the options can be measured.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        at_least_one("rows", self.rows)?;
        if self.operations < 2 {
            return Err(LabError::Options("--operations must be at least 2".to_owned()));
        }
        self.in_flight.iter().try_for_each(|&in_flight| at_least_one("in-flight", in_flight))?;
        if self.common.engine.is_server() {
            return Err(LabError::Options(format!(
                "the mixed task is not measured on {}: each of its measurements begins with a copy of the \
                 files of a filled database, and a server's cannot be copied under it; use `bench write` \
                 for writes, and `bench web` for reads and writes together",
                self.common.engine.title()
            )));
        }
        Condition::check_all(&self.conditions, Condition::of_mixed(self.common.engine), "mixed")?;
        self.common.check()?;
        check_settings(&self.settings())
    }

    fn settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        for &condition in &self.conditions {
            let in_flight = if condition.is_async() { &self.in_flight[..] } else { &[1] };
            settings.extend(in_flight.iter().map(|&in_flight| Setting {
                task: Task::Mixed,
                condition,
                batch: 1,
                in_flight,
                threads: 1,
                flush_delay: Duration::ZERO,
            }));
        }
        self.common.delayed(&settings)
    }

    /// Measures into `session`.
    pub(crate) fn run(&self, session: &mut Session<'_>) -> Result<(), LabError> {
        let data = Data::rows(&self.common, self.rows);
        let database = session.folder().join("preloaded.db");
        preload(self.common.engine, &database, &data.workload)?;
        let Common { seed, value_bytes, .. } = self.common;
        let operations =
            Arc::new(Operations::generate(self.operations, self.rows, seed, value_bytes));
        let load = Load { rows: operations.count(), batch: 1, limit: self.time_limit };
        let data = Data { preloaded: Some(Preloaded { database, operations }), ..data };
        session.run(&self.settings(), &data, |_| load)
    }
}

/// Runs the experiment and returns the records, which are also in the folder of `options`.
///
/// # Errors
/// As [`run_write`](crate::write::run_write).
pub fn run_mixed(
    options: &MixedOptions,
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
    use crate::engine::Engine;

    #[test]
    fn only_async_has_a_window() {
        let options = MixedOptions { in_flight: vec![10, 100], ..MixedOptions::default() };
        let settings = options.settings();
        assert_eq!(settings.len(), 4 + 2);
        assert!(settings.iter().all(|s| s.condition.is_async() || s.in_flight == 1));
    }

    #[test]
    fn senseless_options_are_refused_by_name() {
        let refused = |change: fn(&mut MixedOptions), named: &str| {
            let mut options = MixedOptions::default();
            change(&mut options);
            let error = options.check().expect_err("refused").to_string();
            assert!(error.contains(named), "{error}");
        };
        refused(|o| o.rows = 0, "--rows");
        refused(|o| o.operations = 1, "--operations");
        refused(|o| o.in_flight = vec![0], "--in-flight");
        refused(|o| o.conditions = vec![Condition::Shared], "shared is not");
        refused(|o| o.conditions = vec![Condition::Wal, Condition::Wal], "twice");
        refused(|o| o.conditions.clear(), "nothing to measure");
        refused(|o| o.common.engine = Engine::Postgres, "`bench web`");
        MixedOptions::default().check().expect("the default is measurable");
    }
}
