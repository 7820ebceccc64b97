//! The folder is deleted or replaced under an open database, or has several paths.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use groupcommit_rocksdb::{Database, Error, Failure, NotDurable, UnloggedDatabase};
use tempfile::TempDir;

/// What may happen to the folder of a database.
const LOSSES: [fn(&Path); 4] = [
    |path| fs::remove_dir_all(path).unwrap(),
    |path| fs::rename(path, path.with_extension("moved")).unwrap(),
    |path| {
        let moved = path.with_extension("moved");
        fs::rename(path, &moved).unwrap();
        fs::create_dir(path).unwrap();
        for entry in fs::read_dir(moved).unwrap() {
            let file = entry.unwrap().path();
            fs::copy(&file, path.join(file.file_name().unwrap())).unwrap();
        }
    },
    |path| {
        for entry in fs::read_dir(path).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    },
];

fn new() -> (TempDir, PathBuf, Database) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = Database::open(&path).unwrap();
    db.transact(|tx| tx.put("1", "")).unwrap();
    (folder, path, db)
}

fn is_replaced<T, E>(result: Result<T, Failure<E>>) -> bool {
    let Err(Failure::Unknown(unknown)) = result else { return false };
    matches!(unknown.cause().downcast_ref(), Some(Error::Replaced(_)))
}

#[test]
fn nothing_is_acknowledged_into_a_folder_that_is_gone() {
    for lose in LOSSES {
        let (_folder, path, db) = new();
        lose(&path);
        assert!(is_replaced(db.transact(|tx| tx.put("2", ""))));
    }
}

#[test]
fn nothing_is_said_to_be_durable_in_a_folder_that_is_gone() {
    for lose in LOSSES {
        let (_folder, path, db) = new();
        lose(&path);
        let done = db.exclusive(|exclusive| exclusive.transact(|tx| tx.put("2", "")));
        assert!(is_replaced(done));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let db = UnloggedDatabase::open(&path).unwrap();
        let NotDurable(()) = db.transact(|tx| tx.put("2", "")).unwrap();
        lose(&path);
        let Err(Failure::Unknown(_)) = db.flush() else { panic!("flushed") };
    }
}

#[test]
fn closing_tells_of_a_folder_that_is_gone() {
    for lose in LOSSES {
        let (_folder, path, db) = new();
        lose(&path);
        let Err(Error::Close { source }) = db.close() else { panic!("closed") };
        assert!(format!("{source:?}").contains("Replaced"), "{source:?}");
    }
}

/// RocksDB knows a database of its own process by the name of its folder alone, and two would write
/// at the same time.
#[test]
fn a_database_is_not_opened_twice_by_whatever_path() {
    let (folder, path, db) = new();
    let link = folder.path().join("link");
    symlink(&path, &link).unwrap();
    let moved = folder.path().join("moved");
    for other in [&path, &link, &path.join("../store")] {
        let error = Database::open(other).unwrap_err();
        assert!(matches!(error, Error::AlreadyOpen(_)), "{error}");
    }
    fs::rename(&path, &moved).unwrap();
    let error = Database::open(&moved).unwrap_err();
    assert!(matches!(error, Error::AlreadyOpen(_)), "{error}");
    db.close().unwrap_err();
    assert_eq!(crate::value(&Database::open(&moved).unwrap(), "1"), Some(Vec::new()));
}

/// The folder counts, not the link to it or the folder above it.
#[test]
fn memory_behind_a_link_is_warned_of() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("skipped: there is no /dev/shm");
        return;
    };
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    for target in [memory.path().to_owned(), memory.path().join("missing")] {
        let link = folder.path().join("link");
        symlink(&target, &link).unwrap();
        assert_eq!(Database::open(&link).unwrap().warnings().len(), 1);
        fs::remove_file(&link).unwrap();
    }
}

/// Nothing in `/proc` can be flushed, and the system says so.
#[cfg(target_os = "linux")]
#[test]
fn the_entry_of_the_folder_is_flushed() {
    let error = Database::open("/proc/self/task").unwrap_err();
    assert!(matches!(error, Error::Io { doing: "flush the folder", .. }), "{error:?}");
}

#[test]
fn a_lock_file_that_cannot_be_opened_is_not_a_lock_that_is_held() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("LOCK")).unwrap();
    let error = Database::open(folder.path()).unwrap_err();
    assert!(matches!(error, Error::Rocksdb { .. }), "{error:?}");
}
