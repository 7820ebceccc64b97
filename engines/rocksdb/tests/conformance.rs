//! The suite that every engine passes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use groupcommit_rocksdb::{
    Database, Error, Exclusive, Snapshot, TokenLimits, Transaction, rocksdb,
};
use groupcommit_testkit::conformance::{Subject, tokens::KeepsTokens};
use rocksdb::IteratorMode;

struct Rocksdb;

fn rows(snapshot: &Snapshot<'_>) -> Result<Vec<(u64, Vec<u8>)>, rocksdb::Error> {
    let entries = snapshot.iterator(IteratorMode::Start);
    entries
        .map(|entry| {
            let (key, value) = entry?;
            Ok((u64::from_be_bytes((*key).try_into().unwrap()), value.to_vec()))
        })
        .collect()
}

impl Subject for Rocksdb {
    type Database = Database;
    type Error = Error;

    fn open(path: &Path) -> Database {
        Database::open(path).unwrap()
    }

    fn put(tx: &mut Transaction<'_>, key: u64, value: &[u8]) -> Result<(), Error> {
        tx.put(key.to_be_bytes(), value)
    }

    fn get(tx: &mut Transaction<'_>, key: u64) -> Result<Option<Vec<u8>>, Error> {
        tx.get(key.to_be_bytes())
    }

    fn delete(tx: &mut Transaction<'_>, key: u64) -> Result<bool, Error> {
        let was_there = tx.get(key.to_be_bytes())?.is_some();
        tx.delete(key.to_be_bytes())?;
        Ok(was_there)
    }

    fn rows(db: &Database) -> Vec<(u64, Vec<u8>)> {
        db.read(rows).unwrap()
    }

    fn rows_durable(db: &Database) -> Vec<(u64, Vec<u8>)> {
        db.read_durable(rows).unwrap()
    }

    fn put_exclusively(db: &Database, key: u64, value: &[u8], alone: impl Fn() + Send + 'static) {
        let value = value.to_vec();
        let put = move |exclusive: &mut Exclusive| {
            alone();
            exclusive.transact(|tx| tx.put(key.to_be_bytes(), &value))
        };
        db.exclusive(put).unwrap();
    }
}

impl KeepsTokens for Rocksdb {
    fn open_with(path: &Path, limits: TokenLimits) -> Database {
        Database::options().tokens(limits).open(path).unwrap()
    }
}

groupcommit_testkit::conformance!(Rocksdb);
groupcommit_testkit::conformance!(tokens Rocksdb);
