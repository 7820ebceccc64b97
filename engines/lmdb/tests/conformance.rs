//! The suite that every engine passes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use groupcommit_lmdb::{
    Database, Exclusive, Table, TokenLimits, Transaction,
    heed::{Error, Result, RoTxn},
};
use groupcommit_testkit::conformance::{Subject, tokens::KeepsTokens};

struct Lmdb;

fn rows(table: Table, tx: &RoTxn<'_>) -> Result<Vec<(u64, Vec<u8>)>> {
    let row = |row: Result<(&[u8], &[u8])>| {
        row.map(|(key, value)| (u64::from_be_bytes(key.try_into().unwrap()), value.to_vec()))
    };
    table.iter(tx)?.map(row).collect()
}

impl Subject for Lmdb {
    type Database = Database;
    type Error = Error;

    fn open(path: &Path) -> Database {
        Database::open(path).unwrap()
    }

    fn put(tx: &mut Transaction<'_>, key: u64, value: &[u8]) -> Result<()> {
        tx.main_table().put(tx, &key.to_be_bytes(), value)
    }

    fn get(tx: &mut Transaction<'_>, key: u64) -> Result<Option<Vec<u8>>> {
        Ok(tx.main_table().get(tx, &key.to_be_bytes())?.map(<[u8]>::to_vec))
    }

    fn delete(tx: &mut Transaction<'_>, key: u64) -> Result<bool> {
        tx.main_table().delete(tx, &key.to_be_bytes())
    }

    fn rows(db: &Database) -> Vec<(u64, Vec<u8>)> {
        db.read(|tx| rows(db.main_table(), tx)).unwrap()
    }

    fn rows_durable(db: &Database) -> Vec<(u64, Vec<u8>)> {
        db.read_durable(|tx| rows(db.main_table(), tx)).unwrap()
    }

    fn put_exclusively(db: &Database, key: u64, value: &[u8], alone: impl Fn() + Send + 'static) {
        let value = value.to_vec();
        let put = move |env: &mut Exclusive| {
            alone();
            env.transact(|tx| tx.main_table().put(tx, &key.to_be_bytes(), &value))
        };
        db.exclusive(put).unwrap();
    }
}

impl KeepsTokens for Lmdb {
    fn open_with(path: &Path, limits: TokenLimits) -> Database {
        Database::options().tokens(limits).open(path).unwrap()
    }
}

groupcommit_testkit::conformance!(Lmdb);
groupcommit_testkit::conformance!(tokens Lmdb);
