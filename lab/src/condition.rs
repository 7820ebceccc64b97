//! The conditions that an experiment compares: who commits, how, and whether the outcome is
//! durable.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::error::LabError;

/// One way of doing the work. All conditions of an engine use the same file system, table, rows and
/// library.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum, strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Condition {
    /// SQLite: rollback journal, synchronous=FULL, one commit a call
    Default,
    /// SQLite: write-ahead log, synchronous=FULL, one commit a call
    Wal,
    /// SQLite: write-ahead log, synchronous=NORMAL, one commit a call; not durable
    WalNormal,
    /// groupcommit: callers block until their transaction is durable
    GroupcommitBlocking,
    /// groupcommit: callers keep many tickets outstanding
    GroupcommitAsync,
    /// `threads`: as `wal`, one connection shared by a mutex
    Shared,
    /// `threads`: as `wal`, a connection for each thread; servers: many connections
    Connections,
    /// `threads`: as `groupcommit-blocking`
    Merged,
    /// LMDB and RocksDB: one synced commit a call
    Sync,
    /// As `sync`, from 256 threads, whose commits the engine may merge
    SyncThreads,
    /// As `sync`, with 1,000 rows a transaction
    Batched,
    /// RocksDB: without its log, one write a call; not durable
    NoWal,
    /// RocksDB: with its log, which is not flushed; not durable
    WalNosync,
    /// RocksDB: with its log, flushed by every write
    WalSync,
    /// `wal` and `web`: groupcommit
    Groupcommit,
    /// Servers: one connection, one commit a call
    OneConnection,
    /// PostgreSQL: many connections that do not wait for the log; not durable
    AsyncCommit,
    /// `web`: a blocking client with a connection for each request
    Blocking,
    /// `web`: a blocking client with a pool of connections
    BlockingPool,
    /// `web`: an asynchronous client with a pool of connections
    AsyncPool,
    /// `web`: a blocking client behind a bounded bridge
    Bridge,
}

use Condition::{
    AsyncCommit, AsyncPool, Batched, Blocking, BlockingPool, Bridge, Connections, Default,
    Groupcommit, GroupcommitAsync, GroupcommitBlocking, Merged, NoWal, OneConnection, Shared, Sync,
    SyncThreads, Wal, WalNormal, WalNosync, WalSync,
};

impl Condition {
    /// Pure write and the mixed task on SQLite, the slowest first.
    pub const ALL: [Self; 5] = [Default, Wal, WalNormal, GroupcommitBlocking, GroupcommitAsync];

    /// Many threads on SQLite.
    pub const THREADS: [Self; 3] = [Shared, Connections, Merged];

    /// The price of RocksDB's log.
    pub const WAL: [Self; 4] = [NoWal, WalNosync, WalSync, Groupcommit];

    /// Threads of [`Condition::SyncThreads`] where threads are not what is varied.
    pub const SYNC_THREADS: usize = 256;

    /// Connections of [`Condition::Connections`] to a server where they are not what is varied.
    pub const SERVER_CONNECTIONS: usize = 25;

    /// Rows a transaction of [`Condition::Batched`].
    pub const BATCHED_ROWS: usize = 1_000;

    /// The conditions of pure write on `engine`.
    #[must_use]
    pub fn of_write(engine: Engine) -> &'static [Self] {
        match engine {
            Engine::Sqlite => &Self::ALL,
            Engine::Lmdb => &[Sync, SyncThreads, Batched, GroupcommitBlocking, GroupcommitAsync],
            Engine::Rocksdb => &[
                Sync,
                SyncThreads,
                Batched,
                NoWal,
                WalNosync,
                GroupcommitBlocking,
                GroupcommitAsync,
            ],
            Engine::Postgres => &[OneConnection, Connections, AsyncCommit, GroupcommitAsync],
            Engine::Mysql => &[OneConnection, Connections, GroupcommitAsync],
        }
    }

    /// The conditions of the mixed task on `engine`.
    #[must_use]
    pub fn of_mixed(engine: Engine) -> &'static [Self] {
        match engine {
            Engine::Sqlite => &Self::ALL,
            Engine::Lmdb | Engine::Rocksdb => &[Sync, GroupcommitBlocking, GroupcommitAsync],
            Engine::Postgres | Engine::Mysql => &[],
        }
    }

    /// The conditions of many threads on `engine`.
    #[must_use]
    pub fn of_threads(engine: Engine) -> &'static [Self] {
        match engine {
            Engine::Sqlite => &Self::THREADS,
            Engine::Lmdb | Engine::Rocksdb => &[SyncThreads, Merged],
            Engine::Postgres | Engine::Mysql => &[Connections, Merged],
        }
    }

    /// The conditions of web requests on `engine`; SQLite has no asynchronous client.
    #[must_use]
    pub fn of_web(engine: Engine) -> &'static [Self] {
        match engine {
            Engine::Sqlite => &[Blocking, BlockingPool, Bridge, Groupcommit],
            Engine::Postgres | Engine::Mysql => {
                &[Blocking, BlockingPool, AsyncPool, Bridge, Groupcommit]
            }
            Engine::Lmdb | Engine::Rocksdb => &[],
        }
    }

    /// Whether ratios of pure write and of the mixed task refer to it.
    #[must_use]
    pub fn is_reference(self) -> bool {
        matches!(self, Wal | Sync | Connections)
    }

    /// Whether ratios of many threads on `engine` refer to it. A server merges the flushes of its
    /// connections, so its reference is many of them.
    #[must_use]
    pub fn is_reference_of_threads(self, engine: Engine) -> bool {
        self == Self::of_threads(engine)[0]
    }

    /// Whether transactions go through groupcommit.
    #[must_use]
    pub fn is_grouped(self) -> bool {
        matches!(self, GroupcommitBlocking | GroupcommitAsync | Merged | Groupcommit)
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
            Self::AsyncCommit => {
                "`synchronous_commit=off` over many connections: a crash of the server loses what it acknowledged \
                 within three times `wal_writer_delay`, 0.6 s by default"
            }
            Self::Blocking => "a blocking client, a connection per request",
            Self::BlockingPool => "a blocking client, a pool of connections",
            Self::AsyncPool => "an asynchronous client, a pool of connections",
            Self::Bridge => "the blocking client behind groupcommit's bounded bridge",
        }
    }

    /// Whether an acknowledged transaction survives a power cut, on a device that honours flushes.
    #[must_use]
    pub fn is_durable(self) -> bool {
        !matches!(self, WalNormal | NoWal | WalNosync | AsyncCommit)
    }

    /// Whether one caller keeps several transactions outstanding.
    #[must_use]
    pub fn is_async(self) -> bool {
        matches!(self, GroupcommitAsync | Groupcommit)
    }

    /// The name in options, records and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The conditions `asked` for, or all of `known`, those of the experiment `name`.
    ///
    /// # Errors
    /// When one that is asked for is not known.
    pub(crate) fn choose(
        asked: &[Self],
        known: &[Self],
        name: &str,
    ) -> Result<Vec<Self>, LabError> {
        if let Some(other) = asked.iter().find(|condition| !known.contains(condition)) {
            let known: Vec<&str> = known.iter().map(|condition| condition.name()).collect();
            return Err(LabError::Options(format!(
                "{other} is not a condition of `{name}`; choose among {}",
                known.join(", ")
            )));
        }
        Ok(if asked.is_empty() { known } else { asked }.to_vec())
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back_and_match_the_records() {
        for &condition in Condition::value_variants() {
            assert_eq!(Condition::from_str(condition.name(), false), Ok(condition));
            let record = serde_json::to_string(&condition).expect("serializes");
            assert_eq!(record, format!("\"{condition}\""));
        }
    }

    #[test]
    fn four_are_not_durable() {
        let loose: Vec<_> =
            Condition::value_variants().iter().copied().filter(|c| !c.is_durable()).collect();
        assert_eq!(
            loose,
            [Condition::WalNormal, Condition::NoWal, Condition::WalNosync, Condition::AsyncCommit]
        );
    }
}
