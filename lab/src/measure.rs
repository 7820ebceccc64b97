//! One measurement: a new database, a closed loop against it, a count at the end, and the record
//! made of it.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use groupcommit::Ticket;

use crate::database::Counted;
use crate::driver::{Completion, Driven, Load, drive_blocking, drive_in_flight, drive_mixed};
use crate::engine::{Adapter, Engine, GroupCounts, Grouped, Plain};
use crate::error::{Cause, LabError};
use crate::flush_delay::FlushDelay;
use crate::measurement::{Measurement, ProgressPoint};
use crate::open_loop::{drive_open, poisson_arrivals};
use crate::operations::{Operations, compare};
use crate::session::{Common, settle};
use crate::setting::{Setting, Task, milliseconds};
use crate::sqlite::Sqlite;
use crate::statistics::{Distribution, effective_throughput_1ms};
use crate::workload::Workload;

/// A point of the series is taken every so many rows.
const PROGRESS_ROWS: u64 = 10_000;

/// What the callers work on.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) engine: Engine,
    pub(crate) workload: Arc<Workload>,
    pub(crate) preloaded: Option<Preloaded>,
    /// Of arrivals.
    pub(crate) seed: u64,
}

/// A table that is there at the start, and the operations on it.
#[derive(Debug)]
pub(crate) struct Preloaded {
    pub(crate) database: PathBuf,
    pub(crate) operations: Arc<Operations>,
}

impl Data {
    /// Rows to be inserted into an empty table.
    pub(crate) fn rows(common: &Common, rows: usize) -> Self {
        let workload = Arc::new(common.workload(rows));
        Self { engine: common.engine, workload, preloaded: None, seed: common.seed }
    }
}

/// What was noted in one measurement.
#[derive(Debug)]
pub(crate) struct Trial {
    engine: Engine,
    driven: Driven,
    groups: GroupCounts,
    /// Rows found at the end.
    verified_rows: u64,
    /// What was found wrong with them.
    doubt: Option<Doubt>,
}

/// In which way the database is not what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    Rows(Counted),
    Content { key: i64 },
}

/// Drives `setting` against a new database at `path` and looks at what it holds afterwards.
pub(crate) fn measure(
    setting: &Setting,
    data: &Data,
    load: Load,
    path: &Path,
    running: &mut dyn FnMut(usize, Duration),
) -> Result<Trial, LabError> {
    match data.engine {
        Engine::Sqlite => measure_on::<Sqlite>(setting, data, load, path, running),
        #[cfg(feature = "lmdb")]
        Engine::Lmdb => measure_on::<crate::lmdb::Lmdb>(setting, data, load, path, running),
        #[cfg(feature = "rocksdb")]
        Engine::Rocksdb => {
            measure_on::<crate::rocksdb::Rocksdb>(setting, data, load, path, running)
        }
        #[cfg(feature = "postgres")]
        Engine::Postgres => {
            measure_on::<crate::postgres::Postgres>(setting, data, load, path, running)
        }
        #[cfg(feature = "mysql")]
        Engine::Mysql => measure_on::<crate::mysql::Mysql>(setting, data, load, path, running),
        #[cfg(not(all(
            feature = "lmdb",
            feature = "rocksdb",
            feature = "postgres",
            feature = "mysql"
        )))]
        other => Err(other.check().err().unwrap_or_else(|| {
            LabError::Options(format!("{other} is not among the engines of this program"))
        })),
    }
}

/// Creates the table that the mixed task begins with.
pub(crate) fn preload(engine: Engine, path: &Path, workload: &Workload) -> Result<(), LabError> {
    match engine {
        #[cfg(feature = "lmdb")]
        Engine::Lmdb => crate::lmdb::Lmdb::preload(path, workload),
        #[cfg(feature = "rocksdb")]
        Engine::Rocksdb => crate::rocksdb::Rocksdb::preload(path, workload),
        _ => Sqlite::preload(path, workload),
    }
}

fn measure_on<A: Adapter>(
    setting: &Setting,
    data: &Data,
    load: Load,
    path: &Path,
    running: &mut dyn FnMut(usize, Duration),
) -> Result<Trial, LabError> {
    if let Some(preloaded) = &data.preloaded {
        copy_database(&preloaded.database, path)
            .map_err(LabError::io("copy the database to", path))?;
    }
    if !data.engine.is_server() {
        settle(path.parent().unwrap_or(path))?;
    }
    let delay = FlushDelay::begin(setting.flush_delay).ok_or_else(|| {
        LabError::Options("SQLite does not let flushes be delayed on this system".to_owned())
    })?;
    let (driven, groups) = if setting.condition.is_grouped() {
        drive_grouped::<A>(setting, data, load, path, running)?
    } else {
        let driven = drive_plain::<A::Plain>(setting, data, load, path, running)?;
        (driven, GroupCounts::ONE_COMMIT_A_CALL)
    };
    drop(delay);
    let rows = driven.acknowledged_rows();
    let (verified_rows, doubt) = if let Some(Preloaded { operations, .. }) = &data.preloaded {
        let writes = driven.completions.len();
        let (found, differs) = compare::<A>(path, &data.workload, operations, writes)?;
        (found, differs.map(|key| Doubt::Content { key }))
    } else {
        let counted = A::count_rows(path)?;
        (counted.rows, doubt_rows(rows, counted))
    };
    Ok(Trial { engine: data.engine, driven, groups, verified_rows, doubt })
}

/// Copies a database, which is a file or a folder of files.
fn copy_database(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_file() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// The rows acknowledged are a prefix of the workload, so their number gives the sum of the keys.
fn doubt_rows(acknowledged_rows: u64, found: Counted) -> Option<Doubt> {
    let key_sum = Workload::key_sum(acknowledged_rows);
    (found != Counted { rows: acknowledged_rows, key_sum }).then_some(Doubt::Rows(found))
}

fn failed(setting: &Setting) -> impl Fn(Cause) -> LabError {
    let (condition, batch) = (setting.condition.name(), setting.batch);
    move |source| LabError::Transaction { condition, batch, source }
}

fn drive_plain<P: Plain>(
    setting: &Setting,
    data: &Data,
    load: Load,
    path: &Path,
    running: &mut dyn FnMut(usize, Duration),
) -> Result<Driven, LabError> {
    let database = P::open(path, setting)?;
    let driven = if let Some(Preloaded { operations, .. }) = &data.preloaded {
        let operate = |number| {
            database.operate(operations, number)?;
            Ok(Operations::is_write(number).then_some(()))
        };
        drive_mixed(load, 1, operate, |()| Ok(()), running)
    } else {
        let transact = |thread, rows: Range<usize>| database.transact(thread, &data.workload, rows);
        drive_blocking(load, setting.threads, transact, running)
    };
    let driven = driven.map_err(failed(setting))?;
    database.close(path)?;
    Ok(driven)
}

fn drive_grouped<A: Adapter>(
    setting: &Setting,
    data: &Data,
    load: Load,
    path: &Path,
    running: &mut dyn FnMut(usize, Duration),
) -> Result<(Driven, GroupCounts), LabError> {
    let database = Grouped::<A>::open(path, &data.workload, setting)?;
    let before = database.counters();
    let is_async = setting.condition.is_async();
    let wait = |ticket: Ticket<(), A::Error>| ticket.wait().map_err(Cause::from);
    let driven = match &data.preloaded {
        Some(Preloaded { operations, .. }) if is_async => {
            let submit =
                |number| database.submit_operation(operations, number).map_err(Cause::from);
            drive_mixed(load, setting.in_flight, submit, wait, running)
        }
        Some(Preloaded { operations, .. }) => {
            let operate = |number| {
                database.transact_operation(operations, number).map_err(Cause::from)?;
                Ok(Operations::is_write(number).then_some(()))
            };
            drive_mixed(load, 1, operate, |()| Ok(()), running)
        }
        None if is_async => {
            let submit = |rows: Range<usize>| database.submit(rows);
            if let Task::Load { offered: Some(offered), .. } = setting.task {
                let arrivals_ns =
                    poisson_arrivals(offered.per_second, load.limit, load.rows, data.seed);
                let submit = |number| database.submit(number..number + 1);
                drive_open(&arrivals_ns, load.limit, submit, wait)
            } else {
                drive_in_flight(load, setting.threads, setting.in_flight, submit, wait, running)
            }
        }
        None => {
            let transact = |_, rows: Range<usize>| database.transact(rows).map_err(Cause::from);
            drive_blocking(load, setting.threads, transact, running)
        }
    };
    let driven = driven.map_err(failed(setting))?;
    let groups = database.counters().since(before, driven.completions.len());
    database.close(path)?;
    Ok((driven, groups))
}

impl Trial {
    /// What was driven and verified elsewhere.
    pub(crate) fn verified(engine: Engine, driven: Driven, groups: GroupCounts) -> Self {
        let verified_rows = driven.acknowledged_rows();
        Self { engine, driven, groups, verified_rows, doubt: None }
    }

    /// Whether the database holds what was acknowledged.
    pub(crate) fn verify(&self, setting: &Setting) -> Result<(), LabError> {
        let condition = setting.condition.name();
        let acknowledged_rows = self.driven.acknowledged_rows();
        match self.doubt {
            None => Ok(()),
            Some(Doubt::Content { key }) => {
                Err(LabError::Content { condition, writes: acknowledged_rows, key })
            }
            Some(Doubt::Rows(found)) => Err(LabError::Verification {
                condition,
                batch: setting.batch,
                acknowledged_rows,
                acknowledged_key_sum: Workload::key_sum(acknowledged_rows),
                verified_rows: found.rows,
                verified_key_sum: found.key_sum,
            }),
        }
    }

    /// The record of this measurement.
    pub(crate) fn to_measurement(&self, setting: &Setting, repeat: usize) -> Measurement {
        let Driven { completions, reads_ns, cpu, .. } = &self.driven;
        let rows = self.driven.acknowledged_rows();
        let seconds = seconds(self.driven.elapsed_ns);
        let rows_per_second = ratio(rows as f64, seconds);
        let latency = Distribution::of_ns(completions.iter().map(|answer| answer.latency_ns));
        let reads =
            (setting.task == Task::Mixed).then(|| Distribution::of_ns(reads_ns.iter().copied()));
        let answers = completions.len() + reads_ns.len();
        let operations = (setting.task == Task::Mixed).then_some(answers as u64);
        let (grouping, offered) = match setting.task {
            Task::Load { grouping, offered } => (Some(grouping), offered),
            Task::Write | Task::Mixed | Task::Threads | Task::Wal(_) | Task::Web(..) => {
                (None, None)
            }
        };
        let is_delayed = !setting.flush_delay.is_zero();
        Measurement {
            experiment: setting.task.experiment().to_owned(),
            engine: self.engine.name().to_owned(),
            condition: setting.condition,
            durable: setting.condition.is_durable(),
            batch: setting.batch,
            in_flight: setting.in_flight,
            threads: setting.threads,
            repeat,
            rows,
            seconds,
            rows_per_second,
            latency_ms: latency.summary,
            completion_interval_ms: ratio(seconds * 1e3, answers as f64),
            effective_throughput_1ms: effective_throughput_1ms(
                rows_per_second,
                latency.summary.mean,
            ),
            cpu_user_seconds: cpu.user_seconds,
            cpu_system_seconds: cpu.system_seconds,
            group_transactions_mean: self.groups.transactions_mean,
            flushes: self.groups.flushes,
            verified_rows: self.verified_rows,
            progress: progress(completions),
            latency_percentiles_ms: latency.percentiles_ms,
            setting: grouping.map(|grouping| grouping.to_string()),
            arrivals: grouping
                .map(|_| if offered.is_some() { "open" } else { "closed" }.to_owned()),
            offered_per_second: offered.map(|offered| offered.per_second),
            offered_share: offered.map(|offered| offered.share),
            unserved: self.driven.unserved,
            operations,
            operations_per_second: operations.map(|count| ratio(count as f64, seconds)),
            read_latency_ms: reads.as_ref().map(|reads| reads.summary),
            read_latency_percentiles_ms: reads.map(|reads| reads.percentiles_ms),
            flush_delay_ms: is_delayed.then(|| milliseconds(setting.flush_delay)),
            simulated: is_delayed,
            others_cpu_cores: cpu.others_cores,
            connections_peak: None,
            wal: None,
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
    use crate::condition::Condition;
    use crate::cpu_time::CpuTime;

    const SETTING: Setting = Setting {
        task: Task::Write,
        condition: Condition::Wal,
        batch: 4_000,
        in_flight: 1,
        threads: 1,
        flush_delay: Duration::ZERO,
    };

    /// Transactions of 4,000 rows, one every millisecond, each of which waited 2 ms.
    fn trial(transactions: u64, counted: Counted) -> Trial {
        let completions = (1..=transactions)
            .map(|index| Completion {
                at_ns: index * 1_000_000,
                latency_ns: 2_000_000,
                rows: 4_000,
            })
            .collect();
        let cpu = CpuTime { user_seconds: 0.25, system_seconds: 0.5, others_cores: Some(0.125) };
        let elapsed_ns = transactions * 1_000_000;
        let reads_ns = vec![1_000; 4];
        let driven = Driven { completions, reads_ns, elapsed_ns, unserved: None, cpu };
        let doubt = doubt_rows(driven.acknowledged_rows(), counted);
        let groups = GroupCounts::ONE_COMMIT_A_CALL;
        let engine = Engine::Sqlite;
        Trial { engine, driven, groups, verified_rows: counted.rows, doubt }
    }

    #[test]
    fn a_record_holds_what_was_noted() {
        let counted = Counted { rows: 20_000, key_sum: Workload::key_sum(20_000) };
        let record = trial(5, counted).to_measurement(&SETTING, 2);
        assert_eq!((record.rows, record.verified_rows, record.repeat), (20_000, 20_000, 2));
        let near = |found: f64, expected: f64| {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        };
        near(record.seconds, 0.005);
        near(record.rows_per_second, 4e6);
        near(record.latency_ms.mean, 2.0);
        near(record.completion_interval_ms, 5.0 / 9.0);
        near(record.effective_throughput_1ms, 2e6);
        near(record.cpu_user_seconds, 0.25);
        near(record.cpu_system_seconds, 0.5);
        assert!(record.durable);
        assert_eq!((record.flushes, record.operations), (None, None));
        assert_eq!(record.others_cpu_cores, Some(0.125));
        assert!(!record.simulated && record.flush_delay_ms.is_none());
    }

    #[test]
    fn a_record_of_the_mixed_task_tells_reads_and_writes_apart() {
        let setting =
            Setting { task: Task::Mixed, flush_delay: Duration::from_micros(200), ..SETTING };
        let record = trial(5, Counted { rows: 20_000, key_sum: 0 }).to_measurement(&setting, 1);
        assert_eq!((record.experiment.as_str(), record.operations), ("mixed", Some(9)));
        let reads = record.read_latency_ms.expect("reads");
        assert!((reads.mean - 0.001).abs() < 1e-9 && (record.latency_ms.mean - 2.0).abs() < 1e-9);
        assert!((record.operations_per_second.expect("operations") - 1_800.0).abs() < 1e-6);
        assert!(record.simulated);
        assert_eq!(record.flush_delay_ms, Some(0.2));
    }

    #[test]
    fn the_series_has_a_point_every_ten_thousand_rows_and_one_at_the_end() {
        let record = trial(7, Counted { rows: 28_000, key_sum: 0 }).to_measurement(&SETTING, 1);
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
        let record = trial(0, Counted { rows: 0, key_sum: 0 }).to_measurement(&SETTING, 1);
        assert_eq!(record.rows, 0);
        assert!(
            [record.seconds, record.rows_per_second, record.completion_interval_ms]
                .iter()
                .all(|&v| v == 0.0)
        );
        assert!(record.progress.is_empty());
    }
}
