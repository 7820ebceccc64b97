//! LMDB for an ingest: a named table for each space.

use std::error::Error;
use std::path::Path;

use groupcommit::lmdb::heed::types::Bytes;
use groupcommit::lmdb::{Database, Table, Transaction, heed};
use groupcommit::{Failure, Rejected};

use crate::ingest::options::KeyedEngine;

use super::engine::{Engine, Pairs, Space};

/// LMDB.
#[derive(Debug)]
pub(crate) enum Lmdb {}

/// The tables of an ingest.
#[derive(Debug)]
pub(crate) struct Tables {
    records: Table,
    ledger: Table,
    rejects: Table,
}

impl Tables {
    fn of(&self, space: Space) -> Table {
        match space {
            Space::Records => self.records,
            Space::Ledger => self.ledger,
            Space::Rejects => self.rejects,
        }
    }
}

impl Engine for Lmdb {
    type Database = Database;
    type Spaces = Tables;
    type Error = heed::Error;

    const ENGINE: KeyedEngine = KeyedEngine::Lmdb;
    const KEY_BYTES_MAX: usize = 511;

    fn open(path: &Path, table: &str) -> Result<(Database, Tables), Box<dyn Error + Send + Sync>> {
        let database = Database::open(path)?;
        let tables = Tables {
            records: database.table::<Bytes, Bytes>(table)?,
            ledger: database.table::<Bytes, Bytes>("_groupcommit_ingest")?,
            rejects: database.table::<Bytes, Bytes>("_groupcommit_rejects")?,
        };
        Ok((database, tables))
    }

    fn warnings(database: &Database) -> Vec<String> {
        database.warnings().iter().map(ToString::to_string).collect()
    }

    fn get(
        tx: &mut Transaction<'_>,
        tables: &Tables,
        space: Space,
        key: &[u8],
    ) -> heed::Result<Option<Vec<u8>>> {
        Ok(tables.of(space).get(tx, key)?.map(<[u8]>::to_vec))
    }

    fn put(
        tx: &mut Transaction<'_>,
        tables: &Tables,
        space: Space,
        key: &[u8],
        value: &[u8],
    ) -> heed::Result<()> {
        tables.of(space).put(tx, key, value)
    }

    fn delete_prefix(
        tx: &mut Transaction<'_>,
        tables: &Tables,
        space: Space,
        prefix: &[u8],
    ) -> heed::Result<()> {
        let table = tables.of(space);
        while let Some(key) = first_with(table, tx, prefix)? {
            table.delete(tx, &key)?;
        }
        Ok(())
    }

    fn scan(
        database: &Database,
        tables: &Tables,
        space: Space,
        prefix: &[u8],
        from: &[u8],
        count_max: usize,
    ) -> heed::Result<Pairs> {
        let table = tables.of(space);
        let found = database.read(|tx| {
            let from: (std::ops::Bound<&[u8]>, _) =
                (std::ops::Bound::Included(from), std::ops::Bound::Unbounded);
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

/// The first key that begins with `prefix`.
fn first_with(table: Table, tx: &Transaction<'_>, prefix: &[u8]) -> heed::Result<Option<Vec<u8>>> {
    let found = table.get_greater_than_or_equal_to(tx, prefix)?;
    Ok(found.filter(|(key, _)| key.starts_with(prefix)).map(|(key, _)| key.to_vec()))
}
