//! The suite that every engine passes.

use std::{fs, path::Path};

use groupcommit_mysql::{Database, Error, Statement, Transaction, Value};
use groupcommit_testkit::conformance::Subject;

use crate::server;

struct MySql;

/// Keys reach beyond what a number holds.
fn key_of(key: u64) -> Value {
    Value::Text(key.to_string())
}

fn all() -> Statement {
    Statement::new("SELECT CAST(k AS CHAR), v FROM kv ORDER BY kv.k", [])
}

fn rows(rows: Vec<Vec<Value>>) -> Vec<(u64, Vec<u8>)> {
    rows.into_iter()
        .map(|row| match &row[..] {
            [Value::Text(key), Value::Bytes(value)] => (key.parse().unwrap(), value.clone()),
            other => panic!("{other:?} is no row"),
        })
        .collect()
}

const PUT: &str = "INSERT INTO kv VALUES (?, ?) ON DUPLICATE KEY UPDATE v = VALUES(v)";

impl Subject for MySql {
    type Database = Database;
    type Error = Error;

    /// The file at `path` holds the URL, so that another process finds the same database.
    fn open(path: &Path) -> Database {
        if !path.exists() {
            let url = server::database();
            let db = Database::open(&url).unwrap();
            db.exclusive(|alone| {
                alone.batch("CREATE TABLE kv (k BIGINT UNSIGNED PRIMARY KEY, v LONGBLOB)")
            })
            .unwrap();
            db.close().unwrap();
            fs::write(path, url).unwrap();
        }
        Database::open(&fs::read_to_string(path).unwrap()).unwrap()
    }

    fn put(tx: &mut Transaction<'_>, key: u64, value: &[u8]) -> Result<(), Error> {
        tx.execute(PUT, [key_of(key), value.into()]).map(drop)
    }

    fn get(tx: &mut Transaction<'_>, key: u64) -> Result<Option<Vec<u8>>, Error> {
        let rows = tx.query("SELECT v FROM kv WHERE k = ?", [key_of(key)])?;
        Ok(rows.into_iter().next().map(|mut row| match row.pop() {
            Some(Value::Bytes(value)) => value,
            other => panic!("{other:?} is no value"),
        }))
    }

    fn delete(tx: &mut Transaction<'_>, key: u64) -> Result<bool, Error> {
        Ok(tx.execute("DELETE FROM kv WHERE k = ?", [key_of(key)])? > 0)
    }

    fn rows(db: &Database) -> Vec<(u64, Vec<u8>)> {
        rows(db.read(&all()).unwrap().rows)
    }

    fn rows_durable(db: &Database) -> Vec<(u64, Vec<u8>)> {
        rows(db.read_durable(&all()).unwrap().rows)
    }

    fn put_exclusively(db: &Database, key: u64, value: &[u8], alone: impl Fn() + Send + 'static) {
        let value = value.to_vec();
        db.exclusive(move |connection| {
            alone();
            connection.run(&Statement::new(PUT, [key_of(key), value.clone().into()]))
        })
        .unwrap();
    }
}

groupcommit_testkit::conformance!(MySql);
