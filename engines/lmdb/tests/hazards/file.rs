//! The data file or its locks are deleted or replaced under an open database, or have two names.

use std::{fs, os::unix::fs::symlink};

use groupcommit_lmdb::{Database, Error, Failure};

use crate::Scratch;

#[test]
fn nothing_is_acknowledged_into_a_file_that_is_gone() {
    for name in ["data.mdb", "lock.mdb"] {
        for replace in [false, true] {
            let test = Scratch::new(&Database::options());
            test.db.transact(|tx| tx.main_table().put(tx, b"1", b"")).unwrap();
            let file = test.path.join(name);
            let copy = fs::read(&file).unwrap();
            fs::remove_file(&file).unwrap();
            if replace {
                fs::write(&file, copy).unwrap();
            }
            let result = test.db.transact(|tx| tx.main_table().put(tx, b"2", b""));
            let Err(Failure::Unknown(unknown)) = result else { panic!("acknowledged: {result:?}") };
            let error: &Error = unknown.cause().downcast_ref().unwrap();
            assert!(matches!(error, Error::Replaced(_)), "{error:?}");
        }
    }
}

#[test]
fn closing_tells_of_a_file_that_is_gone() {
    for name in ["data.mdb", "lock.mdb"] {
        let test = Scratch::new(&Database::options());
        test.db.transact(|tx| tx.main_table().put(tx, b"1", b"")).unwrap();
        fs::rename(test.path.join(name), test.path.join("moved")).unwrap();
        let Err(Error::Close { source }) = test.db.close() else { panic!("closed") };
        let cause = format!("{source:?}");
        assert!(cause.contains("Replaced"), "{cause}");
    }
}

/// Each name would have locks of its own.
#[test]
fn a_data_file_with_two_names_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    Database::open(&one).unwrap().close().unwrap();
    fs::create_dir(&two).unwrap();
    let (file, other) = (one.join("data.mdb"), two.join("data.mdb"));
    fs::hard_link(&file, &other).unwrap();
    for path in [&one, &two, &other] {
        let error = Database::open(path).unwrap_err();
        assert!(matches!(error, Error::Linked(_)), "{error}");
    }
    fs::remove_file(&other).unwrap();
    symlink(&file, &other).unwrap();
    let error = Database::open(&two).unwrap_err();
    assert!(matches!(&error, Error::Linked(found) if found.ends_with("two/data.mdb")), "{error}");
    Database::open(&one).unwrap();
}

#[test]
fn a_link_to_the_database_leads_to_the_same_locks() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    fs::write(&file, []).unwrap();
    symlink(&file, &link).unwrap();
    Database::open(&link).unwrap().close().unwrap();
    assert!(folder.path().join("file-lock").exists());
    assert!(!folder.path().join("link-lock").exists());
}

/// The file counts, not the link to it.
#[test]
fn memory_behind_a_link_is_warned_of() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("skipped: there is no /dev/shm");
        return;
    };
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let (file, link) = (memory.path().join("file"), folder.path().join("link"));
    fs::write(&file, []).unwrap();
    symlink(&file, &link).unwrap();
    assert_eq!(Database::open(&link).unwrap().warnings().len(), 1);
}
