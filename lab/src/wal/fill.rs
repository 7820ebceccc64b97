//! Running the benchmarks, and counting what they wrote.

use std::fs;
use std::hint::black_box;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use groupcommit::Ticket;
use groupcommit::rocksdb::rocksdb::perf::{
    PerfContext, PerfMetric, PerfStatsLevel, set_perf_stats,
};
use groupcommit::rocksdb::rocksdb::statistics::{Histogram, StatsLevel, Ticker};
use groupcommit::rocksdb::rocksdb::{
    self, DB, IteratorMode, Options, WaitForCompactOptions, WriteOptions,
};
use groupcommit::rocksdb::{Database, Error, Exclusive};

use crate::adapter::GroupCounts;
use crate::condition::Condition;
use crate::driver::{Driven, Load, Submitted, drive, drive_blocking};
use crate::engine::Engine;
use crate::error::{Cause, LabError};
use crate::file_system::settle;
use crate::measure::{Trial, failed};
use crate::measurement::{Measurement, WalFigures};
use crate::rocksdb::write_options;
use crate::session::{Event, Session};
use crate::setting::{Benchmark, Setting, Task};
use crate::wal::entries::{Entries, KEY_BYTES, key};

/// One write in so many is timed where every call writes for itself: timing each would cost as much
/// as some of them take.
const TIMED_EVERY: usize = 64;

/// A warm-up writes so many entries, uncounted.
const WARM_UP_ROWS: usize = 2_000;

/// Entries a transaction, of those that were left out and nobody counts.
const COMPLETED_AT_ONCE: usize = 10_000;

const MEGABYTE: f64 = 1_048_576.0;

/// RocksDB under one condition.
enum Target {
    Direct { db: DB, write: WriteOptions },
    Grouped(Database),
}

/// A target and its counters.
struct Subject<'a> {
    target: Target,
    options: Options,
    setting: Setting,
    path: &'a Path,
    /// Nanoseconds that the timed writes took, and that they spent on the log.
    sampled_ns: AtomicU64,
    sampled_log_ns: AtomicU64,
}

/// What was counted up to one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    log_bytes: u64,
    flush_bytes: u64,
    compaction_bytes: u64,
    kernel_bytes: Option<u64>,
    log_write_seconds: f64,
    log_flush_seconds: f64,
    /// Of the time of the writes that were timed, the share that went into the log.
    log_share: f64,
    commits: u64,
    flushes: u64,
}

/// Measures every setting so many times.
pub(super) fn run(
    entries: &Entries,
    load: Load,
    repeats: usize,
    settings: &[Setting],
    session: &mut Session<'_>,
) -> Result<(), LabError> {
    let warm_up = Load { rows: WARM_UP_ROWS.min(load.rows), ..load };
    for setting in settings.chunks(Benchmark::ALL.len()) {
        session.tell(Event::Warming(&setting[0]));
        measure(entries, setting, warm_up, session, None)?;
    }
    let count = settings.len() * repeats;
    for repeat in 1..=repeats {
        for (round, setting) in settings.chunks(Benchmark::ALL.len()).enumerate() {
            let before = (repeat - 1) * settings.len() + round * Benchmark::ALL.len();
            let record = Record { repeat, before, count };
            measure(entries, setting, load, session, Some(record))?;
        }
    }
    Ok(())
}

/// Which measurement of how many, to be recorded.
#[derive(Debug, Clone, Copy)]
struct Record {
    repeat: usize,
    before: usize,
    count: usize,
}

/// The benchmarks of one condition, each with a new database but for the reads.
fn measure(
    entries: &Entries,
    settings: &[Setting],
    load: Load,
    session: &mut Session<'_>,
    record: Option<Record>,
) -> Result<(), LabError> {
    let folder = session.folder().to_owned();
    let own = tempfile::tempdir_in(&folder)
        .map_err(LabError::io("create a folder in", folder.clone()))?;
    let mut random_rows = 0..load.rows;
    for (index, setting) in settings.iter().enumerate() {
        let Task::Wal(benchmark) = setting.task else { continue };
        if let Some(Record { before, count, .. }) = record {
            session.tell(Event::Started { setting, number: before + index + 1, count });
        }
        let name = if benchmark == Benchmark::Fillseq { "sequential" } else { "random" };
        let path = own.path().join(name);
        settle(own.path())?;
        let subject = Subject::open(&path, setting)?;
        if benchmark == Benchmark::Readrandom {
            subject.complete(random_rows.clone(), entries)?;
        }
        let mut running = |rows, elapsed: Duration| {
            if record.is_some() {
                session.tell(Event::Running { rows, elapsed });
            }
        };
        let before = subject.counts();
        let driven = match benchmark {
            Benchmark::Fillseq => {
                subject.fill(load, |index| index as u64, entries, &mut running)?
            }
            Benchmark::Fillrandom => {
                subject.fill(load, |index| entries.random(index), entries, &mut running)?
            }
            Benchmark::Readrandom => subject.read(load, entries, &mut running)?,
        };
        let stopped = subject.counts();
        subject.settle()?;
        let after = subject.counts();
        let rows = usize::try_from(driven.acknowledged_rows()).unwrap_or(usize::MAX);
        let expected: Vec<u64> = match benchmark {
            Benchmark::Fillseq => (0..rows as u64).collect(),
            Benchmark::Fillrandom => {
                random_rows.start = rows;
                entries.distinct(rows)
            }
            Benchmark::Readrandom => entries.distinct(load.rows),
        };
        let table_file_bytes = subject.table_file_bytes()?;
        subject.close()?;
        verify(&path, setting, &expected)?;
        let Some(Record { repeat, .. }) = record else { continue };
        let written =
            Written { before, stopped, after, table_file_bytes, live_rows: expected.len() as u64 };
        session.keep(written.to_measurement(setting, repeat, driven, entries))?;
    }
    own.close().map_err(LabError::io("remove the database in", folder))
}

impl<'a> Subject<'a> {
    fn open(path: &'a Path, setting: &Setting) -> Result<Self, LabError> {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.enable_statistics();
        // Times are taken only where a flush or a group pays for them.
        options.set_statistics_level(match setting.condition {
            Condition::WalSync | Condition::Groupcommit => StatsLevel::ExceptDetailedTimers,
            _ => StatsLevel::ExceptHistogramOrTimers,
        });
        let open = failed("open the database", path);
        let target = if setting.condition.is_grouped() {
            let database = Database::options().rocksdb(options.clone()).time_log(true).open(path);
            Target::Grouped(database.map_err(|error| open(error.into()))?)
        } else {
            let db = DB::open(&options, path);
            let db = db.map_err(|error| open(error.into()))?;
            Target::Direct { db, write: write_options(setting.condition) }
        };
        let (sampled_ns, sampled_log_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { target, options, setting: *setting, path, sampled_ns, sampled_log_ns })
    }

    fn fill(
        &self,
        load: Load,
        number: impl Fn(usize) -> u64 + Sync,
        entries: &Entries,
        running: &mut dyn FnMut(usize, Duration),
    ) -> Result<Driven, LabError> {
        let driven = match &self.target {
            Target::Direct { db, write } => {
                let put = |_: usize, rows: Range<usize>| {
                    let index = rows.start;
                    let put = || db.put_opt(key(number(index)), entries.value(index), write);
                    if index.is_multiple_of(TIMED_EVERY) { self.timed(put) } else { put() }
                        .map_err(Cause::from)
                };
                drive_blocking(load, 1, put, running)
            }
            Target::Grouped(database) => {
                let submit = |_, rows: Range<usize>| {
                    let index = rows.start;
                    let (key, value) = (key(number(index)), entries.value(index).to_vec());
                    Ok(Submitted::Outstanding(database.submit(move |tx| tx.put(key, &value))))
                };
                let wait = |ticket: Ticket<(), Error>| ticket.wait().map_err(Cause::from);
                drive(load, 1, self.setting.in_flight, submit, wait, running)
            }
        };
        driven.map_err(|source| self.failed(source))
    }

    /// Writes those random entries that the time limit kept out, before anything is counted.
    fn complete(&self, missing: Range<usize>, entries: &Entries) -> Result<(), LabError> {
        let entry = |index| (key(entries.random(index)), entries.value(index).to_vec());
        match &self.target {
            Target::Direct { db, .. } => {
                let mut write = WriteOptions::default();
                write.disable_wal(true); // `settle` writes them to table files
                for (key, value) in missing.map(entry) {
                    db.put_opt(key, value, &write).map_err(|error| self.failed(error.into()))?;
                }
            }
            Target::Grouped(database) => {
                for from in missing.clone().step_by(COMPLETED_AT_ONCE) {
                    let rows: Vec<_> =
                        (from..missing.end.min(from + COMPLETED_AT_ONCE)).map(entry).collect();
                    let put = database.transact(move |tx| {
                        rows.iter().try_for_each(|(key, value)| tx.put(key, value))
                    });
                    put.map_err(|failure| self.failed(failure.into()))?;
                }
            }
        }
        self.settle()
    }

    /// Reads random keys of a database that holds all random entries, each with the answer that it
    /// must have.
    fn read(
        &self,
        load: Load,
        entries: &Entries,
        running: &mut dyn FnMut(usize, Duration),
    ) -> Result<Driven, LabError> {
        let read = |_: usize, rows: Range<usize>| {
            // In another order than they were written.
            let row = key(entries.random((rows.start * 7_919 + 13) % load.rows));
            let value = match &self.target {
                Target::Direct { db, .. } => db.get(row).map_err(Cause::from)?,
                Target::Grouped(database) => {
                    database.read(|snapshot| snapshot.get(row)).map_err(Cause::from)?
                }
            };
            if value.is_none() {
                return Err("an entry that was written is missing".into());
            }
            black_box(value);
            Ok(())
        };
        drive_blocking(load, 1, read, running).map_err(|source| self.failed(source))
    }

    /// Carries out one write and counts how long the log took.
    fn timed(
        &self,
        put: impl FnOnce() -> Result<(), rocksdb::Error>,
    ) -> Result<(), rocksdb::Error> {
        set_perf_stats(PerfStatsLevel::EnableTime);
        let mut context = PerfContext::default();
        context.reset();
        let began = Instant::now();
        let result = put();
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.sampled_ns.fetch_add(took, Ordering::Relaxed);
        self.sampled_log_ns.fetch_add(context.metric(PerfMetric::WriteWalTime), Ordering::Relaxed);
        set_perf_stats(PerfStatsLevel::Disable);
        result
    }

    /// Writes what is in memory to table files, and waits until nothing is left to compact.
    fn settle(&self) -> Result<(), LabError> {
        let settled = match &self.target {
            Target::Direct { db, .. } => db
                .flush()
                .and_then(|()| db.wait_for_compact(&WaitForCompactOptions::default()))
                .map_err(Cause::from),
            Target::Grouped(database) => database
                .exclusive(|exclusive: &mut Exclusive| {
                    exclusive.flush_memtables()?;
                    exclusive.wait_for_compaction()
                })
                .map_err(Cause::from),
        };
        settled.map_err(|source| self.failed(source))
    }

    fn counts(&self) -> Counts {
        let ticker = |ticker| self.options.get_ticker_count(ticker);
        let mut counts = Counts {
            log_bytes: ticker(Ticker::WalFileBytes),
            flush_bytes: ticker(Ticker::FlushWriteBytes),
            compaction_bytes: ticker(Ticker::CompactWriteBytes),
            kernel_bytes: kernel_bytes(),
            ..Counts::default()
        };
        match &self.target {
            Target::Direct { .. } => {
                let sync = self.options.get_histogram_data(Histogram::WalFileSyncMicros);
                counts.log_flush_seconds = sync.sum() as f64 / 1e6;
                let of = |ns: &AtomicU64| ns.load(Ordering::Relaxed) as f64;
                counts.log_share = of(&self.sampled_log_ns) / of(&self.sampled_ns).max(1.0);
            }
            Target::Grouped(database) => {
                let stats = database.stats();
                counts.log_flush_seconds = stats.flush_ns.mean * stats.flush_ns.count as f64 / 1e9;
                counts.log_write_seconds =
                    database.log_write_time().unwrap_or_default().as_secs_f64();
                counts.commits = stats.commits;
                counts.flushes = stats.flushes;
            }
        }
        counts
    }

    fn table_file_bytes(&self) -> Result<u64, LabError> {
        const PROPERTY: &str = "rocksdb.total-sst-files-size";
        let text = match &self.target {
            Target::Direct { db, .. } => db.property_value(PROPERTY).map_err(Cause::from),
            Target::Grouped(database) => database
                .exclusive(|exclusive: &mut Exclusive| exclusive.property(PROPERTY))
                .map_err(Cause::from),
        };
        let text = text.map_err(|source| self.failed(source))?;
        Ok(text.and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    fn close(self) -> Result<(), LabError> {
        match self.target {
            Target::Direct { db, .. } => {
                drop(db);
                Ok(())
            }
            Target::Grouped(database) => {
                database.close().map_err(|error| failed("close", self.path)(error.into()))
            }
        }
    }

    fn failed(&self, source: Cause) -> LabError {
        LabError::Transaction { condition: self.setting.condition.name(), batch: 1, source }
    }
}

/// Bytes that this process has caused to be written, where the kernel says.
fn kernel_bytes() -> Option<u64> {
    let io = fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.trim().parse().ok()
}

/// Looks, after opening the database anew, whether it holds the keys of these numbers and no other.
fn verify(path: &Path, setting: &Setting, expected: &[u64]) -> Result<(), LabError> {
    let look = || -> Result<(u64, i128, bool), Cause> {
        let db = DB::open(&Options::default(), path)?;
        let (mut rows, mut sum, mut same) = (0_usize, 0_i128, true);
        for entry in db.iterator(IteratorMode::Start) {
            let (found, _) = entry?;
            let number = u64::from_be_bytes(found[..8].try_into()?);
            same &= expected.get(rows) == Some(&number);
            rows += 1;
            sum += i128::from(number);
        }
        Ok((rows as u64, sum, same && rows == expected.len()))
    };
    let (verified_rows, verified_key_sum, same) = look().map_err(|source| LabError::Database {
        action: "look at the entries of",
        path: path.to_owned(),
        source,
    })?;
    if same {
        return Ok(());
    }
    Err(LabError::Verification {
        condition: setting.condition.name(),
        batch: 1,
        acknowledged_rows: expected.len() as u64,
        acknowledged_key_sum: expected.iter().copied().map(i128::from).sum(),
        verified_rows,
        verified_key_sum,
    })
}

/// What was counted around a measurement.
#[derive(Debug)]
struct Written {
    before: Counts,
    /// When the clock stopped.
    stopped: Counts,
    /// When everything was in table files and compacted.
    after: Counts,
    table_file_bytes: u64,
    live_rows: u64,
}

impl Written {
    fn to_measurement(
        &self,
        setting: &Setting,
        repeat: usize,
        driven: Driven,
        entries: &Entries,
    ) -> Measurement {
        let Self { before, stopped, after, .. } = self;
        let rows = driven.acknowledged_rows();
        let groups = if setting.condition.is_grouped() && stopped.commits > before.commits {
            let commits = stopped.commits - before.commits;
            GroupCounts {
                transactions_mean: rows as f64 / commits as f64,
                flushes: Some(stopped.flushes - before.flushes),
            }
        } else {
            GroupCounts::ONE_COMMIT_A_CALL
        };
        let entry_bytes = (KEY_BYTES + entries.value(0).len()) as u64;
        let user_bytes = rows * entry_bytes;
        let mut measurement =
            Trial::verified(Engine::Rocksdb, driven, groups).to_measurement(setting, repeat);
        let log_bytes = after.log_bytes - before.log_bytes;
        let flush_bytes = after.flush_bytes - before.flush_bytes;
        let compaction_bytes = after.compaction_bytes - before.compaction_bytes;
        let log_flush_seconds = (stopped.log_flush_seconds - before.log_flush_seconds).max(0.0);
        // What RocksDB calls writing the log includes its flush, where a write does both.
        let log_write_seconds = if setting.condition.is_grouped() {
            stopped.log_write_seconds - before.log_write_seconds
        } else {
            stopped.log_share * measurement.seconds - log_flush_seconds
        };
        let live_bytes = self.live_rows * entry_bytes;
        let writes = setting.task != Task::Wal(Benchmark::Readrandom);
        let amplification =
            |bytes: u64, of: u64| (writes && of > 0).then(|| bytes as f64 / of as f64);
        measurement.wal = Some(WalFigures {
            user_bytes,
            megabytes_per_second: user_bytes as f64 / MEGABYTE / measurement.seconds.max(1e-9),
            log_bytes,
            flush_bytes,
            compaction_bytes,
            kernel_bytes: after
                .kernel_bytes
                .zip(before.kernel_bytes)
                .map(|(after, before)| after - before),
            table_file_bytes: self.table_file_bytes,
            live_bytes,
            space_amplification: amplification(self.table_file_bytes, live_bytes),
            write_amplification: amplification(
                log_bytes + flush_bytes + compaction_bytes,
                user_bytes,
            ),
            table_write_amplification: amplification(flush_bytes + compaction_bytes, user_bytes),
            log_write_seconds: log_write_seconds.max(0.0),
            log_flush_seconds,
        });
        if let Task::Wal(benchmark) = setting.task {
            measurement.setting = Some(benchmark.name().to_owned());
        }
        measurement
    }
}
