//! Experiment 1, mixed: after the rows are in, single operations, a read of a random key and a write
//! of one in turn.
//!
//! One caller. Where it blocks, each write is durable before the next read. `groupcommit-async`
//! keeps writes outstanding while it reads; its reads come from a snapshot of a connection of their
//! own and may not see writes that are still on their way, as those of the published experiment.
//! What it measures is the time until everything is durable.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use crate::condition::Condition;
use crate::driver::Load;
use crate::error::LabError;
use crate::measure::{Data, preload};
use crate::options::{Common, at_least_one, check_settings, seconds};
use crate::session::{Experiment, Session};
use crate::setting::{Setting, Task};
use crate::workload::Operations;

/// What to measure. The default is the published experiment, three times.
#[derive(Debug, Clone, Args)]
pub struct MixedOptions {
    /// Rows in the table at the start
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = at_least_one)]
    pub rows: usize,

    /// Reads and writes together, in each measurement
    #[arg(long, value_name = "N", default_value = "2000000", value_parser = at_least_one)]
    pub operations: usize,

    /// Writes outstanding, for `groupcommit-async`
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1000", value_parser = at_least_one)]
    pub in_flight: Vec<usize>,

    /// Conditions to measure [default: every condition of the engine]
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide_possible_values = true)]
    pub conditions: Vec<Condition>,

    /// End a measurement after this many seconds, with the operations done by then
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds)]
    pub seconds_limit: Duration,

    /// What every experiment takes
    #[command(flatten)]
    pub common: Common,
}

impl MixedOptions {
    fn settings(&self) -> Result<Vec<Setting>, LabError> {
        let known = Condition::of_mixed(self.common.engine());
        let mut settings = Vec::new();
        for condition in Condition::choose(&self.conditions, known, "mixed")? {
            let in_flight = if condition.is_async() { &self.in_flight[..] } else { &[1] };
            let setting = |&in_flight| Setting::of(Task::Mixed, condition, 1, in_flight, 1);
            settings.extend(in_flight.iter().map(setting));
        }
        Ok(self.common.delayed(&settings))
    }
}

impl Experiment for MixedOptions {
    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self) -> Result<(), LabError> {
        let refuse = |reason: &str| Err(LabError::Options(reason.to_owned()));
        if self.operations < 2 {
            return refuse("--operations must be at least 2");
        }
        if self.common.engine().is_server() {
            return refuse(
                "the mixed task is not measured on a server, whose filled database cannot be copied for \
                 each measurement; use `write` for writes, and `web` for reads and writes together",
            );
        }
        check_settings(&self.settings()?)
    }

    fn measure(&self, session: &mut Session<'_>) -> Result<(), LabError> {
        let data = Data::rows(&self.common, self.rows);
        let database = session.folder().join("preloaded.db");
        preload(&data, &database)?;
        let Common { seed, value_bytes, .. } = self.common;
        let operations =
            Arc::new(Operations::generate(self.operations, self.rows, seed, value_bytes));
        let load = Load { rows: operations.count(), batch: 1, limit: self.seconds_limit };
        let data = Data { mixed: Some((database, operations)), ..data };
        session.run(&self.settings()?, &data, |_| load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    #[test]
    fn only_async_has_a_window() {
        let options: MixedOptions = parse("--in-flight 10,100").expect("parses");
        let settings = options.settings().expect("measurable");
        assert_eq!(settings.len(), 4 + 2);
        assert!(settings.iter().all(|s| s.condition.is_async() || s.in_flight == 1));
    }

    #[test]
    fn senseless_options_are_refused_by_name() {
        for (line, named) in [
            ("--operations 1", "--operations"),
            ("--conditions shared", "shared is not"),
            ("--conditions wal,wal", "twice"),
            ("--engine postgres", "`web` for reads"),
        ] {
            let options = parse::<MixedOptions>(line).expect("parses");
            let error = options.check().expect_err(line).to_string();
            assert!(error.contains(named), "{error}");
        }
        parse::<MixedOptions>("--in-flight 0").expect_err("nothing outstanding");
        parse::<MixedOptions>("--rows 0").expect_err("no rows");
        parse::<MixedOptions>("").expect("parses").check().expect("the default is measurable");
    }
}
