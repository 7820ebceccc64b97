//! Experiment 4, the price of the write-ahead log: RocksDB's own benchmarks with the log off, on and
//! not flushed, flushed by every write, and through groupcommit.
//!
//! 1. Every condition writes the same entries, of 16-byte keys and 100-byte values of which half can
//!    be compressed, one a call or transaction.
//! 2. `readrandom` reads what `fillrandom` of the same condition and repeat left, and what that had
//!    no time for is put in before: every condition reads among the same entries.
//! 3. When the clock has stopped, what is in memory is written to table files and compacted, in
//!    every condition; only then are bytes counted.

#[cfg(feature = "rocksdb")]
mod entries;
#[cfg(feature = "rocksdb")]
mod fill;

use std::time::Duration;

use clap::Args;

use crate::condition::Condition;
#[cfg(feature = "rocksdb")]
use crate::driver::Load;
use crate::engine::Engine;
use crate::error::LabError;
use crate::options::{Common, at_least_one, check_settings, seconds};
use crate::session::{Experiment, Session};
use crate::setting::{Benchmark, Setting, Task};

/// What to measure. The default is the published experiment.
#[derive(Debug, Clone, Args)]
#[command(
    mut_arg("engine", |arg| arg.default_value("rocksdb").hide(true)),
    mut_arg("value_bytes", |arg| arg.default_value("100").help("Bytes of each value, half of them compressible")),
    mut_arg("repeat", |arg| arg.default_value("10")),
    mut_arg("url", |arg| arg.hide(true)),
    mut_arg("flush_delay", |arg| arg.hide(true))
)]
pub struct WalOptions {
    /// Entries to write, and to read, in each measurement
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = at_least_one)]
    pub rows: usize,

    /// Tickets outstanding, for `groupcommit`
    #[arg(long, value_name = "N", default_value = "1000", value_parser = at_least_one)]
    pub in_flight: usize,

    /// Conditions to measure [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide_possible_values = true)]
    pub conditions: Vec<Condition>,

    /// End a measurement after this many seconds, with the entries written by then
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    pub seconds_limit: Duration,

    /// What every experiment takes
    #[command(flatten)]
    pub common: Common,
}

impl WalOptions {
    /// Every combination to be measured, in the order of one round.
    fn settings(&self) -> Result<Vec<Setting>, LabError> {
        let of = |condition: Condition| {
            let in_flight = if condition.is_grouped() { self.in_flight } else { 1 };
            Benchmark::ALL.map(move |benchmark| {
                let in_flight = if benchmark == Benchmark::Readrandom { 1 } else { in_flight };
                Setting::of(Task::Wal(benchmark), condition, 1, in_flight, 1)
            })
        };
        let conditions = Condition::choose(&self.conditions, &Condition::WAL, "wal")?;
        Ok(conditions.into_iter().flat_map(of).collect())
    }
}

impl Experiment for WalOptions {
    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self) -> Result<(), LabError> {
        if self.common.engine() != Engine::Rocksdb {
            return Err(LabError::Options("`wal` is measured on RocksDB alone".to_owned()));
        }
        check_settings(&self.settings()?)
    }

    #[cfg(feature = "rocksdb")]
    fn measure(&self, session: &mut Session<'_>) -> Result<(), LabError> {
        let Common { repeat, seed, value_bytes, .. } = self.common;
        let entries = entries::Entries::generate(self.rows, seed, value_bytes);
        let load = Load { rows: self.rows, batch: 1, limit: self.seconds_limit };
        fill::run(&entries, load, repeat, &self.settings()?, session)
    }

    #[cfg(not(feature = "rocksdb"))]
    fn measure(&self, _: &mut Session<'_>) -> Result<(), LabError> {
        Engine::Rocksdb.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    #[test]
    fn every_condition_runs_every_benchmark() {
        let options: WalOptions = parse("").expect("parses");
        let settings = options.settings().expect("measurable");
        assert_eq!(settings.len(), 4 * 3);
        assert_eq!(settings.iter().filter(|setting| setting.in_flight == 1_000).count(), 2);
        assert_eq!(settings[0].to_string(), "wal, no-wal, fillseq");
        options.check().expect("the default is measurable");
        let Common { value_bytes, repeat, .. } = options.common;
        assert_eq!((value_bytes, repeat), (100, 10));
    }

    #[test]
    fn senseless_options_are_refused_by_name() {
        parse::<WalOptions>("--rows 0").expect_err("no rows");
        parse::<WalOptions>("--in-flight 0").expect_err("nothing outstanding");
        let check = |line| parse::<WalOptions>(line).expect("parses").check().expect_err(line);
        assert!(check("--conditions wal").to_string().contains("wal is not"));
        assert!(check("--engine sqlite").to_string().contains("RocksDB"));
    }
}
