//! A table larger than the page cache of a connection: upserts of random keys into it, with reads, a long
//! reader and an index beside them if asked for.
//!
//! 1. The table is filled once. Each measurement works on a copy. Every write replaces the value of an
//!    existing key, so the table keeps its size.
//! 2. Keys are uniform, or skewed as in YCSB: the Zipf distribution of Gray et al., *Quickly generating
//!    billion-record synthetic databases* (1994), with its ranks scattered over the table.
//! 3. A value is computed from the number of its write. After each measurement every written key is compared
//!    with its last value.
//! 4. Bytes written are read from the counters of the disk, which include other processes. The kernel's counter
//!    of a process counts whole folios of the page cache.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use groupcommit::Ticket;
use groupcommit::sqlite::Database;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{major, minor};

use crate::adapter::GroupCounts;
use crate::condition::Condition;
use crate::driver::{Driven, Load, Submitted, drive};
use crate::engine::Engine;
use crate::error::{Cause, LabError};
use crate::file_system::settle;
use crate::measure::{Trial, failed};
use crate::measurement::{LargeFigures, Measurement};
use crate::options::{Common, at_least_one, check_settings, seconds};
use crate::session::{Experiment, Session};
use crate::setting::{Keys, Setting, Task};

const UPSERT: &str = "INSERT INTO t VALUES (?1, ?2) ON CONFLICT (k) DO UPDATE SET v = excluded.v";

/// Writes a second that are provided for at most.
const RATE_MAX: f64 = 400_000.0;

/// How long a long reader holds its snapshot before it takes another.
const LONG_READ: Duration = Duration::from_secs(2);

/// How often the length of the log is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What to measure.
#[derive(Debug, Clone, Args)]
pub struct LargeOptions {
    /// Rows in the table
    #[arg(long, value_name = "N", default_value = "10000000", value_parser = at_least_one)]
    pub rows: usize,

    /// How keys are chosen [default: uniform,zipf]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub keys: Vec<Keys>,

    /// Rows a transaction by hand, with plain SQLite
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1000", value_parser = at_least_one)]
    pub batch: Vec<usize>,

    /// Writes outstanding, for `groupcommit-async`
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1000", value_parser = at_least_one)]
    pub in_flight: Vec<usize>,

    /// Threads that read random rows meanwhile
    #[arg(long, value_name = "N", default_value = "0")]
    pub readers: usize,

    /// Whether somebody reads from one snapshot for 2 s, then from the next, and so on
    #[arg(long)]
    pub long_reader: bool,

    /// Whether the table has an index of its values
    #[arg(long)]
    pub index: bool,

    /// How long a measurement lasts, in seconds
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    pub seconds_limit: Duration,

    /// What every experiment takes
    #[command(flatten)]
    pub common: Common,
}

/// The keys of `count` writes into a table of `rows` rows.
fn generate(keys: Keys, count: usize, rows: usize, seed: u64) -> Vec<i64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let rows_f = rows as f64;
    let zipf = Zipf::new(rows_f);
    // A prime, so that every rank has a key of its own.
    let scatter = |rank: u64| rank * 2_654_435_761 % rows as u64;
    let key = |_| match keys {
        Keys::Uniform => random.i64(0..i64::try_from(rows).unwrap_or(i64::MAX)),
        Keys::Zipf => scatter(zipf.rank(random.f64())).cast_signed(),
    };
    (0..count).map(key).collect()
}

/// The Zipf distribution over a number of ranks.
#[derive(Debug)]
struct Zipf {
    ranks: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    const THETA: f64 = 0.99;

    fn new(ranks: f64) -> Self {
        let zeta = |n: f64| -> f64 {
            let (mut sum, mut rank) = (0.0, 1.0);
            while rank <= n {
                sum += f64::powf(rank, -Self::THETA);
                rank += 1.0;
            }
            sum
        };
        let all = zeta(ranks);
        let eta = (1.0 - f64::powf(2.0 / ranks, 1.0 - Self::THETA)) / (1.0 - zeta(2.0) / all);
        Self { ranks, zeta: all, eta }
    }

    /// The rank, from 0, that a number from 0 to 1 stands for.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank")]
    fn rank(&self, uniform: f64) -> u64 {
        let scaled = uniform * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + f64::powf(0.5, Self::THETA) {
            return 1;
        }
        let base = self.eta * uniform - self.eta + 1.0;
        (self.ranks * base.powf(1.0 / (1.0 - Self::THETA))) as u64
    }
}

/// The writes of one measurement.
#[derive(Debug)]
struct Writes {
    keys: Vec<i64>,
    value_bytes: usize,
}

impl Writes {
    fn get(&self, number: usize) -> (i64, Vec<u8>) {
        (self.keys[number], value(number as u64 + 1, self.value_bytes))
    }

    /// What the first `count` writes leave behind: the number of the last write of each key.
    fn left(&self, count: usize) -> HashMap<i64, usize> {
        self.keys[..count].iter().enumerate().map(|(number, &key)| (key, number)).collect()
    }
}

/// The value of a write; 0 is what the table is filled with.
fn value(number: u64, bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number);
    let mut value = vec![0; bytes];
    random.fill(&mut value);
    value
}

impl LargeOptions {
    fn settings(&self) -> Vec<Setting> {
        let keys = if self.keys.is_empty() { Keys::value_variants() } else { &self.keys };
        let of = |&keys: &Keys| {
            let task = Task::Large(keys);
            let plain = |&batch: &usize| Setting::of(task, Condition::Wal, batch, 1, 1);
            let ours = |&n: &usize| Setting::of(task, Condition::GroupcommitAsync, 1, n, 1);
            [plain(&1)]
                .into_iter()
                .chain(self.batch.iter().map(plain))
                .chain(self.in_flight.iter().map(ours))
                .collect::<Vec<_>>()
        };
        keys.iter().flat_map(of).collect()
    }

    /// Creates the table that every measurement begins with.
    fn fill(&self, path: &Path) -> Result<(), Cause> {
        let database = Database::open(path)?;
        let table = "CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB NOT NULL)";
        database.transact(move |tx| tx.execute(table, ()))?;
        let bytes = self.common.value_bytes;
        let rows = (0_i64..).take(self.rows).map(|key| vec![key.into(), value(0, bytes).into()]);
        database.load("INSERT INTO t VALUES (?1, ?2)", rows, |_| {})?;
        if self.index {
            let index = "CREATE INDEX t_v ON t (substr(v, 1, 8))";
            database.transact(move |tx| tx.execute(index, ()))?;
        }
        Ok(database.close()?)
    }

    fn measure_one(
        &self,
        session: &mut Session<'_>,
        setting: &Setting,
        (filled, writes): (&Path, &Writes),
        repeat: Option<usize>,
    ) -> Result<(), LabError> {
        let folder = session.folder().to_owned();
        let own =
            tempfile::tempdir_in(&folder).map_err(LabError::io("create a folder in", &folder))?;
        let path = own.path().join("lab.db");
        fs::copy(filled, &path).map_err(LabError::io("copy the database to", &path))?;
        settle(own.path())?;
        let limit = if repeat.is_some() { self.seconds_limit } else { self.seconds_limit / 10 };
        let load = Load { rows: writes.keys.len(), batch: setting.batch, limit };
        let mut running = |rows, elapsed| session.tell_running(rows, elapsed);
        let (driven, groups, figures) = self
            .drive(&path, setting, writes, load, &mut running)
            .map_err(failed("measure", &path))?;
        let rows = usize::try_from(driven.acknowledged_rows()).unwrap_or(usize::MAX);
        verify(&path, writes, rows).map_err(failed("look at the rows of", &path))?;
        own.close().map_err(LabError::io("remove the database in", &folder))?;
        let Some(repeat) = repeat else { return Ok(()) };
        let trial = Trial::verified(Engine::Sqlite, driven, groups);
        let record = trial.to_measurement(setting, repeat);
        session.keep(Measurement { large: Some(figures), ..record })
    }

    fn drive(
        &self,
        path: &Path,
        setting: &Setting,
        writes: &Writes,
        load: Load,
        running: &mut dyn FnMut(usize, Duration),
    ) -> Result<(Driven, GroupCounts, LargeFigures), Cause> {
        let subject = Subject::open(path, setting.condition)?;
        let device_before = device_bytes(path);
        let beside = Beside::default();
        let began = Instant::now();
        let driven = thread::scope(|scope| {
            scope.spawn(|| beside.watch_log(path));
            let beside = &beside;
            let read = |number| scope.spawn(move || beside.read(path, self.rows, number as u64));
            let mut readers: Vec<_> = (0..self.readers).map(read).collect();
            if self.long_reader {
                readers.push(scope.spawn(|| beside.read_long(path)));
            }
            let driven = subject.drive(setting, writes, load, running);
            beside.stopped.store(true, Relaxed);
            for reader in readers {
                reader.join().map_err(|_| "a reader panicked")??;
            }
            driven
        })?;
        let seconds = began.elapsed().as_secs_f64();
        let rows = driven.acknowledged_rows().max(1) as f64;
        let groups = subject.groups(driven.completions.len());
        let figures = LargeFigures {
            rows: self.rows as u64,
            log_bytes_max: beside.log_bytes.load(Relaxed),
            device_bytes_a_row: device_bytes(path)
                .zip(device_before)
                .map(|(after, before)| after.saturating_sub(before) as f64 / rows),
            reads_per_second: (self.readers > 0)
                .then(|| beside.reads.load(Relaxed) as f64 / seconds),
            readers: self.readers,
            long_reader: self.long_reader,
            index: self.index,
            opening_seconds: subject.opening_after_a_crash(path)?,
        };
        Ok((driven, groups, figures))
    }
}

impl Experiment for LargeOptions {
    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self) -> Result<(), LabError> {
        if self.common.engine() != Engine::Sqlite {
            return Err(LabError::Options("`large` is measured on SQLite alone".to_owned()));
        }
        if self.common.flush_delay.iter().any(|delay| !delay.is_zero()) {
            return Err(LabError::Options(
                "`large` takes no --flush-delay; measure the disk as it is".to_owned(),
            ));
        }
        check_settings(&self.settings())
    }

    fn measure(&self, session: &mut Session<'_>) -> Result<(), LabError> {
        let filled = session.folder().join("filled.db");
        self.fill(&filled).map_err(failed("fill the database", &filled))?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let count = (self.seconds_limit.as_secs_f64().max(1.0) * RATE_MAX) as usize;
        let writes = |keys: Keys| Writes {
            keys: generate(keys, count, self.rows, self.common.seed),
            value_bytes: self.common.value_bytes,
        };
        let generated = Keys::value_variants().iter().map(|&keys| (keys, writes(keys)));
        let generated: Vec<(Keys, Writes)> = generated.collect();
        session.rounds(&self.settings(), |session, setting, repeat| {
            let of = |(keys, _): &&(Keys, Writes)| setting.task == Task::Large(*keys);
            let Some((_, writes)) = generated.iter().find(of) else { return Ok(()) };
            self.measure_one(session, setting, (&filled, writes), repeat)
        })
    }
}

/// SQLite, directly or through groupcommit.
enum Subject {
    Plain(std::sync::Mutex<Connection>),
    Grouped(Database),
}

impl Subject {
    fn open(path: &Path, condition: Condition) -> Result<Self, Cause> {
        if condition.is_grouped() {
            return Ok(Self::Grouped(Database::open(path)?));
        }
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(Self::Plain(connection.into()))
    }

    fn drive(
        &self,
        setting: &Setting,
        writes: &Writes,
        load: Load,
        running: &mut dyn FnMut(usize, Duration),
    ) -> Result<Driven, Cause> {
        let submit = |_, numbers: Range<usize>| match self {
            Self::Plain(connection) => {
                let mut connection = connection.lock().map_err(|_| "a writer panicked")?;
                let tx = connection.transaction()?;
                for number in numbers {
                    tx.prepare_cached(UPSERT)?.execute(writes.get(number))?;
                }
                tx.commit()?;
                Ok::<_, Cause>(Submitted::Answered)
            }
            Self::Grouped(database) => {
                let (key, value) = writes.get(numbers.start);
                Ok(Submitted::Outstanding(
                    database.submit(move |tx| tx.execute(UPSERT, (key, &value))),
                ))
            }
        };
        let wait = |ticket: Ticket<usize, rusqlite::Error>| Ok(ticket.wait().map(drop)?);
        drive(load, 1, setting.in_flight, submit, wait, running)
    }

    fn groups(&self, transactions: usize) -> GroupCounts {
        match self {
            Self::Plain(_) => GroupCounts::ONE_COMMIT_A_CALL,
            Self::Grouped(database) => {
                let stats = database.stats();
                let commits = stats.commits.max(1) as f64;
                GroupCounts {
                    transactions_mean: transactions as f64 / commits,
                    flushes: Some(stats.flushes),
                }
            }
        }
    }

    /// Closes the database, and opens a copy that was made before, with the log as a killed process would
    /// leave it; how long the opening took.
    fn opening_after_a_crash(self, path: &Path) -> Result<Option<f64>, Cause> {
        let database = match self {
            Self::Plain(connection) => {
                drop(connection);
                return Ok(None);
            }
            Self::Grouped(database) => database,
        };
        let killed = path.with_file_name("killed.db");
        let log = |path: &Path| path.with_extension("db-wal");
        // No checkpoint restarts the log meanwhile: nobody writes.
        fs::copy(path, &killed)?;
        fs::copy(log(path), log(&killed))?;
        database.close()?;
        let folder = path.parent().unwrap_or(path);
        settle(folder)?;
        let began = Instant::now();
        let opened = Database::open(&killed)?;
        let seconds = began.elapsed().as_secs_f64();
        opened.close()?;
        Ok(Some(seconds))
    }
}

/// What goes on beside the writes.
#[derive(Debug, Default)]
struct Beside {
    stopped: AtomicBool,
    reads: AtomicU64,
    log_bytes: AtomicU64,
}

impl Beside {
    fn is_going(&self) -> bool {
        !self.stopped.load(Relaxed)
    }

    fn watch_log(&self, path: &Path) {
        let log = path.with_extension("db-wal");
        while self.is_going() {
            let bytes = fs::metadata(&log).map_or(0, |log| log.len());
            self.log_bytes.fetch_max(bytes, Relaxed);
            thread::sleep(LOOK_EVERY);
        }
    }

    fn connect(path: &Path) -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.busy_timeout(crate::sqlite::BUSY_TIMEOUT)?;
        Ok(connection)
    }

    /// Reads random rows.
    fn read(&self, path: &Path, rows: usize, seed: u64) -> rusqlite::Result<()> {
        let connection = Self::connect(path)?;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut select = connection.prepare("SELECT v FROM t WHERE k = ?1")?;
        while self.is_going() {
            let key = random.u64(0..rows as u64).cast_signed();
            let found: Vec<u8> = select.query_row([key], |row| row.get(0))?;
            std::hint::black_box(found);
            self.reads.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    fn read_long(&self, path: &Path) -> rusqlite::Result<()> {
        let mut connection = Self::connect(path)?;
        while self.is_going() {
            let snapshot = connection.transaction()?;
            snapshot.query_row("SELECT v FROM t LIMIT 1", (), |_| Ok(()))?;
            let began = Instant::now();
            while self.is_going() && began.elapsed() < LONG_READ {
                thread::sleep(LOOK_EVERY);
            }
        }
        Ok(())
    }
}

/// Bytes that the device under `path` has written so far, where the system says.
fn device_bytes(path: &Path) -> Option<u64> {
    const SECTOR: u64 = 512;
    let device = fs::metadata(path).ok()?.dev();
    let stat = format!("/sys/dev/block/{}:{}/stat", major(device), minor(device));
    let text = fs::read_to_string(stat).ok()?;
    Some(text.split_whitespace().nth(6)?.parse::<u64>().ok()? * SECTOR)
}

/// Checks that every key among the first `count` writes has its last value.
fn verify(path: &Path, writes: &Writes, count: usize) -> Result<(), Cause> {
    let connection = Beside::connect(path)?;
    let mut select = connection.prepare("SELECT v FROM t WHERE k = ?1")?;
    for (key, number) in writes.left(count) {
        let found: Vec<u8> = select.query_row([key], |row| row.get(0))?;
        if found != writes.get(number).1 {
            return Err(format!("key {key} does not hold what write {number} gave it").into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    #[test]
    fn every_key_distribution_is_measured_under_three_conditions() {
        let options: LargeOptions = parse("").expect("parses");
        options.check().expect("measurable");
        assert_eq!(options.settings().len(), 2 * 3);
        for line in ["--engine lmdb", "--flush-delay 1", "--batch 1"] {
            parse::<LargeOptions>(line).expect("parses").check().expect_err(line);
        }
    }

    #[test]
    fn skewed_keys_are_skewed_and_all_keys_are_in_the_table() {
        let most = |keys: Keys| {
            let keys = generate(keys, 100_000, 1_000, 7);
            assert!(keys.iter().all(|key| (0..1_000).contains(key)));
            let mut counts = HashMap::new();
            keys.iter().for_each(|key| *counts.entry(key).or_insert(0) += 1);
            assert!(counts.len() > 900, "{}", counts.len());
            counts.into_values().max()
        };
        // 1 / zeta(1,000, 0.99) of all.
        assert!(most(Keys::Zipf).is_some_and(|most| (12_000..14_000).contains(&most)));
        assert!(most(Keys::Uniform).is_some_and(|most| most < 200));
    }

    #[test]
    fn what_was_not_written_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.db");
        let options: LargeOptions = parse("--rows 10 --value-bytes 20").expect("parses");
        options.fill(&path).expect("fills");
        let writes = Writes { keys: vec![3, 4, 3], value_bytes: 20 };
        let connection = Connection::open(&path).expect("opens");
        for number in 1..3 {
            connection.execute(UPSERT, writes.get(number)).expect("writes");
        }
        verify(&path, &writes, 3).expect("the last writes are there");
        let error = verify(&path, &writes, 1).expect_err("another is").to_string();
        assert!(error.contains("key 3"), "{error}");
    }
}
