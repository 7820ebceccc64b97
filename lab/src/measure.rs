//! One measurement: a new database, a closed loop against it, a count at the end, and the record
//! made of it.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use groupcommit::Ticket;

use crate::condition::Condition;
use crate::database::{Counted, count_rows};
use crate::driver::{Completion, Driven, Load, drive_blocking, drive_in_flight};
use crate::error::{Cause, LabError};
use crate::grouped_sqlite::{GroupCounts, GroupedSqlite};
use crate::measurement::{Measurement, ProgressPoint};
use crate::plain_sqlite::PlainSqlite;
use crate::statistics::{LatencyMs, effective_throughput_1ms};
use crate::workload::Workload;

/// The name of the database in the records.
const ENGINE: &str = "sqlite";

/// A point of the series is taken every so many rows.
const PROGRESS_ROWS: u64 = 10_000;

/// One combination of what is varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Who commits, and how.
    pub condition: Condition,
    /// Rows a transaction.
    pub batch: usize,
    /// Transactions outstanding at most.
    pub in_flight: usize,
    /// Threads that submit.
    pub threads: usize,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, batch {}", self.condition, self.batch)?;
        if self.condition.is_async() {
            write!(f, ", {} in flight", self.in_flight)?;
        }
        if self.threads > 1 {
            write!(f, ", {} threads", self.threads)?;
        }
        Ok(())
    }
}

/// What was noted in one measurement.
#[derive(Debug)]
pub(crate) struct Trial {
    driven: Driven,
    groups: GroupCounts,
    counted: Counted,
}

/// Drives `setting` against a new database at `path` and counts what it holds afterwards.
pub(crate) fn measure(
    setting: &Setting,
    workload: &Arc<Workload>,
    load: Load,
    path: &Path,
    running: impl FnMut(usize, Duration),
) -> Result<Trial, LabError> {
    let failed = |source: Cause| LabError::Transaction {
        condition: setting.condition.name(),
        batch: setting.batch,
        source,
    };
    let (driven, groups) = if let Some(modes) = setting.condition.sqlite_modes() {
        let sqlite = PlainSqlite::create(path, modes)?;
        let transact = |rows: Range<usize>| sqlite.transact(workload, rows).map_err(Cause::from);
        let driven = drive_blocking(load, setting.threads, transact, running).map_err(failed)?;
        sqlite.close(path)?;
        (driven, GroupCounts::ONE_COMMIT_A_CALL)
    } else {
        let sqlite = GroupedSqlite::create(path, workload)?;
        let before = sqlite.counters();
        let driven = if setting.condition.is_async() {
            let submit = |rows: Range<usize>| sqlite.submit(rows);
            let wait = |ticket: Ticket<_, _>| ticket.wait().map_err(Cause::from);
            drive_in_flight(load, setting.threads, setting.in_flight, submit, wait, running)
        } else {
            let transact = |rows: Range<usize>| sqlite.transact(rows).map_err(Cause::from);
            drive_blocking(load, setting.threads, transact, running)
        };
        let driven = driven.map_err(failed)?;
        let groups = sqlite.counters().since(before, driven.completions.len());
        sqlite.close(path)?;
        (driven, groups)
    };
    Ok(Trial { driven, groups, counted: count_rows(path)? })
}

impl Trial {
    fn acknowledged_rows(&self) -> u64 {
        self.driven.completions.iter().map(|completion| completion.rows).sum()
    }

    /// Whether the database holds what was acknowledged, row for row as far as the sum of the keys
    /// tells.
    pub(crate) fn verify(&self, setting: &Setting) -> Result<(), LabError> {
        let acknowledged_rows = self.acknowledged_rows();
        let acknowledged_key_sum = Workload::key_sum(acknowledged_rows);
        let found = self.counted;
        if found.rows == acknowledged_rows && found.key_sum == acknowledged_key_sum {
            return Ok(());
        }
        Err(LabError::Verification {
            condition: setting.condition.name(),
            batch: setting.batch,
            acknowledged_rows,
            acknowledged_key_sum,
            verified_rows: found.rows,
            verified_key_sum: found.key_sum,
        })
    }

    /// The record of this measurement.
    pub(crate) fn to_measurement(
        &self,
        experiment: &str,
        setting: &Setting,
        repeat: usize,
    ) -> Measurement {
        let completions = &self.driven.completions;
        let rows = self.acknowledged_rows();
        let seconds = completions.last().map_or(0.0, |last| seconds(last.at_ns));
        let rows_per_second = ratio(rows as f64, seconds);
        let latency_ms =
            LatencyMs::from_ns(completions.iter().map(|completion| completion.latency_ns));
        Measurement {
            experiment: experiment.to_owned(),
            engine: ENGINE.to_owned(),
            condition: setting.condition,
            durable: setting.condition.is_durable(),
            batch: setting.batch,
            in_flight: setting.in_flight,
            threads: setting.threads,
            repeat,
            rows,
            seconds,
            rows_per_second,
            latency_ms,
            completion_interval_ms: ratio(seconds * 1e3, completions.len() as f64),
            effective_throughput_1ms: effective_throughput_1ms(rows_per_second, latency_ms.mean),
            cpu_user_seconds: self.driven.cpu.user_seconds,
            cpu_system_seconds: self.driven.cpu.system_seconds,
            group_transactions_mean: self.groups.transactions_mean,
            flushes: self.groups.flushes,
            verified_rows: self.counted.rows,
            progress: progress(completions),
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// `over / under`, or 0 where there is nothing to divide by.
fn ratio(over: f64, under: f64) -> f64 {
    if under > 0.0 { over / under } else { 0.0 }
}

/// A point at the first completion past every [`PROGRESS_ROWS`] rows, and one at the last.
fn progress(completions: &[Completion]) -> Vec<ProgressPoint> {
    let mut points = Vec::new();
    let (mut rows, mut next_point) = (0, PROGRESS_ROWS);
    let (mut since_ns, mut transactions, mut latency_sum_ns) = (0_u64, 0_u64, 0_u64);
    for (index, completion) in completions.iter().enumerate() {
        rows += completion.rows;
        transactions += 1;
        latency_sum_ns += completion.latency_ns;
        if rows < next_point && index + 1 < completions.len() {
            continue;
        }
        let elapsed_seconds = seconds(completion.at_ns);
        points.push(ProgressPoint {
            rows,
            seconds: elapsed_seconds,
            rows_per_second: ratio(rows as f64, elapsed_seconds),
            latency_ms: latency_sum_ns as f64 / transactions as f64 / 1e6,
            completion_interval_ms: (completion.at_ns - since_ns) as f64
                / transactions as f64
                / 1e6,
        });
        next_point = (rows / PROGRESS_ROWS + 1) * PROGRESS_ROWS;
        (since_ns, transactions, latency_sum_ns) = (completion.at_ns, 0, 0);
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_time::CpuTime;

    const SETTING: Setting =
        Setting { condition: Condition::Wal, batch: 4_000, in_flight: 1, threads: 1 };

    /// Transactions of 4,000 rows, one every millisecond, each of which waited 2 ms.
    fn trial(transactions: u64, counted: Counted) -> Trial {
        let completions = (1..=transactions)
            .map(|index| Completion {
                at_ns: index * 1_000_000,
                latency_ns: 2_000_000,
                rows: 4_000,
            })
            .collect();
        let cpu = CpuTime { user_seconds: 0.25, system_seconds: 0.5 };
        Trial {
            driven: Driven { completions, cpu },
            groups: GroupCounts::ONE_COMMIT_A_CALL,
            counted,
        }
    }

    #[test]
    fn a_record_holds_what_was_noted() {
        let counted = Counted { rows: 20_000, key_sum: Workload::key_sum(20_000) };
        let record = trial(5, counted).to_measurement("write", &SETTING, 2);
        assert_eq!((record.rows, record.verified_rows, record.repeat), (20_000, 20_000, 2));
        let near = |found: f64, expected: f64| {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        };
        near(record.seconds, 0.005);
        near(record.rows_per_second, 4e6);
        near(record.latency_ms.mean, 2.0);
        near(record.completion_interval_ms, 1.0);
        near(record.effective_throughput_1ms, 2e6);
        near(record.cpu_user_seconds, 0.25);
        near(record.cpu_system_seconds, 0.5);
        assert!(record.durable);
        assert_eq!(record.flushes, None);
    }

    #[test]
    fn the_series_has_a_point_every_ten_thousand_rows_and_one_at_the_end() {
        let record =
            trial(7, Counted { rows: 28_000, key_sum: 0 }).to_measurement("write", &SETTING, 1);
        let rows: Vec<u64> = record.progress.iter().map(|point| point.rows).collect();
        assert_eq!(rows, [12_000, 20_000, 28_000]);
        for point in record.progress {
            assert!((point.latency_ms - 2.0).abs() < 1e-9);
            assert!((point.completion_interval_ms - 1.0).abs() < 1e-9);
            assert!((point.rows_per_second - 4e6).abs() < 1e-3);
        }
    }

    #[test]
    fn rows_that_are_missing_doubled_or_others_are_an_error() {
        let key_sum = Workload::key_sum(8_000);
        trial(2, Counted { rows: 8_000, key_sum }).verify(&SETTING).expect("all there");
        for counted in [
            Counted { rows: 7_999, key_sum },
            Counted { rows: 8_001, key_sum },
            Counted { rows: 8_000, key_sum: key_sum + 2 },
        ] {
            let error = trial(2, counted).verify(&SETTING).expect_err("differs");
            assert!(error.to_string().contains("condition wal (batch 4000)"), "{error}");
        }
    }

    #[test]
    fn nothing_completed_is_a_record_of_zeros() {
        let record = trial(0, Counted { rows: 0, key_sum: 0 }).to_measurement("write", &SETTING, 1);
        assert_eq!(record.rows, 0);
        assert!(
            [record.seconds, record.rows_per_second, record.completion_interval_ms]
                .iter()
                .all(|&v| v == 0.0)
        );
        assert!(record.progress.is_empty());
    }
}
