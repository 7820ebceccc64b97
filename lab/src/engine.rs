//! The engines that experiments can be run on, and how the lab reaches one.
//!
//! What a condition does is written once, for every engine: [`Plain`] is the engine used directly,
//! [`Grouped`] the engine through groupcommit. An engine's [`Adapter`] says how a row of the
//! workload is written and read with it.

use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use groupcommit::sqlite::Formation;
use groupcommit::{Failure, Submit, Ticket, TransactionOf};

use crate::database::Counted;
use crate::error::{Cause, LabError};
use crate::operations::Operations;
use crate::setting::{Grouping, Setting, Task};
use crate::workload::Workload;

/// A database that experiments can be run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Engine {
    /// SQLite: always there.
    #[default]
    Sqlite,
    /// LMDB: with the feature `lmdb`.
    Lmdb,
    /// RocksDB: with the feature `rocksdb`.
    Rocksdb,
    /// PostgreSQL: with the feature `postgres`, on a server whose URL is given.
    Postgres,
    /// MySQL or MariaDB: with the feature `mysql`, on a server whose URL is given.
    Mysql,
}

impl Engine {
    /// Every engine, built in or not.
    pub const ALL: [Self; 5] =
        [Self::Sqlite, Self::Lmdb, Self::Rocksdb, Self::Postgres, Self::Mysql];

    /// The name in options and records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Lmdb => "lmdb",
            Self::Rocksdb => "rocksdb",
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
        }
    }

    /// The name in headings.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Lmdb => "LMDB",
            Self::Rocksdb => "RocksDB",
            Self::Postgres => "PostgreSQL",
            Self::Mysql => "MySQL or MariaDB",
        }
    }

    /// Whether this program was built with it.
    #[must_use]
    pub fn is_built_in(self) -> bool {
        match self {
            Self::Sqlite => true,
            Self::Lmdb => cfg!(feature = "lmdb"),
            Self::Rocksdb => cfg!(feature = "rocksdb"),
            Self::Postgres => cfg!(feature = "postgres"),
            Self::Mysql => cfg!(feature = "mysql"),
        }
    }

    /// Whether it keeps values under keys, and takes no SQL.
    #[must_use]
    pub fn is_keyed(self) -> bool {
        matches!(self, Self::Lmdb | Self::Rocksdb)
    }

    /// Whether its databases are on a server, whose URL has to be given.
    #[must_use]
    pub fn is_server(self) -> bool {
        matches!(self, Self::Postgres | Self::Mysql)
    }

    /// The engine of a URL.
    ///
    /// # Errors
    /// When it is the URL of no engine that takes SQL.
    pub fn of_url(url: &str) -> Result<Self, String> {
        match groupcommit::sql::Engine::of_url(url) {
            Ok(groupcommit::sql::Engine::Sqlite) => Ok(Self::Sqlite),
            Ok(groupcommit::sql::Engine::Postgres) => Ok(Self::Postgres),
            Ok(groupcommit::sql::Engine::Mysql) => Ok(Self::Mysql),
            Ok(other) => Err(format!("{other} is not measured here yet")),
            Err(error) => Err(format!("{error}: {}", error.cause())),
        }
    }

    /// Refuses an engine that this program was built without, and says how to get it.
    pub(crate) fn check(self) -> Result<(), LabError> {
        if self.is_built_in() {
            return Ok(());
        }
        Err(LabError::Options(format!(
            "this program was built without {}; build it with `cargo build --release --features {self}`",
            self.title()
        )))
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|engine| engine.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            format!("`{name}` is not an engine; choose among {}", known.join(", "))
        })
    }
}

/// An engine used directly: a call returns when its own commit does.
pub(crate) trait Plain: Sized + Sync {
    /// Opens the database at `path`, or creates it, in the way of the setting's condition. Of a
    /// server the path is the URL of a schema.
    fn open(path: &Path, setting: &Setting) -> Result<Self, LabError>;

    /// Writes and commits the rows in one transaction; called by the thread of that number.
    fn transact(&self, thread: usize, workload: &Workload, rows: Range<usize>)
    -> Result<(), Cause>;

    /// Carries out a mixed operation, each write a commit.
    fn operate(&self, operations: &Operations, number: usize) -> Result<(), Cause>;

    /// Closes the database.
    fn close(self, path: &Path) -> Result<(), LabError>;
}

/// What a transaction's closure is given by the adapter `A`.
pub(crate) type Transaction<'g, A> = TransactionOf<'g, <A as Adapter>::Database>;

/// How the lab reaches one engine.
pub(crate) trait Adapter: 'static {
    /// The engine used directly.
    type Plain: Plain;
    /// The engine's database in groupcommit.
    type Database: Submit;
    /// What its calls inside a transaction fail with.
    type Error: Error + Send + Sync + 'static;

    /// Opens the database at `path`, or creates it, for transactions of groupcommit.
    fn open(
        path: &Path,
        formation: Formation,
        flush_delay: Duration,
    ) -> Result<Self::Database, LabError>;

    /// Inserts the given rows.
    fn insert(
        tx: &mut Transaction<'_, Self>,
        workload: &Workload,
        rows: Range<usize>,
    ) -> Result<(), Self::Error>;

    /// Writes the row of operation `number`.
    fn write(
        tx: &mut Transaction<'_, Self>,
        operations: &Operations,
        number: usize,
    ) -> Result<(), Self::Error>;

    /// Reads the row of operation `number` in a snapshot.
    fn read(
        database: &Self::Database,
        operations: &Operations,
        number: usize,
    ) -> Result<(), Failure<Self::Error>>;

    /// Creates the database at `path` with all rows of `workload`. How does not matter: every
    /// condition begins with a copy of it.
    fn preload(path: &Path, workload: &Workload) -> Result<(), LabError>;

    /// Counts the rows, and adds up the keys, after opening the database anew.
    fn count_rows(path: &Path) -> Result<Counted, LabError>;

    /// Calls `each` with every row, in the order of the keys, after opening the database anew.
    fn for_each_row(path: &Path, each: &mut dyn FnMut(i64, &str)) -> Result<(), LabError>;
}

/// How an engine grouped and flushed while the clock ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GroupCounts {
    /// Transactions a commit, on average.
    pub(crate) transactions_mean: f64,
    /// Flushes, where somebody counts them.
    pub(crate) flushes: Option<u64>,
}

impl GroupCounts {
    /// Where each call commits for itself; an engine used directly does not count its flushes.
    pub(crate) const ONE_COMMIT_A_CALL: Self = Self { transactions_mean: 1.0, flushes: None };
}

/// Counters of the pipeline at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counters {
    commits: u64,
    flushes: u64,
}

impl Counters {
    /// What `transactions` transactions came to since `before`.
    pub(crate) fn since(self, before: Self, transactions: usize) -> GroupCounts {
        let commits = self.commits.saturating_sub(before.commits);
        let flushes = self.flushes.saturating_sub(before.flushes);
        let transactions_mean =
            if commits == 0 { 0.0 } else { transactions as f64 / commits as f64 };
        GroupCounts { transactions_mean, flushes: Some(flushes) }
    }
}

/// A ticket of a write, `None` of a read.
pub(crate) type Submitted<A> =
    Result<Option<Ticket<(), <A as Adapter>::Error>>, Failure<<A as Adapter>::Error>>;

/// A database of groupcommit, opened as it comes but for what the setting says, and the rows to be
/// written to it.
pub(crate) struct Grouped<A: Adapter> {
    database: A::Database,
    workload: Arc<Workload>,
}

impl<A: Adapter> Grouped<A> {
    /// Opens the database at `path`, or creates it.
    pub(crate) fn open(
        path: &Path,
        workload: &Arc<Workload>,
        setting: &Setting,
    ) -> Result<Self, LabError> {
        let database = A::open(path, formation(setting), setting.flush_delay)?;
        Ok(Self { database, workload: Arc::clone(workload) })
    }

    fn insert(
        &self,
        rows: Range<usize>,
    ) -> impl FnMut(&mut Transaction<'_, A>) -> Result<(), A::Error> + Send + 'static {
        let workload = Arc::clone(&self.workload);
        move |tx| A::insert(tx, &workload, rows.clone())
    }

    /// Submits the rows as one transaction and returns its ticket.
    pub(crate) fn submit(&self, rows: Range<usize>) -> Ticket<(), A::Error> {
        self.database.submit(self.insert(rows))
    }

    /// Writes the rows as one transaction and returns when it is durable.
    pub(crate) fn transact(&self, rows: Range<usize>) -> Result<(), Failure<A::Error>> {
        self.database.transact(self.insert(rows))
    }

    /// Carries out a mixed operation: a read is answered at once, from a snapshot; of a write there
    /// is a ticket.
    pub(crate) fn submit_operation(
        &self,
        operations: &Arc<Operations>,
        number: usize,
    ) -> Submitted<A> {
        if !Operations::is_write(number) {
            A::read(&self.database, operations, number)?;
            return Ok(None);
        }
        let operations = Arc::clone(operations);
        let write = move |tx: &mut Transaction<'_, A>| A::write(tx, &operations, number);
        Ok(Some(self.database.submit(write)))
    }

    /// As [`Self::submit_operation`], with a caller that waits until its write is durable.
    pub(crate) fn transact_operation(
        &self,
        operations: &Arc<Operations>,
        number: usize,
    ) -> Result<(), Failure<A::Error>> {
        if !Operations::is_write(number) {
            return A::read(&self.database, operations, number);
        }
        let operations = Arc::clone(operations);
        let write = move |tx: &mut Transaction<'_, A>| A::write(tx, &operations, number);
        self.database.transact(write)
    }

    /// The counters of groups executed and flushes done so far.
    pub(crate) fn counters(&self) -> Counters {
        let stats = self.database.stats();
        Counters { commits: stats.commits, flushes: stats.flushes }
    }

    /// Drains and closes the database.
    pub(crate) fn close(self, path: &Path) -> Result<(), LabError> {
        self.database.close_any().map_err(|source| LabError::Database {
            action: "close",
            path: path.to_owned(),
            source,
        })
    }
}

/// A fixed group of a size goes after [`Grouping::PATIENCE`] even if it is not full; one that waits
/// for a time takes whatever has come by then.
fn formation(setting: &Setting) -> Formation {
    match setting.task {
        Task::Write | Task::Mixed | Task::Threads | Task::Wal(_) | Task::Web(..) => {
            Formation::Adaptive
        }
        Task::Load { grouping, .. } => match grouping {
            Grouping::Adaptive => Formation::Adaptive,
            Grouping::Size(transactions) => {
                Formation::Fixed { transactions, delay: Grouping::PATIENCE }
            }
            Grouping::Delay(delay) => Formation::Fixed { transactions: usize::MAX, delay },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_the_time_between_two_readings() {
        let before = Counters { commits: 3, flushes: 5 };
        let after = Counters { commits: 7, flushes: 8 };
        let counts = after.since(before, 1_000);
        assert_eq!(counts, GroupCounts { transactions_mean: 250.0, flushes: Some(3) });
        assert_eq!(
            before.since(before, 0),
            GroupCounts { transactions_mean: 0.0, flushes: Some(0) }
        );
    }

    #[test]
    fn engines_parse_back_and_one_that_is_missing_says_how_to_get_it() {
        for engine in Engine::ALL {
            assert_eq!(engine.name().parse(), Ok(engine));
            match engine.check() {
                Ok(()) => assert!(engine.is_built_in()),
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.contains(&format!("--features {engine}")), "{error}");
                }
            }
        }
        let error = "oracle".parse::<Engine>().expect_err("not an engine");
        assert!(error.contains("`oracle`") && error.contains("sqlite, lmdb, rocksdb"), "{error}");
    }
}
