//! RocksDB for an ingest.

use std::error::Error as StdError;
use std::path::Path;

use groupcommit::rocksdb::rocksdb::{Direction, IteratorMode, Options};
use groupcommit::rocksdb::{Database, Error, Snapshot, Transaction};
use groupcommit::{Failure, Rejected};

use crate::ingest::options::KeyedEngine;

use super::engine::{Engine, Opened, Pairs};

/// RocksDB.
#[derive(Debug)]
pub(crate) enum Rocksdb {}

impl Engine for Rocksdb {
    type Database = Database;
    /// The name of a column family.
    type Table = String;
    type Error = Error;

    const ENGINE: KeyedEngine = KeyedEngine::Rocksdb;
    /// What RocksDB recommends at most.
    const KEY_BYTES_MAX: usize = 8 << 20;

    fn open(
        path: &Path,
        names: [&str; 3],
    ) -> Result<Opened<Self>, Box<dyn StdError + Send + Sync>> {
        let options = names.iter().fold(Database::options(), |options, name| {
            options.column_family(*name, Options::default())
        });
        Ok((options.open(path)?, names.map(str::to_owned)))
    }

    fn warnings(database: &Database) -> Vec<String> {
        database.warnings().iter().map(ToString::to_string).collect()
    }

    fn get(
        tx: &mut Transaction<'_>,
        family: &String,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, Error> {
        tx.get_cf(family, key)
    }

    fn put(
        tx: &mut Transaction<'_>,
        family: &String,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Error> {
        tx.put_cf(family, key, value)
    }

    fn delete_prefix(
        tx: &mut Transaction<'_>,
        family: &String,
        prefix: &[u8],
    ) -> Result<(), Error> {
        let keys = tx
            .range_cf(family, prefix, None)?
            .map(|entry| entry.map(|(key, _)| key))
            .take_while(|key| key.as_ref().map_or(true, |key| key.starts_with(prefix)))
            .collect::<Result<Vec<_>, Error>>()?;
        keys.iter().try_for_each(|key| tx.delete_cf(family, key))
    }

    fn scan(
        database: &Database,
        family: &String,
        prefix: &[u8],
        from: &[u8],
        count_max: usize,
    ) -> Result<Pairs, Error> {
        let found = database.read(|snapshot: &Snapshot<'_>| {
            let family = snapshot.column_family(family)?;
            snapshot
                .iterator_cf(&family, IteratorMode::From(from, Direction::Forward))
                .map(|entry| entry.map(|(key, value)| (key.into_vec(), value.into_vec())))
                .take_while(|row| row.as_ref().map_or(true, |(key, _)| key.starts_with(prefix)))
                .take(count_max)
                .collect::<Result<Pairs, _>>()
                .map_err(|source| Error::InTransaction { doing: "read a range", source })
        });
        found.map_err(|failure| match failure {
            Failure::Rejected(Rejected::Caller(error)) => error,
            // A read on the caller's thread fails otherwise only when the database is closed.
            _ => Error::Closed,
        })
    }
}
