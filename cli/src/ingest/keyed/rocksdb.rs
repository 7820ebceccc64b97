//! RocksDB for an ingest: a column family for each space.

use std::error::Error as StdError;
use std::path::Path;

use groupcommit::rocksdb::rocksdb::{Direction, IteratorMode, Options};
use groupcommit::rocksdb::{Database, Error, Snapshot, Transaction};
use groupcommit::{Failure, Rejected};

use crate::ingest::options::KeyedEngine;

use super::engine::{Engine, Pairs, Space};

/// RocksDB.
#[derive(Debug)]
pub(crate) enum Rocksdb {}

/// The column families of an ingest.
#[derive(Debug)]
pub(crate) struct Families {
    records: String,
}

impl Families {
    fn of(&self, space: Space) -> &str {
        match space {
            Space::Records => &self.records,
            Space::Ledger => "_groupcommit_ingest",
            Space::Rejects => "_groupcommit_rejects",
        }
    }
}

impl Engine for Rocksdb {
    type Database = Database;
    type Spaces = Families;
    type Error = Error;

    const ENGINE: KeyedEngine = KeyedEngine::Rocksdb;
    /// What RocksDB recommends at most.
    const KEY_BYTES_MAX: usize = 8 << 20;

    fn open(
        path: &Path,
        table: &str,
    ) -> Result<(Database, Families), Box<dyn StdError + Send + Sync>> {
        let families = Families { records: table.to_owned() };
        let spaces = [Space::Records, Space::Ledger, Space::Rejects];
        let options = spaces.iter().fold(Database::options(), |options, &space| {
            options.column_family(families.of(space), Options::default())
        });
        Ok((options.open(path)?, families))
    }

    fn warnings(database: &Database) -> Vec<String> {
        database.warnings().iter().map(ToString::to_string).collect()
    }

    fn get(
        tx: &mut Transaction<'_>,
        families: &Families,
        space: Space,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, Error> {
        tx.get_cf(families.of(space), key)
    }

    fn put(
        tx: &mut Transaction<'_>,
        families: &Families,
        space: Space,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Error> {
        tx.put_cf(families.of(space), key, value)
    }

    fn delete_prefix(
        tx: &mut Transaction<'_>,
        families: &Families,
        space: Space,
        prefix: &[u8],
    ) -> Result<(), Error> {
        let keys = tx
            .range_cf(families.of(space), prefix, None)?
            .map(|entry| entry.map(|(key, _)| key))
            .take_while(|key| key.as_ref().map_or(true, |key| key.starts_with(prefix)))
            .collect::<Result<Vec<_>, Error>>()?;
        keys.iter().try_for_each(|key| tx.delete_cf(families.of(space), key))
    }

    fn scan(
        database: &Database,
        families: &Families,
        space: Space,
        prefix: &[u8],
        from: &[u8],
        count_max: usize,
    ) -> Result<Pairs, Error> {
        let found = database.read(|snapshot: &Snapshot<'_>| {
            let family = snapshot.column_family(families.of(space))?;
            let mut pairs = Pairs::new();
            for entry in snapshot.iterator_cf(&family, IteratorMode::From(from, Direction::Forward))
            {
                let (key, value) = entry
                    .map_err(|source| Error::InTransaction { doing: "read a range", source })?;
                if !key.starts_with(prefix) || pairs.len() == count_max {
                    break;
                }
                pairs.push((key.into_vec(), value.into_vec()));
            }
            Ok(pairs)
        });
        found.map_err(|failure| match failure {
            Failure::Rejected(Rejected::Caller(error)) => error,
            // A read on the caller's thread fails otherwise only when the database is closed.
            _ => Error::Closed,
        })
    }
}
