//! The conditions that an experiment compares: who commits, how, and whether the outcome is
//! durable.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::error::LabError;

/// One way of writing the workload. All of them use the same file system, table, rows and library of
/// their engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// SQLite as it comes: rollback journal (`DELETE`), `synchronous=FULL`, one commit a call.
    Default,
    /// Write-ahead log, `synchronous=FULL`, one commit a call. The reference of every ratio.
    Wal,
    /// Write-ahead log, `synchronous=NORMAL`, one commit a call. Not durable: a power cut loses
    /// commits.
    WalNormal,
    /// groupcommit, callers that block until their transaction is durable.
    GroupcommitBlocking,
    /// groupcommit, callers that keep many tickets outstanding.
    GroupcommitAsync,
    /// Experiment 2: as [`Condition::Wal`], the threads sharing one connection by a mutex.
    Shared,
    /// Experiment 2: as [`Condition::Wal`], each thread with a connection of its own. Servers: many
    /// connections, one commit a call each. The reference of every ratio there.
    Connections,
    /// Experiment 2: as [`Condition::GroupcommitBlocking`], the threads' transactions merged.
    Merged,
    /// Engines other than SQLite: the engine's own synced commit, one a call. The reference of every
    /// ratio.
    Sync,
    /// As [`Condition::Sync`], from many threads, whose commits the engine may merge.
    SyncThreads,
    /// As [`Condition::Sync`], with [`Condition::BATCHED_ROWS`] rows a transaction: what a program
    /// can do by hand.
    Batched,
    /// Engines with a log that can be switched off: without it, one write a call. Not durable.
    NoWal,
    /// RocksDB: with its log, which is not flushed. Not durable.
    WalNosync,
    /// RocksDB: with its log, flushed by every write.
    WalSync,
    /// RocksDB, and experiment 3: every transaction durable, through groupcommit.
    Groupcommit,
    /// Servers: one connection, one commit a call. [`Condition::Connections`] is the same over many.
    OneConnection,
    /// Experiment 3: a blocking client with a connection for each request.
    Blocking,
    /// Experiment 3: a blocking client with a pool of connections.
    BlockingPool,
    /// Experiment 3: an asynchronous client with a pool of connections.
    AsyncPool,
    /// Experiment 3: a blocking client behind a bounded bridge.
    Bridge,
}

impl Condition {
    /// The conditions of experiment 1 on SQLite, in the order published: the slowest first.
    pub const ALL: [Self; 5] = [
        Self::Default,
        Self::Wal,
        Self::WalNormal,
        Self::GroupcommitBlocking,
        Self::GroupcommitAsync,
    ];

    /// The conditions of experiment 2 on SQLite.
    pub const THREADS: [Self; 3] = [Self::Shared, Self::Connections, Self::Merged];

    /// The conditions that only other engines have.
    const OTHER_ENGINES: [Self; 12] = [
        Self::Sync,
        Self::SyncThreads,
        Self::Batched,
        Self::NoWal,
        Self::WalNosync,
        Self::WalSync,
        Self::Groupcommit,
        Self::OneConnection,
        Self::Blocking,
        Self::BlockingPool,
        Self::AsyncPool,
        Self::Bridge,
    ];

    /// The conditions of the price of the log.
    pub const WAL: [Self; 4] = [Self::NoWal, Self::WalNosync, Self::WalSync, Self::Groupcommit];

    /// Threads of [`Condition::SyncThreads`] where threads are not what is varied.
    pub const SYNC_THREADS: usize = 256;

    /// Connections of [`Condition::Connections`] to a server where they are not what is varied.
    pub const SERVER_CONNECTIONS: usize = 25;

    /// Rows a transaction of [`Condition::Batched`].
    pub const BATCHED_ROWS: usize = 1_000;

    /// Every condition there is.
    fn every() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain(Self::THREADS).chain(Self::OTHER_ENGINES)
    }

    /// The conditions of pure write on `engine`.
    #[must_use]
    pub fn of_write(engine: Engine) -> &'static [Self] {
        match engine {
            Engine::Sqlite => &Self::ALL,
            Engine::Lmdb => &[
                Self::Sync,
                Self::SyncThreads,
                Self::Batched,
                Self::GroupcommitBlocking,
                Self::GroupcommitAsync,
            ],
            Engine::Rocksdb => &[
                Self::Sync,
                Self::SyncThreads,
                Self::Batched,
                Self::NoWal,
                Self::WalNosync,
                Self::GroupcommitBlocking,
                Self::GroupcommitAsync,
            ],
            Engine::Postgres | Engine::Mysql => {
                &[Self::OneConnection, Self::Connections, Self::GroupcommitAsync]
            }
        }
    }

    /// The conditions of the mixed task on `engine`.
    #[must_use]
    pub fn of_mixed(engine: Engine) -> &'static [Self] {
        match engine {
            Engine::Sqlite => &Self::ALL,
            Engine::Lmdb | Engine::Rocksdb => {
                &[Self::Sync, Self::GroupcommitBlocking, Self::GroupcommitAsync]
            }
            Engine::Postgres | Engine::Mysql => &[],
        }
    }

    /// The conditions of many threads on `engine`.
    #[must_use]
    pub fn of_threads(engine: Engine) -> &'static [Self] {
        match engine {
            Engine::Sqlite => &Self::THREADS,
            Engine::Lmdb | Engine::Rocksdb => &[Self::SyncThreads, Self::Merged],
            Engine::Postgres | Engine::Mysql => &[Self::Connections, Self::Merged],
        }
    }

    /// The conditions of experiment 3 on `engine`.
    #[must_use]
    pub fn of_web(engine: Engine) -> &'static [Self] {
        match engine {
            // It has no asynchronous client.
            Engine::Sqlite => {
                &[Self::Blocking, Self::BlockingPool, Self::Bridge, Self::Groupcommit]
            }
            Engine::Postgres | Engine::Mysql => &[
                Self::Blocking,
                Self::BlockingPool,
                Self::AsyncPool,
                Self::Bridge,
                Self::Groupcommit,
            ],
            Engine::Lmdb | Engine::Rocksdb => &[],
        }
    }

    /// Whether ratios of pure write and of the mixed task refer to it.
    #[must_use]
    pub fn is_reference(self) -> bool {
        matches!(self, Self::Wal | Self::Sync | Self::Connections)
    }

    /// Whether ratios of many threads on `engine` refer to it.
    #[must_use]
    pub fn is_reference_of_threads(self, engine: Engine) -> bool {
        let reference = match engine {
            Engine::Sqlite => Self::Shared,
            Engine::Lmdb | Engine::Rocksdb => Self::SyncThreads,
            // A server merges the flushes of its connections, so one alone would flatter us.
            Engine::Postgres | Engine::Mysql => Self::Connections,
        };
        self == reference
    }

    /// Whether transactions go through groupcommit.
    #[must_use]
    pub fn is_grouped(self) -> bool {
        matches!(
            self,
            Self::GroupcommitBlocking | Self::GroupcommitAsync | Self::Merged | Self::Groupcommit
        )
    }

    /// Refuses conditions that are not among `known`, those of the experiment `name`.
    pub(crate) fn check_all(
        conditions: &[Self],
        known: &[Self],
        name: &str,
    ) -> Result<(), LabError> {
        let Some(other) = conditions.iter().find(|condition| !known.contains(condition)) else {
            return Ok(());
        };
        let known: Vec<&str> = known.iter().map(|condition| condition.name()).collect();
        Err(LabError::Options(format!(
            "{other} is not a condition of `bench {name}`; choose among {}",
            known.join(", ")
        )))
    }

    /// The name in options, records and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Wal => "wal",
            Self::WalNormal => "wal-normal",
            Self::GroupcommitBlocking => "groupcommit-blocking",
            Self::GroupcommitAsync => "groupcommit-async",
            Self::Shared => "shared",
            Self::Connections => "connections",
            Self::Merged => "merged",
            Self::Sync => "sync",
            Self::SyncThreads => "sync-threads",
            Self::Batched => "batched",
            Self::NoWal => "no-wal",
            Self::WalNosync => "wal-nosync",
            Self::WalSync => "wal-sync",
            Self::Groupcommit => "groupcommit",
            Self::OneConnection => "one-connection",
            Self::Blocking => "blocking",
            Self::BlockingPool => "blocking-pool",
            Self::AsyncPool => "async-pool",
            Self::Bridge => "bridge",
        }
    }

    /// Who commits, and how, in a few words.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Default => {
                "SQLite as it comes: rollback journal, `synchronous=FULL`, one commit per call"
            }
            Self::Wal => "SQLite with a write-ahead log, `synchronous=FULL`, one commit per call",
            Self::WalNormal => {
                "SQLite with a write-ahead log, `synchronous=NORMAL`, one commit per call"
            }
            Self::GroupcommitBlocking => "groupcommit, callers that wait for each transaction",
            Self::GroupcommitAsync => "groupcommit, callers that keep many transactions in flight",
            Self::Shared => {
                "threads that share one SQLite connection (write-ahead log, `synchronous=FULL`)"
            }
            Self::Connections => "used directly, one commit per call, over many connections",
            Self::Merged => "groupcommit, threads that wait for each transaction",
            Self::Sync => "the engine's own synced commit, one per call",
            Self::SyncThreads => "the same from many threads, whose commits the engine may merge",
            Self::Batched => "the engine's own synced commit of 1,000 rows, batched by hand",
            Self::NoWal => "RocksDB without a log: the end of the process loses data",
            Self::WalNosync => "RocksDB with a log that is not flushed",
            Self::WalSync => "RocksDB with a log that every write flushes",
            Self::Groupcommit => "groupcommit, many transactions in flight",
            Self::OneConnection => "used directly, one commit per call, over one connection",
            Self::Blocking => "a blocking client, a connection per request",
            Self::BlockingPool => "a blocking client, a pool of connections",
            Self::AsyncPool => "an asynchronous client, a pool of connections",
            Self::Bridge => "the blocking client behind groupcommit's bounded bridge",
        }
    }

    /// Whether an acknowledged transaction survives a power cut, on a device that honours flushes.
    #[must_use]
    pub fn is_durable(self) -> bool {
        !matches!(self, Self::WalNormal | Self::NoWal | Self::WalNosync)
    }

    /// Whether one caller keeps several transactions outstanding, so that the number in flight is a
    /// setting of its own rather than the number of threads.
    #[must_use]
    pub fn is_async(self) -> bool {
        matches!(self, Self::GroupcommitAsync | Self::Groupcommit)
    }

    /// SQLite's `journal_mode` and `synchronous` for the conditions that use SQLite directly,
    /// `None` for the others.
    #[must_use]
    pub fn sqlite_modes(self) -> Option<SqliteModes> {
        let (journal_mode, synchronous) = match self {
            Self::Default => ("delete", "FULL"),
            Self::Wal | Self::Shared | Self::Connections => ("wal", "FULL"),
            Self::WalNormal => ("wal", "NORMAL"),
            Self::GroupcommitBlocking
            | Self::GroupcommitAsync
            | Self::Merged
            | Self::Sync
            | Self::SyncThreads
            | Self::Batched
            | Self::NoWal
            | Self::WalNosync
            | Self::WalSync
            | Self::Groupcommit
            | Self::OneConnection
            | Self::Blocking
            | Self::BlockingPool
            | Self::AsyncPool
            | Self::Bridge => return None,
        };
        Some(SqliteModes { journal_mode, synchronous })
    }
}

/// The two settings in which the plain SQLite conditions differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqliteModes {
    /// `PRAGMA journal_mode`, in the lower case that SQLite answers with.
    pub journal_mode: &'static str,
    /// `PRAGMA synchronous`.
    pub synchronous: &'static str,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Condition {
    type Err = UnknownCondition;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::every()
            .find(|condition| condition.name() == name.trim())
            .ok_or_else(|| UnknownCondition(name.to_owned()))
    }
}

/// A name that is not a condition's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownCondition(String);

impl fmt::Display for UnknownCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = Condition::every().map(Condition::name).collect();
        write!(f, "`{}` is not a condition; choose among {}", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownCondition {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back_and_match_the_records() {
        for condition in Condition::every() {
            assert_eq!(condition.name().parse(), Ok(condition));
            let record = serde_json::to_string(&condition).expect("serializes");
            assert_eq!(record, format!("\"{}\"", condition.name()));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_choices() {
        let error = "fast".parse::<Condition>().expect_err("not a condition");
        assert!(error.to_string().contains("`fast`"));
        assert!(error.to_string().contains("groupcommit-async"));
    }

    #[test]
    fn three_are_not_durable() {
        let loose: Vec<_> = Condition::every().filter(|c| !c.is_durable()).collect();
        assert_eq!(loose, [Condition::WalNormal, Condition::NoWal, Condition::WalNosync]);
    }
}
