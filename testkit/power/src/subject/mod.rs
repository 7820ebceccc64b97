//! The database under test, as the harness drives it: a handful of methods for each engine.

mod keyed;
mod lmdb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod sqlite;

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;
use groupcommit_core::{Failure, Outcome};

use crate::plan::{Found, Planned};

pub(crate) use lmdb::Lmdb;
#[cfg(feature = "rocksdb")]
pub(crate) use rocksdb::Rocksdb;
pub(crate) use sqlite::Sqlite;

/// Calls what is generic over the subject for the one of an engine.
macro_rules! for_engine {
    ($engine:expr, $($function:ident)::+($($argument:expr),*)) => {
        match $engine {
            $crate::subject::Engine::Sqlite => {
                $($function)::+::<$crate::subject::Sqlite>($($argument),*)
            }
            $crate::subject::Engine::Lmdb => {
                $($function)::+::<$crate::subject::Lmdb>($($argument),*)
            }
            #[cfg(feature = "rocksdb")]
            $crate::subject::Engine::Rocksdb => {
                $($function)::+::<$crate::subject::Rocksdb>($($argument),*)
            }
        }
    };
}
pub(crate) use for_engine;

/// Which engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Engine {
    /// SQLite
    Sqlite,
    /// LMDB
    Lmdb,
    /// RocksDB
    #[cfg(feature = "rocksdb")]
    Rocksdb,
}

impl Engine {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Lmdb => "lmdb",
            #[cfg(feature = "rocksdb")]
            Self::Rocksdb => "rocksdb",
        }
    }
}

/// What a transaction came to, and why.
#[derive(Debug, Clone)]
pub(crate) struct Came {
    pub(crate) outcome: Outcome,
    /// Its token was there already.
    pub(crate) is_repeated: bool,
    /// Its rows are there without its token, or its token belongs to another.
    pub(crate) contradicts: bool,
    pub(crate) why: String,
}

impl Came {
    /// Of a ticket's result.
    pub(crate) fn of<T, E: std::error::Error + 'static>(result: &Result<T, Failure<E>>) -> Self {
        let mut why = String::new();
        let mut error: Option<&dyn std::error::Error> = match result {
            Ok(_) => None,
            Err(failure) => Some(failure),
        };
        while let Some(said) = error {
            why = format!("{why}{}{said}", if why.is_empty() { "" } else { ": " });
            error = said.source();
        }
        Self { outcome: Outcome::of(result), is_repeated: false, contradicts: false, why }
    }
}

/// Waits for a ticket.
pub(crate) type Waiting = Box<dyn FnOnce() -> Came + Send>;

/// How a transaction fails on purpose, after it has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failing {
    Error,
    Panic,
}

/// A database under test. Clones are the same database.
pub(crate) trait Subject: Clone + Send + Sync + 'static {
    /// The files in which faults are made: how their names end, and what they are.
    const FILES: &'static [(&'static str, &'static str)];

    /// Whether it goes on by itself once a disk that was full has space again, where no outcome was
    /// unknown. Else it may refuse until it is opened again.
    const OUTLIVES_FULL_DISKS: bool;

    /// Whether it reads its files through a memory map: a page that is not in memory when the power
    /// is gone then ends the process, by `SIGBUS`.
    const IS_MAPPED: bool;

    /// Opens the database in `folder`, and creates what the transactions need.
    fn open(folder: &Path) -> Result<Self>;

    fn submit(&self, planned: Planned) -> Waiting;

    fn submit_then(&self, planned: Planned, then: Box<dyn FnOnce(Came) + Send>);

    /// The blocking twin of `submit`.
    fn transact(&self, planned: Planned) -> Came;

    /// Submits one again that is there, under the token that it left; `None` where it left none.
    fn submit_again(&self, _planned: Planned) -> Option<Waiting> {
        None
    }

    /// Submits one that writes and then fails.
    fn submit_failing(&self, failing: Failing) -> Waiting;

    /// The head, as a read that no power cut can take back; `None` when it was refused.
    fn read_durable(&self) -> Option<u64>;

    /// Upkeep of the engine's own: a checkpoint or the like, `choice` of how thorough.
    fn tidy(&self, choice: u64);

    fn close(&self) -> Result<()>;

    /// Everything that is there.
    fn look(&self) -> Result<Found>;

    /// The engine's own check of its files.
    fn check_integrity(&self) -> Result<()>;
}
