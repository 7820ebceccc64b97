//! One process at a time: who closed a database has let go of it.

use groupcommit_rocksdb::{Database, Error, Failure, NotRun};

#[test]
fn a_second_handle_is_refused_until_the_first_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = Database::open(&path).unwrap();
    assert!(matches!(Database::open(&path), Err(Error::AlreadyOpen(_))));
    let clone = db.clone();
    db.transact(|tx| tx.put("k", "v")).unwrap();
    db.close().unwrap();
    assert!(matches!(
        clone.read(|snapshot| snapshot.get("k")),
        Err(Failure::NotRun(NotRun::Closed))
    ));
    assert!(matches!(clone.transact(|tx| tx.get("k")), Err(Failure::NotRun(NotRun::Closed))));
    let db = Database::options().create(false).open(&path).unwrap();
    assert_eq!(crate::value(&db, "k"), Some(b"v".to_vec()));
}

#[test]
fn what_is_no_database_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "text").unwrap();
    assert!(matches!(Database::open(&file), Err(Error::NotADatabase(_))));
    let missing = folder.path().join("missing");
    let absent = Database::options().create(false).open(&missing);
    assert!(matches!(absent, Err(Error::Missing(_))));
    assert!(matches!(Database::open(missing.join("store")), Err(Error::FolderMissing(_))));
    assert!(!missing.exists());
}
