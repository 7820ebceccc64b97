//! What a key-value engine does for an ingest.

use std::error::Error;
use std::path::Path;

use crate::ingest::options::KeyedEngine;
use groupcommit::{Submit, TransactionOf};

/// What a transaction's closure is given by the engine `E`.
pub(crate) type Transaction<'g, E> = TransactionOf<'g, <E as Engine>::Database>;

/// One of the tables of an ingest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// The records.
    Records,
    /// How far ingests came.
    Ledger,
    /// What they rejected.
    Rejects,
}

/// Keys with their values.
pub(crate) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// A key-value engine, as an ingest uses it.
pub(crate) trait Engine: Sized + 'static {
    /// The engine's database in groupcommit.
    type Database: Submit;
    /// The tables of an ingest.
    type Spaces: Send + Sync + 'static;
    /// What its calls fail with.
    type Error: Error + Send + Sync + 'static;

    /// Which engine.
    const ENGINE: KeyedEngine;
    /// The longest key in bytes.
    const KEY_BYTES_MAX: usize;

    /// Opens the database at `path`, or creates it, with a table for the records and the two that
    /// are the program's own.
    fn open(
        path: &Path,
        table: &str,
    ) -> Result<(Self::Database, Self::Spaces), Box<dyn Error + Send + Sync>>;

    /// What makes its flushes promise less than they should.
    fn warnings(database: &Self::Database) -> Vec<String>;

    /// The value of `key`, as the transaction sees it.
    fn get(
        tx: &mut Transaction<'_, Self>,
        spaces: &Self::Spaces,
        space: Space,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Sets the value of `key`.
    fn put(
        tx: &mut Transaction<'_, Self>,
        spaces: &Self::Spaces,
        space: Space,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Self::Error>;

    /// Removes every key that begins with `prefix`.
    fn delete_prefix(
        tx: &mut Transaction<'_, Self>,
        spaces: &Self::Spaces,
        space: Space,
        prefix: &[u8],
    ) -> Result<(), Self::Error>;

    /// At most `count_max` keys from `from` on that begin with `prefix`, in order, in a snapshot.
    fn scan(
        database: &Self::Database,
        spaces: &Self::Spaces,
        space: Space,
        prefix: &[u8],
        from: &[u8],
        count_max: usize,
    ) -> Result<Pairs, Self::Error>;
}
