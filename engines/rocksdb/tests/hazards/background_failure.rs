//! A memtable that cannot be written out: RocksDB takes nothing more, and says so of transactions
//! that are sent to it later. Of those it is known that they are not there.

use std::{fs, path::Path};

use groupcommit_rocksdb::{Database, Error, Exclusive, Failure, NotRun, Rejected, rocksdb};

use super::value;

/// With its table files in a folder of their own, which can be taken away alone.
fn open(folder: &Path) -> Database {
    let mut options = rocksdb::Options::default();
    let files = rocksdb::DBPath::new(folder.join("tables"), 1 << 40).unwrap();
    options.set_db_paths(&[files]);
    Database::options().rocksdb(options).open(folder.join("app")).unwrap()
}

#[test]
fn after_a_failure_in_the_background_what_comes_later_is_not_run_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    db.transact(|tx| tx.put(b"before", b"1")).unwrap();
    fs::rename(folder.path().join("tables"), folder.path().join("away")).unwrap();
    db.exclusive(Exclusive::flush_memtables).unwrap_err();
    fs::rename(folder.path().join("away"), folder.path().join("tables")).unwrap();
    for _ in 0..2 {
        let stopped = |cause: &groupcommit_rocksdb::Cause| {
            matches!(cause.downcast_ref(), Some(Error::Stopped { .. }))
        };
        match db.transact(|tx| tx.put(b"after", b"2")) {
            Err(Failure::NotRun(NotRun::Unavailable(cause))) => assert!(stopped(&cause), "{cause}"),
            other => panic!("{other:?}"),
        }
    }
    let inside = db.exclusive(|env| env.transact(|tx| tx.put(b"after", b"2")));
    assert!(matches!(inside, Err(Failure::Rejected(Rejected::Caller(Error::Stopped { .. })))));
    assert_eq!(value(&db, b"before"), Some(b"1".to_vec()));
    db.close().unwrap();
    let db = open(folder.path());
    assert_eq!(value(&db, b"before"), Some(b"1".to_vec()));
    assert_eq!(value(&db, b"after"), None);
    db.transact(|tx| tx.put(b"after", b"2")).unwrap();
}
