//! The database is deleted, moved or replaced while it is open: what is committed to it then is
//! found by nobody.

use std::{fs, path::Path};

use groupcommit_sqlite::{Database, Error, Failure, NotRun, Unknown, rusqlite};

use crate::common::{Done, Scratch, ids, neighbour};

fn is_replaced(unknown: &Unknown) -> bool {
    matches!(unknown.cause().downcast_ref(), Some(Error::DatabaseReplaced(_)))
}

fn delete(path: &Path) {
    fs::remove_file(path).unwrap();
}

fn rename(path: &Path) {
    fs::rename(path, path.with_extension("moved")).unwrap();
}

fn replace(path: &Path) {
    let other = path.with_extension("other");
    fs::copy(path, &other).unwrap();
    fs::rename(&other, path).unwrap();
}

fn empty_in_its_place(path: &Path) {
    fs::remove_file(path).unwrap();
    fs::write(path, []).unwrap();
}

const ALL: [fn(&Path); 4] = [delete, rename, replace, empty_in_its_place];

#[test]
fn is_noticed_by_the_next_flush_and_final() {
    for take_away in ALL {
        let test = Scratch::with_table();
        neighbour(&test.db, 1).wait().unwrap();
        take_away(&test.path);
        match neighbour(&test.db, 2).wait() {
            Err(Failure::Unknown(unknown)) => assert!(is_replaced(&unknown), "{unknown:?}"),
            other => panic!("{other:?}"),
        }
        let refused = neighbour(&test.db, 3).wait();
        assert!(matches!(refused, Err(Failure::NotRun(NotRun::Failed(_)))), "{refused:?}");
        assert!(test.db.flush().is_err());
        assert!(test.db.read_durable(|_| Done::Ok(())).is_err());
        assert!(test.db.close().is_err());
    }
}

#[test]
fn is_noticed_by_an_exclusive_a_durable_read_and_by_closing() {
    for take_away in ALL {
        let test = Scratch::with_table();
        take_away(&test.path);
        let exclusive = test.db.exclusive(|conn| conn.execute("DELETE FROM t", ()));
        assert!(matches!(exclusive, Err(Failure::NotRun(NotRun::Failed(_)))), "{exclusive:?}");

        let test = Scratch::with_table();
        test.db.read(|_| Done::Ok(())).unwrap();
        take_away(&test.path);
        assert!(test.db.read_durable(|_| Done::Ok(())).is_err());

        // A connection that is opened now would be one to another database.
        let test = Scratch::with_table();
        take_away(&test.path);
        assert!(test.db.read(|_| Done::Ok(())).is_err());

        let test = Scratch::with_table();
        neighbour(&test.db, 1).wait().unwrap();
        take_away(&test.path);
        let Err(Error::Close { source }) = test.db.close() else { panic!("closed") };
        let cause = format!("{source:?}");
        assert!(cause.contains("DatabaseReplaced"), "{cause}");
    }
}

/// What was acknowledged before it was moved goes with it.
#[test]
fn a_moved_database_keeps_its_log_beside_the_old_name() {
    let test = Scratch::with_table();
    neighbour(&test.db, 1).wait().unwrap();
    rename(&test.path);
    test.db.close().unwrap_err();
    fs::rename(test.path.with_extension("moved"), &test.path).unwrap();
    let db = Database::open(&test.path).unwrap();
    neighbour(&db, 2).wait().unwrap();
    assert_eq!(test.ids(), [1, 2]);
}

/// Each name would have a log of its own.
#[test]
fn a_database_with_two_names_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("app.db"), folder.path().join("other.db"));
    Database::open(&path).unwrap().close().unwrap();
    fs::hard_link(&path, &other).unwrap();
    for name in [&path, &other] {
        let error = Database::open(name).unwrap_err();
        assert!(matches!(&error, Error::HardLinked(found) if found == name), "{error}");
    }
    fs::remove_file(&other).unwrap();
    Database::open(&path).unwrap();
}

#[test]
fn a_symbolic_link_leads_to_one_database_with_one_log() {
    let folder = tempfile::tempdir().unwrap();
    let (near, far) = (folder.path().join("near.db"), folder.path().join("far"));
    fs::create_dir(&far).unwrap();
    // Before there is anything at its end, and after.
    std::os::unix::fs::symlink("far/real.db", &near).unwrap();
    let by_link = Database::open(&near).unwrap();
    by_link
        .exclusive(|conn| conn.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, v)"))
        .unwrap();
    let real = far.join("real.db");
    let by_name = Database::open(&real).unwrap();
    neighbour(&by_link, 1).wait().unwrap();
    neighbour(&by_name, 2).wait().unwrap();
    assert!(!near.with_extension("db-wal").exists());
    assert!(real.with_extension("db-wal").exists());
    // The link is no part of the database.
    fs::remove_file(&near).unwrap();
    neighbour(&by_link, 3).wait().unwrap();
    assert_eq!(ids(&rusqlite::Connection::open(&real).unwrap()), [1, 2, 3]);
}
