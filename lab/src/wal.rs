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

use crate::condition::Condition;
use crate::engine::Engine;
use crate::error::LabError;
use crate::measurement::Results;
use crate::session::{Common, Event, Session, at_least_one, check_settings};
use crate::setting::{Benchmark, Setting, Task};

/// Bytes of a key, as in RocksDB's own benchmark.
pub const KEY_BYTES: usize = 16;

/// What to measure, and where. The default is the published experiment.
#[derive(Debug, Clone)]
pub struct WalOptions {
    /// Entries to write, and to read.
    pub rows: usize,
    /// Tickets outstanding, through groupcommit.
    pub in_flight: usize,
    /// Which of [`Condition::WAL`].
    pub conditions: Vec<Condition>,
    /// After this long a measurement submits no more, and records what it has.
    pub time_limit: Duration,
    /// Repeats, folders, seed. The published mean is over 10 repeats.
    pub common: Common,
}

impl Default for WalOptions {
    fn default() -> Self {
        Self {
            rows: 1_000_000,
            in_flight: 1_000,
            conditions: Condition::WAL.to_vec(),
            time_limit: Duration::from_secs(10),
            common: Common {
                engine: Engine::Rocksdb,
                value_bytes: 100,
                repeats: 10,
                ..Common::default()
            },
        }
    }
}

impl WalOptions {
    /// Whether the options can be measured.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        at_least_one("rows", self.rows)?;
        at_least_one("in-flight", self.in_flight)?;
        Condition::check_all(&self.conditions, &Condition::WAL, "wal")?;
        if self.common.flush_delays.iter().any(|delay| !delay.is_zero()) {
            return Err(LabError::Options(
                "RocksDB's own flushes cannot be delayed; leave --flush-delay out".to_owned(),
            ));
        }
        self.common.check()?;
        check_settings(&self.settings())
    }

    /// Every combination to be measured, in the order of one round.
    fn settings(&self) -> Vec<Setting> {
        let of = |&condition: &Condition| {
            let in_flight = if condition.is_grouped() { self.in_flight } else { 1 };
            Benchmark::ALL.map(move |benchmark| Setting {
                task: Task::Wal(benchmark),
                condition,
                batch: 1,
                in_flight: if benchmark == Benchmark::Readrandom { 1 } else { in_flight },
                threads: 1,
                flush_delay: Duration::ZERO,
            })
        };
        self.conditions.iter().flat_map(of).collect()
    }
}

/// Runs the experiment and returns the records, which are also in the folder of `options`.
///
/// # Errors
/// As [`run_write`](crate::write::run_write); and when this program was built without RocksDB.
pub fn run_wal(
    options: &WalOptions,
    mut observe: impl FnMut(Event<'_>),
) -> Result<Results, LabError> {
    options.check()?;
    Engine::Rocksdb.check()?;
    #[cfg(feature = "rocksdb")]
    {
        let mut session = Session::begin(&options.common, &mut observe)?;
        fill::run(options, &options.settings(), &mut session)?;
        session.end()
    }
    #[cfg(not(feature = "rocksdb"))]
    Session::begin(&options.common, &mut observe)?.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_runs_every_benchmark() {
        let settings = WalOptions::default().settings();
        assert_eq!(settings.len(), 4 * 3);
        assert_eq!(settings.iter().filter(|setting| setting.in_flight == 1_000).count(), 2);
        assert_eq!(settings[0].to_string(), "wal, no-wal, fillseq");
    }

    #[test]
    fn senseless_options_are_refused_by_name() {
        let refused = |change: fn(&mut WalOptions), named: &str| {
            let mut options = WalOptions::default();
            change(&mut options);
            let error = options.check().expect_err("refused").to_string();
            assert!(error.contains(named), "{error}");
        };
        refused(|o| o.rows = 0, "--rows");
        refused(|o| o.in_flight = 0, "--in-flight");
        refused(|o| o.conditions = vec![Condition::Wal], "wal is not");
        refused(|o| o.common.flush_delays = vec![Duration::from_millis(1)], "--flush-delay");
    }
}
