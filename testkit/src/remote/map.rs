//! An engine for a remote database as a subject of the conformance suite: one table of keys and bytes.

use std::{fs, marker::PhantomData, path::Path};

use groupcommit_remote::{Database, Transaction};
use groupcommit_statement::{Statement, Value};

use super::{DatabaseOf, ErrorOf, Remote};
use crate::conformance::Subject;

/// The engine `S` as a map.
#[derive(Debug)]
pub struct Map<S>(PhantomData<S>);

/// Keys may exceed an `i64`.
fn key_of(key: u64) -> Value {
    Value::Text(key.to_string())
}

fn rows(rows: Vec<Vec<Value>>) -> Vec<(u64, Vec<u8>)> {
    rows.into_iter()
        .map(|row| match &row[..] {
            [Value::Text(key), Value::Bytes(value)] => (key.parse().unwrap(), value.clone()),
            other => panic!("{other:?} is no row"),
        })
        .collect()
}

impl<S: Remote> Subject for Map<S> {
    type Database = DatabaseOf<S>;
    type Error = ErrorOf<S>;

    /// The file at `path` holds the URL, so that another process finds the same database.
    fn open(path: &Path) -> DatabaseOf<S> {
        if !path.exists() {
            let url = S::url_through(S::port());
            let db = DatabaseOf::<S>::open(&url).unwrap();
            db.exclusive(|alone| alone.batch(S::SQL.create_map)).unwrap();
            db.close().unwrap();
            fs::write(path, url).unwrap();
        }
        Database::open(&fs::read_to_string(path).unwrap()).unwrap()
    }

    fn put(
        tx: &mut Transaction<'_, S::Protocol>,
        key: u64,
        value: &[u8],
    ) -> Result<(), ErrorOf<S>> {
        tx.execute(S::SQL.put, [key_of(key), value.into()]).map(drop)
    }

    fn get(tx: &mut Transaction<'_, S::Protocol>, key: u64) -> Result<Option<Vec<u8>>, ErrorOf<S>> {
        let rows = tx.query(S::SQL.get, [key_of(key)])?;
        Ok(rows.into_iter().next().map(|mut row| match row.pop() {
            Some(Value::Bytes(value)) => value,
            other => panic!("{other:?} is no value"),
        }))
    }

    fn delete(tx: &mut Transaction<'_, S::Protocol>, key: u64) -> Result<bool, ErrorOf<S>> {
        Ok(tx.execute(S::SQL.delete, [key_of(key)])? > 0)
    }

    fn rows(db: &DatabaseOf<S>) -> Vec<(u64, Vec<u8>)> {
        rows(db.read(&Statement::new(S::SQL.all, [])).unwrap().rows)
    }

    fn rows_durable(db: &DatabaseOf<S>) -> Vec<(u64, Vec<u8>)> {
        rows(db.read_durable(&Statement::new(S::SQL.all, [])).unwrap().rows)
    }

    fn put_exclusively(
        db: &DatabaseOf<S>,
        key: u64,
        value: &[u8],
        alone: impl Fn() + Send + 'static,
    ) {
        let value = value.to_vec();
        db.exclusive(move |connection| {
            alone();
            connection.run(&Statement::new(S::SQL.put, [key_of(key), value.clone().into()]))
        })
        .unwrap();
    }
}
