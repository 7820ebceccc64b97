//! Ingest into LMDB: the cases of every key-value engine.

mod common;
mod keyed;

use common::Place;
use groupcommit::lmdb::Database;
use groupcommit::lmdb::heed::types::Bytes;

/// What is in a table, keys and values as text.
fn rows(place: &Place, table: &str) -> Vec<(String, String)> {
    let db = Database::open(place.path("store")).expect("opens");
    let table = db.table::<Bytes, Bytes>(table).expect("opens");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    db.read(|tx| {
        table.iter(tx)?.map(|row| row.map(|(key, value)| (text(key), text(value)))).collect()
    })
    .unwrap_or_else(|failure: groupcommit::Failure<groupcommit::lmdb::heed::Error>| {
        panic!("{failure:?}")
    })
}

keyed_cases!(keyed::Store { target: "lmdb:store", rows });
