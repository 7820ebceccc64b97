//! The suite that every engine passes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use groupcommit_sqlite::{
    Database, Transaction,
    rusqlite::{Connection, Error, OptionalExtension as _, Result},
};
use groupcommit_testkit::conformance::Subject;

struct Sqlite;

fn key(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

fn rows(connection: &Connection) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut select = connection.prepare("SELECT k, v FROM t ORDER BY k")?;
    let rows = select.query_map((), |row| Ok((u64::from_be_bytes(row.get(0)?), row.get(1)?)))?;
    rows.collect()
}

impl Subject for Sqlite {
    type Database = Database;
    type Error = Error;

    fn open(path: &Path) -> Database {
        let db = Database::open(path).unwrap();
        let create = "CREATE TABLE IF NOT EXISTS t (k BLOB PRIMARY KEY, v BLOB NOT NULL)";
        db.exclusive(|connection| connection.execute_batch(create)).unwrap();
        db
    }

    fn put(tx: &mut Transaction<'_>, k: u64, value: &[u8]) -> Result<()> {
        tx.execute("INSERT OR REPLACE INTO t VALUES (?1, ?2)", (key(k), value)).map(drop)
    }

    fn get(tx: &mut Transaction<'_>, k: u64) -> Result<Option<Vec<u8>>> {
        tx.query_row("SELECT v FROM t WHERE k = ?1", [key(k)], |row| row.get(0)).optional()
    }

    fn delete(tx: &mut Transaction<'_>, k: u64) -> Result<bool> {
        Ok(tx.execute("DELETE FROM t WHERE k = ?1", [key(k)])? == 1)
    }

    fn rows(db: &Database) -> Vec<(u64, Vec<u8>)> {
        db.read(rows).unwrap()
    }

    fn rows_durable(db: &Database) -> Vec<(u64, Vec<u8>)> {
        db.read_durable(rows).unwrap()
    }

    fn put_exclusively(db: &Database, k: u64, value: &[u8], alone: impl Fn() + Send + 'static) {
        let value = value.to_vec();
        let put = move |connection: &Connection| {
            alone();
            connection.execute("INSERT OR REPLACE INTO t VALUES (?1, ?2)", (key(k), &value))
        };
        db.exclusive(put).unwrap();
    }
}

groupcommit_testkit::conformance!(Sqlite);
