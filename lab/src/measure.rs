//! One measurement: a new database, a closed or open loop against it, a count at the end, and the
//! record made of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use groupcommit::sql::without_password;

use crate::adapter::{Adapter, Counted, GroupCounts, Grouped, Plain, Subject};
use crate::condition::Condition;
use crate::driver::{Completion, Driven, Load, Submitted, drive};
use crate::engine::Engine;
use crate::error::{Cause, LabError};
use crate::file_system::settle;
use crate::flush_delay::FlushDelay;
use crate::measurement::{Measurement, ProgressPoint};
use crate::open_loop::{drive_open, poisson_arrivals};
use crate::options::Common;
use crate::setting::{Setting, Task, milliseconds};
use crate::statistics::{Distribution, effective_throughput_1ms};
use crate::workload::{Operations, Workload};

/// A point of the series is taken every so many rows.
const PROGRESS_ROWS: u64 = 10_000;

/// What the callers work on.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) engine: Engine,
    pub(crate) workload: Arc<Workload>,
    /// A database that holds the workload at the start, and the operations on it.
    pub(crate) mixed: Option<(PathBuf, Arc<Operations>)>,
    /// Of arrivals.
    pub(crate) seed: u64,
}

impl Data {
    /// Rows to be inserted into an empty table.
    pub(crate) fn rows(common: &Common, rows: usize) -> Self {
        let workload = Arc::new(Workload::generate(rows, common.seed, common.value_bytes));
        Self { engine: common.engine(), workload, mixed: None, seed: common.seed }
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

/// Calls a function with the adapter of an engine.
macro_rules! with_adapter {
    ($engine:expr, $function:ident($($argument:expr),*)) => {
        match $engine {
            Engine::Sqlite => $function::<crate::sqlite::Sqlite>($($argument),*),
            #[cfg(feature = "lmdb")]
            Engine::Lmdb => $function::<crate::lmdb::Lmdb>($($argument),*),
            #[cfg(feature = "rocksdb")]
            Engine::Rocksdb => $function::<crate::rocksdb::Rocksdb>($($argument),*),
            #[cfg(feature = "postgres")]
            Engine::Postgres => $function::<crate::postgres::Postgres>($($argument),*),
            #[cfg(feature = "mysql")]
            Engine::Mysql => $function::<crate::mysql::Mysql>($($argument),*),
            #[allow(unreachable_patterns, clippy::allow_attributes, reason = "with every feature")]
            other => Err(LabError::Options(format!("this program was built without {other}"))),
        }
    };
}

/// Drives `setting` against a new database at `path` and looks at what it holds afterwards.
pub(crate) fn measure(
    setting: &Setting,
    data: &Data,
    load: Load,
    path: &Path,
    running: &mut dyn FnMut(usize, Duration),
) -> Result<Trial, LabError> {
    with_adapter!(data.engine, measure_on(setting, data, load, path, running))
}

/// Creates a database with all rows of `data`, with which the mixed task begins.
pub(crate) fn preload(data: &Data, path: &Path) -> Result<(), LabError> {
    with_adapter!(data.engine, preload_on(data, path))
}

fn preload_on<A: Adapter>(data: &Data, path: &Path) -> Result<(), LabError> {
    let fill = || {
        let plain = Condition::of_mixed(data.engine)[0];
        let database = A::Plain::open(path, &Setting::of(Task::Mixed, plain, 1, 1, 1))?;
        Plain::write(&database, 0, &data.workload.batch(0..data.workload.rows()))?;
        database.close()
    };
    fill().map_err(failed("fill the database", path))
}

/// The error of what was tried on the database at `path`.
pub(crate) fn failed(action: &'static str, path: &Path) -> impl Fn(Cause) -> LabError {
    let path = PathBuf::from(without_password(&path.to_string_lossy()));
    move |source| LabError::Database { action, path: path.clone(), source }
}

fn measure_on<A: Adapter>(
    setting: &Setting,
    data: &Data,
    load: Load,
    path: &Path,
    running: &mut dyn FnMut(usize, Duration),
) -> Result<Trial, LabError> {
    if let Some((preloaded, _)) = &data.mixed {
        copy_database(preloaded, path).map_err(LabError::io("copy the database to", path))?;
    }
    if !data.engine.is_server() {
        settle(path.parent().unwrap_or(path))?;
    }
    let delay = FlushDelay::begin(setting.flush_delay).ok_or_else(|| {
        LabError::Options("SQLite does not let flushes be delayed on this system".to_owned())
    })?;
    let (open, close) = (failed("open the database", path), failed("close", path));
    let (driven, groups) = if setting.condition.is_grouped() {
        let database = Grouped::<A>::open(path, setting).map_err(open)?;
        let before = database.counters();
        let driven = drive_subject(&database, setting, data, load, running)?;
        let groups = database.counters().since(before, driven.completions.len());
        database.close().map_err(close)?;
        (driven, groups)
    } else {
        let database = A::Plain::open(path, setting).map_err(open)?;
        let driven = drive_subject(&database, setting, data, load, running)?;
        database.close().map_err(close)?;
        (driven, GroupCounts::ONE_COMMIT_A_CALL)
    };
    drop(delay);
    let look = failed("look at the rows of", path);
    let (verified_rows, doubt) = if let Some((_, operations)) = &data.mixed {
        let writes = driven.completions.len();
        let compared = compare::<A>(path, &data.workload, operations, writes);
        let (found, differs) = compared.map_err(look)?;
        (found, differs.map(|key| Doubt::Content { key }))
    } else {
        let counted = A::count_rows(path).map_err(look)?;
        (counted.rows, doubt_rows(driven.acknowledged_rows(), counted))
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

/// Looks whether the database at `path` holds the rows of `preloaded`, changed by the first
/// `writes` writes and by nothing else; returns the rows found and the first key that differs.
fn compare<A: Adapter>(
    path: &Path,
    preloaded: &Workload,
    operations: &Operations,
    writes: usize,
) -> Result<(u64, Option<i64>), Cause> {
    let mut expected = operations.written(writes);
    let (mut found, mut next, mut differs) = (0_u64, 0_usize, None);
    A::for_each_row(path, &mut |key, value| {
        found += 1;
        let is_preloaded = next < preloaded.rows() && key == preloaded.key(next);
        let first = is_preloaded.then(|| preloaded.value(next));
        next += usize::from(is_preloaded);
        if expected.remove(&key).or(first) != Some(value) && differs.is_none() {
            differs = Some(key);
        }
    })?;
    if next < preloaded.rows() {
        differs = differs.or(Some(preloaded.key(next)));
    }
    Ok((found, differs.or_else(|| expected.keys().min().copied())))
}

fn drive_subject<S: Subject<Ticket: Send>>(
    subject: &S,
    setting: &Setting,
    data: &Data,
    load: Load,
    running: &mut dyn FnMut(usize, Duration),
) -> Result<Driven, LabError> {
    let write = |thread, batch| {
        let ticket = subject.write(thread, batch)?;
        Ok(ticket.map_or(Submitted::Answered, Submitted::Outstanding))
    };
    let wait = |ticket| subject.wait(ticket);
    let (threads, in_flight) = (setting.threads, setting.in_flight);
    let driven = match (&setting.task, &data.mixed) {
        (Task::Load { offered: Some(offered), .. }, _) => {
            let arrivals_ns =
                poisson_arrivals(offered.per_second, load.limit, load.rows, data.seed);
            let submit = |number| subject.write(0, data.workload.batch(number..number + 1));
            let wait = |ticket: Result<Option<S::Ticket>, Cause>| {
                ticket?.map_or(Ok(()), |ticket| subject.wait(ticket))
            };
            drive_open(&arrivals_ns, load.limit, submit, wait)
        }
        (_, Some((_, operations))) => {
            let submit = |thread, number: std::ops::Range<usize>| match operations.get(number.start)
            {
                Ok(key) => subject.read(key).map(|()| Submitted::Read),
                Err(batch) => write(thread, batch),
            };
            drive(load, threads, in_flight, submit, wait, running)
        }
        (_, None) => {
            let submit = |thread, rows| write(thread, data.workload.batch(rows));
            drive(load, threads, in_flight, submit, wait, running)
        }
    };
    let (condition, batch) = (setting.condition.name(), setting.batch);
    driven.map_err(|source| LabError::Transaction { condition, batch, source })
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
            _ => (None, None),
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
            setting: match setting.task {
                Task::Large(keys) => Some(keys.name().to_owned()),
                _ => grouping.map(|grouping| grouping.to_string()),
            },
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
            large: None,
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
    use crate::sqlite::{PlainSqlite, Sqlite};

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

    #[test]
    fn a_write_that_is_missing_added_or_altered_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.db");
        let workload = Arc::new(Workload::generate(50, 1, 36));
        let operations = Operations::generate(200, 50, 1, 36);
        let data = Data { engine: Engine::Sqlite, workload, mixed: None, seed: 1 };
        preload(&data, &path).expect("loads");
        let same = |writes| {
            compare::<Sqlite>(&path, &data.workload, &operations, writes).expect("compares").1
        };
        assert_eq!(same(0), None);
        let sqlite = PlainSqlite::open(&path, &SETTING).expect("opens");
        for number in 0..200 {
            match operations.get(number) {
                Ok(key) => Plain::read(&sqlite, key).expect("reads"),
                Err(batch) => Plain::write(&sqlite, 0, &batch).expect("writes"),
            }
        }
        assert_eq!(same(100), None);
        let keys =
            |number| operations.get(number).expect_err("a write").rows().next().expect("a row").0;
        assert!(same(99).is_some() || keys(197) == keys(199));
        sqlite.close().expect("closes");
        let connection = rusqlite::Connection::open(&path).expect("opens");
        connection.execute("UPDATE t SET v = 'other' WHERE k = 40", []).expect("alters");
        assert_eq!(same(100), Some(40));
        connection.execute("DELETE FROM t WHERE k >= 20", []).expect("deletes");
        assert_eq!(same(100), Some(20));
    }
}
