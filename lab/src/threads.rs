//! Experiment 2, transaction merging: threads that each insert single documents, every one in a
//! durable transaction of its own.
//!
//! `shared`: the threads take turns on one connection behind a mutex. `connections`: each has its
//! own, and SQLite's busy handler, or the server, keeps order. `merged`: they block in groupcommit,
//! which commits together whatever waits.

use std::time::Duration;

use clap::Args;

use crate::condition::Condition;
use crate::driver::Load;
use crate::error::LabError;
use crate::measure::Data;
use crate::options::{Common, at_least_one, check_settings, seconds};
use crate::session::{Experiment, Session};
use crate::setting::{Setting, Task};

/// What to measure.
#[derive(Debug, Clone, Args)]
pub struct ThreadsOptions {
    /// Numbers of threads [default: 1,2,4,8,16,32,64,128,256; up to 64 on a server]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = at_least_one)]
    pub threads: Vec<usize>,

    /// Documents to insert at most, in each measurement
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = at_least_one)]
    pub rows: usize,

    /// Conditions to measure [default: every condition of the engine]
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide_possible_values = true)]
    pub conditions: Vec<Condition>,

    /// End a measurement after this many seconds
    #[arg(long, value_name = "S", default_value = "3", value_parser = seconds)]
    pub seconds_limit: Duration,

    /// What every experiment takes
    #[command(flatten)]
    pub common: Common,
}

impl ThreadsOptions {
    fn settings(&self) -> Result<Vec<Setting>, LabError> {
        let engine = self.common.engine();
        let conditions =
            Condition::choose(&self.conditions, Condition::of_threads(engine), "threads")?;
        // Each thread may have a connection, and a server takes about a hundred.
        let most = if engine.is_server() { 6 } else { 8 };
        let all = (0..=most).map(|power| 1 << power).collect();
        let threads = if self.threads.is_empty() { all } else { self.threads.clone() };
        let setting = |threads| {
            let of = move |&condition| Setting::of(Task::Threads, condition, 1, threads, threads);
            conditions.iter().map(of)
        };
        Ok(self.common.delayed(&threads.into_iter().flat_map(setting).collect::<Vec<_>>()))
    }
}

impl Experiment for ThreadsOptions {
    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self) -> Result<(), LabError> {
        check_settings(&self.settings()?)
    }

    fn measure(&self, session: &mut Session<'_>) -> Result<(), LabError> {
        let data = Data::rows(&self.common, self.rows);
        let load = Load { rows: self.rows, batch: 1, limit: self.seconds_limit };
        session.run(&self.settings()?, &data, |_| load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    #[test]
    fn the_default_goes_from_1_to_256_threads_under_three_conditions() {
        let options: ThreadsOptions = parse("").expect("parses");
        let settings = options.settings().expect("measurable");
        assert_eq!(settings.len(), 9 * 3);
        assert_eq!((settings[0].threads, settings[26].threads), (1, 256));
        options.check().expect("the default is measurable");
        let server: ThreadsOptions = parse("--engine postgres").expect("parses");
        let settings = server.settings().expect("measurable");
        assert!(settings.iter().all(|setting| setting.threads <= 64));
    }

    #[test]
    fn conditions_of_other_experiments_are_refused() {
        let options: ThreadsOptions = parse("--conditions wal").expect("parses");
        let error = options.check().expect_err("refused").to_string();
        assert!(error.contains("wal is not") && error.contains("merged"), "{error}");
        parse::<ThreadsOptions>("--threads 0").expect_err("no thread");
    }
}
