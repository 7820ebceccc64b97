//! LMDB for an ingest.

use std::error::Error;
use std::ops::Bound;
use std::path::Path;

use groupcommit::lmdb::heed::types::Bytes;
use groupcommit::lmdb::{Database, Table, Transaction, heed};
use groupcommit::{Failure, Rejected};

use crate::ingest::options::KeyedEngine;

use super::engine::{Engine, Opened, Pairs};

/// LMDB.
#[derive(Debug)]
pub(crate) enum Lmdb {}

impl Engine for Lmdb {
    type Database = Database;
    type Table = Table;
    type Error = heed::Error;

    const ENGINE: KeyedEngine = KeyedEngine::Lmdb;
    const KEY_BYTES_MAX: usize = 511;

    fn open(path: &Path, names: [&str; 3]) -> Result<Opened<Self>, Box<dyn Error + Send + Sync>> {
        let database = Database::open(path)?;
        let table = |name| database.table::<Bytes, Bytes>(name);
        let tables = [table(names[0])?, table(names[1])?, table(names[2])?];
        Ok((database, tables))
    }

    fn warnings(database: &Database) -> Vec<String> {
        database.warnings().iter().map(ToString::to_string).collect()
    }

    fn get(tx: &mut Transaction<'_>, table: &Table, key: &[u8]) -> heed::Result<Option<Vec<u8>>> {
        Ok(table.get(tx, key)?.map(<[u8]>::to_vec))
    }

    fn put(tx: &mut Transaction<'_>, table: &Table, key: &[u8], value: &[u8]) -> heed::Result<()> {
        table.put(tx, key, value)
    }

    fn delete_prefix(tx: &mut Transaction<'_>, table: &Table, prefix: &[u8]) -> heed::Result<()> {
        while let Some((key, _)) = table.get_greater_than_or_equal_to(tx, prefix)? {
            let key = key.to_vec();
            if !key.starts_with(prefix) {
                break;
            }
            table.delete(tx, &key)?;
        }
        Ok(())
    }

    fn scan(
        database: &Database,
        table: &Table,
        prefix: &[u8],
        from: &[u8],
        count_max: usize,
    ) -> heed::Result<Pairs> {
        let found = database.read(|tx| {
            let from: (Bound<&[u8]>, _) = (Bound::Included(from), Bound::Unbounded);
            table
                .range(tx, &from)?
                .take_while(|row| row.as_ref().map_or(true, |(key, _)| key.starts_with(prefix)))
                .take(count_max)
                .map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())))
                .collect::<heed::Result<Pairs>>()
        });
        found.map_err(|failure| match failure {
            Failure::Rejected(Rejected::Caller(error)) => error,
            other => heed::Error::Io(std::io::Error::other(other)),
        })
    }
}
