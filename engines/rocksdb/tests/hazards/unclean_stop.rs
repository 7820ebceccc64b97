//! A process that is killed leaves a log that is readable, but perhaps not durable.

use std::path::PathBuf;

use groupcommit_rocksdb::{Database, Error};
use groupcommit_testkit::Victim;

use crate::{hold, value};

const ROWS: u64 = 1_000;

/// What the process does that is killed.
fn live(path: PathBuf) -> ! {
    let db = Database::open(path).unwrap();
    let tickets: Vec<_> =
        (0..ROWS).map(|row| db.submit(move |tx| tx.put(row.to_be_bytes(), "v"))).collect();
    tickets.into_iter().for_each(|ticket| ticket.wait().unwrap());
    // In the middle of a transaction, with others behind it.
    let _held = hold(&db);
    let _behind = db.submit(|tx| tx.put("behind", "v"));
    Victim::park()
}

#[test]
fn what_it_left_in_the_log_is_in_table_files_before_open_returns() {
    if let Some(path) = Victim::path() {
        live(path);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let name = "unclean_stop::what_it_left_in_the_log_is_in_table_files_before_open_returns";
    Victim::start(&path, name).kill();
    let db = Database::open(&path).unwrap();
    let in_memory = db
        .exclusive(|exclusive| exclusive.property("rocksdb.num-entries-active-mem-table"))
        .unwrap();
    assert_eq!(in_memory.as_deref(), Some("0"), "it is in the log alone still");
    for row in 0..ROWS {
        assert_eq!(value(&db, row.to_be_bytes()), Some(b"v".to_vec()), "{row}");
    }
    assert_eq!(value(&db, "behind"), None);
    db.transact(|tx| tx.put("after", "v")).unwrap();
    let names = db.exclusive(|exclusive| Ok::<_, Error>(exclusive.column_families())).unwrap();
    assert_eq!(names, ["default"]);
}
