//! The table of the experiments in SQLite, how a row gets into it, and what is counted at the end:
//! the same for all conditions.

use std::ops::Range;

use groupcommit::sqlite::Transaction;
use rusqlite::{CachedStatement, Connection};

use crate::workload::Workload;

/// Creates the table, unless the database comes with it.
pub(crate) const CREATE_TABLE: &str =
    "CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v TEXT NOT NULL)";

const INSERT: &str = "INSERT INTO t (k, v) VALUES (?1, ?2)";

/// Inserts the given rows with one prepared statement from the connection's cache.
pub(crate) fn insert_rows(
    connection: &Connection,
    workload: &Workload,
    rows: Range<usize>,
) -> rusqlite::Result<()> {
    insert_with(connection.prepare_cached(INSERT)?, workload, rows)
}

/// The same in a transaction that shares its commit, as its documentation says: a single statement
/// by `execute`, which keeps it at hand for the next transaction.
pub(crate) fn insert_in_group(
    tx: &Transaction<'_>,
    workload: &Workload,
    rows: Range<usize>,
) -> rusqlite::Result<()> {
    if rows.len() == 1 {
        let row = (Workload::key(rows.start), workload.value(rows.start));
        return tx.execute(INSERT, row).map(drop);
    }
    insert_with(tx.prepare_cached(INSERT)?, workload, rows)
}

fn insert_with(
    mut insert: CachedStatement<'_>,
    workload: &Workload,
    rows: Range<usize>,
) -> rusqlite::Result<()> {
    for index in rows {
        insert.execute((Workload::key(index), workload.value(index)))?;
    }
    Ok(())
}

/// What a fresh look finds in the table, of whatever engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) rows: u64,
    pub(crate) key_sum: i128,
}
