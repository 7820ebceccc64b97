//! Experiment 1, pure write: rows of an integer key and a text, by rows a transaction, condition
//! and number in flight.

use std::time::Duration;

use clap::Args;

use crate::condition::Condition;
use crate::driver::{Load, submitting_threads};
use crate::engine::Engine;
use crate::error::LabError;
use crate::measure::Data;
use crate::options::{Common, at_least_one, check_settings, seconds};
use crate::session::{Experiment, Session};
use crate::setting::{Setting, Task};

/// What to measure. The default is the published experiment, three times.
#[derive(Debug, Clone, Args)]
pub struct WriteOptions {
    /// Rows to write in each measurement
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = at_least_one)]
    pub rows: usize,

    /// Rows a transaction [default: 1,10,100,1000; 1 for engines other than SQLite]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = at_least_one)]
    pub batch: Vec<usize>,

    /// Tickets outstanding, for `groupcommit-async`
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1000", value_parser = at_least_one)]
    pub in_flight: Vec<usize>,

    /// Threads that submit, for conditions whose callers block; `groupcommit-async` uses the first
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1", value_parser = at_least_one)]
    pub threads: Vec<usize>,

    /// Conditions to measure [default: every condition of the engine]
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide_possible_values = true)]
    pub conditions: Vec<Condition>,

    /// End a measurement after this many seconds, with the rows written by then
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds)]
    pub seconds_limit: Duration,

    /// What every experiment takes
    #[command(flatten)]
    pub common: Common,
}

impl WriteOptions {
    /// Every combination to be measured, in the order of one round.
    fn settings(&self) -> Result<Vec<Setting>, LabError> {
        let engine = self.common.engine();
        let known = Condition::of_write(engine);
        let conditions = Condition::choose(&self.conditions, known, "write")?;
        let mut settings = Vec::new();
        for &batch in self.batches() {
            for &condition in &conditions {
                let setting = |in_flight, threads| {
                    Setting::of(Task::Write, condition, batch, in_flight, threads)
                };
                match condition {
                    Condition::GroupcommitAsync => {
                        settings.extend(self.in_flight.iter().map(|&in_flight| {
                            setting(in_flight, submitting_threads(self.threads[0], in_flight))
                        }));
                    }
                    // By hand there is one number of rows, whatever the others have.
                    Condition::Batched => {}
                    Condition::SyncThreads => {
                        settings.push(setting(Condition::SYNC_THREADS, Condition::SYNC_THREADS));
                    }
                    Condition::OneConnection => settings.push(setting(1, 1)),
                    Condition::Connections | Condition::AsyncCommit => {
                        let connections = Condition::SERVER_CONNECTIONS;
                        settings.push(setting(connections, connections));
                    }
                    _ => settings.extend(self.threads.iter().map(|&n| setting(n, n))),
                }
            }
        }
        if conditions.contains(&Condition::Batched) {
            let rows = Condition::BATCHED_ROWS.min(self.rows);
            let threads = self.threads[0];
            settings.push(Setting::of(Task::Write, Condition::Batched, rows, threads, threads));
        }
        Ok(self.common.delayed(&settings))
    }

    /// Rows a transaction: as published for SQLite; elsewhere single rows stand beside batches made
    /// by hand.
    fn batches(&self) -> &[usize] {
        match self.common.engine() {
            _ if !self.batch.is_empty() => &self.batch,
            Engine::Sqlite => &[1, 10, 100, 1_000],
            _ => &[1],
        }
    }
}

impl Experiment for WriteOptions {
    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self) -> Result<(), LabError> {
        if let Some(batch) = self.batches().iter().find(|&&batch| batch > self.rows) {
            let rows = self.rows;
            let reason = format!("--batch {batch} is more than --rows {rows} can fill");
            return Err(LabError::Options(reason));
        }
        check_settings(&self.settings()?)
    }

    fn measure(&self, session: &mut Session<'_>) -> Result<(), LabError> {
        let data = Data::rows(&self.common, self.rows);
        let limit = self.seconds_limit;
        session.run(&self.settings()?, &data, |setting| Load {
            rows: self.rows,
            batch: setting.batch,
            limit,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    #[test]
    fn the_window_multiplies_async_settings_only() {
        let options: WriteOptions =
            parse("--batch 1,10 --in-flight 16,64 --threads 25,40").expect("parses");
        let settings = options.settings().expect("measurable");
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
        for (line, named) in [
            ("--rows 0", "--rows"),
            ("--batch 1,0", "--batch"),
            ("--batch 1,,10", "--batch"),
            ("--batch ten", "--batch"),
            ("--in-flight 0", "--in-flight"),
            ("--threads 0", "--threads"),
            ("--conditions fastest", "--conditions"),
            ("--seconds-limit 0", "--seconds-limit"),
            ("--seconds-limit inf", "--seconds-limit"),
        ] {
            let error = parse::<WriteOptions>(line).expect_err(line).to_string();
            assert!(error.contains(named), "{error}");
        }
        for (line, named) in [
            ("--rows 999", "--batch 1000"),
            ("--batch 10,10", "twice"),
            ("--conditions merged", "merged is not"),
        ] {
            let options = parse::<WriteOptions>(line).expect("parses");
            let error = options.check().expect_err(line).to_string();
            assert!(error.contains(named), "{error}");
        }
        parse::<WriteOptions>("").expect("parses").check().expect("the default is measurable");
    }
}
