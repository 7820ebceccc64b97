//! Without a log nothing is durable before a flush, and no ticket says otherwise.

use std::path::PathBuf;

use groupcommit_rocksdb::{Database, Error, NotDurable, UnloggedDatabase, rocksdb};
use groupcommit_testkit::Victim;

const FLUSHED: u64 = 100;
const ALL: u64 = 200;

fn open(path: PathBuf) -> UnloggedDatabase {
    let options = Database::options().column_family("x", rocksdb::Options::default());
    options.open_unlogged(path).unwrap()
}

/// What the process does that is killed.
fn live(path: PathBuf) -> ! {
    let db = open(path);
    for index in 0..ALL {
        if index == FLUSHED {
            db.flush().unwrap();
        }
        let key = index.to_be_bytes();
        let NotDurable(()) = db
            .transact(move |tx| {
                tx.put(key, "v")?;
                tx.put_cf("x", key, "v")
            })
            .unwrap();
    }
    Victim::park()
}

#[test]
fn a_killed_process_keeps_what_was_flushed_and_nothing_else() {
    if let Some(path) = Victim::path() {
        live(path);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let name = "unlogged::a_killed_process_keeps_what_was_flushed_and_nothing_else";
    Victim::start(&path, name).kill();
    let db = open(path);
    for index in 0..ALL {
        let found = db.read(|snapshot| {
            let other = snapshot.column_family("x")?;
            let found =
                (snapshot.get(index.to_be_bytes()), snapshot.get_cf(&other, index.to_be_bytes()));
            Ok::<_, Error>((found.0.unwrap().is_some(), found.1.unwrap().is_some()))
        });
        let kept = index < FLUSHED;
        assert_eq!(found.unwrap(), (kept, kept), "{index}");
    }
    db.close().unwrap();
}

#[test]
fn closing_flushes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = UnloggedDatabase::open(&path).unwrap();
    let ticket = db.submit(|tx| tx.put("k", "v"));
    assert_eq!(ticket.wait().unwrap(), NotDurable(()));
    assert_eq!(db.stats().flushes, 0, "a ticket without durability waited for a flush");
    db.close().unwrap();
    let db = Database::open(&path).unwrap();
    assert_eq!(crate::value(&db, "k"), Some(b"v".to_vec()));
}
