//! What a key-value engine does for an ingest.

use std::error::Error;
use std::path::Path;

use groupcommit::{Submit, TransactionOf};

use crate::ingest::options::KeyedEngine;

/// What a transaction's closure is given by the engine `E`.
pub(crate) type Transaction<'g, E> = TransactionOf<'g, <E as Engine>::Database>;

/// Keys with their values.
pub(crate) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// A key-value engine, as an ingest uses it.
pub(crate) trait Engine: Sized + 'static {
    /// The engine's database in groupcommit.
    type Database: Submit;
    /// One of its tables.
    type Table: Clone + Send + Sync + 'static;
    /// What its calls fail with.
    type Error: Error + Send + Sync + 'static;

    /// Which engine.
    const ENGINE: KeyedEngine;
    /// The longest key in bytes.
    const KEY_BYTES_MAX: usize;

    /// Opens the database at `path` with tables of these names, creating what is missing.
    fn open(path: &Path, names: [&str; 3]) -> Result<Opened<Self>, Box<dyn Error + Send + Sync>>;

    /// What makes its flushes promise less than they should.
    fn warnings(database: &Self::Database) -> Vec<String>;

    /// The value of `key`, as the transaction sees it.
    fn get(
        tx: &mut Transaction<'_, Self>,
        table: &Self::Table,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Sets the value of `key`.
    fn put(
        tx: &mut Transaction<'_, Self>,
        table: &Self::Table,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Self::Error>;

    /// Removes every key that begins with `prefix`.
    fn delete_prefix(
        tx: &mut Transaction<'_, Self>,
        table: &Self::Table,
        prefix: &[u8],
    ) -> Result<(), Self::Error>;

    /// At most `count_max` keys from `from` on that begin with `prefix`, in order, in a snapshot.
    fn scan(
        database: &Self::Database,
        table: &Self::Table,
        prefix: &[u8],
        from: &[u8],
        count_max: usize,
    ) -> Result<Pairs, Self::Error>;
}

/// A database with three of its tables.
pub(crate) type Opened<E> = (<E as Engine>::Database, [<E as Engine>::Table; 3]);
