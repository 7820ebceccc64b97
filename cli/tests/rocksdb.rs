//! Ingest into RocksDB: the cases of every key-value engine.

mod common;
mod keyed;

use common::Place;
use groupcommit::rocksdb::rocksdb::IteratorMode;
use groupcommit::rocksdb::{Database, Error};

/// What is in a column family, keys and values as text.
fn rows(place: &Place, family: &str) -> Vec<(String, String)> {
    let db = Database::open(place.path("store")).expect("opens");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let rows = db.read(|snapshot| {
        // A process that was killed early had not made it yet.
        let Ok(family) = snapshot.column_family(family) else { return Ok(Vec::new()) };
        let entries = snapshot.iterator_cf(&family, IteratorMode::Start);
        let rows = entries.map(|entry| {
            let (key, value) = entry.expect("reads");
            (text(&key), text(&value))
        });
        Ok::<_, Error>(rows.collect::<Vec<_>>())
    });
    let rows = rows.expect("reads");
    db.close().expect("closes");
    rows
}

keyed_cases!(keyed::Store { target: "rocksdb:store", rows });
