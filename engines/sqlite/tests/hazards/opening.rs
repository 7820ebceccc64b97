//! Databases that cannot be used so that every promise holds, and what is said of them.

use std::{fs, path::Path, process::Command, time::Duration};

use groupcommit_sqlite::{
    Database, Error, Warning,
    rusqlite::{self, Connection},
};

use crate::common::{Done, Scratch, ids, insert};

fn rollback_journal(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 1)")
        .unwrap();
    connection
}

fn journal_mode(path: &Path) -> String {
    let connection = Connection::open(path).unwrap();
    connection.query_row("PRAGMA journal_mode", (), |row| row.get(0)).unwrap()
}

#[test]
fn a_rollback_journal_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.db");
    drop(rollback_journal(&path));
    let before = fs::read(&path).unwrap();
    let error = Database::open(&path).unwrap_err();
    assert!(matches!(&error, Error::RollbackJournal { mode, .. } if mode == "delete"), "{error}");
    assert!(error.to_string().contains("convert_to_wal"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(journal_mode(&path), "delete");
}

#[test]
fn a_rollback_journal_is_converted_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.db");
    drop(rollback_journal(&path));
    let db = Database::options().convert_to_wal(true).open(&path).unwrap();
    db.transact(|tx| insert(tx, 2)).unwrap();
    assert_eq!(journal_mode(&path), "wal");
    assert_eq!(ids(&Connection::open(&path).unwrap()), [1, 2]);
}

#[test]
fn a_rollback_journal_in_use_is_not_converted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.db");
    let other = rollback_journal(&path);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let options = Database::options().convert_to_wal(true).busy_timeout(Duration::ZERO);
    let error = options.open(&path).unwrap_err();
    assert!(matches!(error, Error::Held { .. }), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    options.open(&path).unwrap();
}

#[test]
fn a_missing_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let error = Database::open(missing.join("app.db")).unwrap_err();
    assert!(matches!(&error, Error::FolderMissing(path) if *path == missing), "{error}");
    assert!(!missing.exists());
}

#[test]
fn a_missing_database_is_created_only_when_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let error = Database::options().create(false).open(&path).unwrap_err();
    assert!(matches!(error, Error::Missing(_)), "{error}");
    assert!(!path.exists());
    Database::open(&path).unwrap();
    Database::options().create(false).open(&path).unwrap();
}

#[test]
fn a_file_that_is_not_a_database_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    let text = "just some notes, and not a database at all\n".repeat(100);
    fs::write(&path, &text).unwrap();
    let error = Database::options().convert_to_wal(true).open(&path).unwrap_err();
    assert!(matches!(error, Error::NotADatabase(_)), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_folder_in_the_place_of_a_database_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = Database::open(folder.path()).unwrap_err();
    assert!(matches!(error, Error::NotADatabase(_)), "{error}");
}

#[test]
fn a_database_without_a_file_is_refused() {
    for path in ["", ":memory:", "file::memory:", "file:app.db?nolock=1", "file:app.db?psow=0"] {
        let error = Database::open(path).unwrap_err();
        assert!(matches!(error, Error::NotAFile), "{path}: {error}");
    }
}

#[test]
fn one_that_another_connection_keeps_to_itself_is_named_held() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("held.db");
    let holder = Connection::open(&path).unwrap();
    holder
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA locking_mode = EXCLUSIVE;
             CREATE TABLE t (id INTEGER PRIMARY KEY, v)",
        )
        .unwrap();
    let options = Database::options().busy_timeout(Duration::ZERO);
    let error = options.open(&path).unwrap_err();
    assert!(matches!(error, Error::Held { .. }), "{error}");
    drop(holder);
    options.open(&path).unwrap().transact(|tx| insert(tx, 1)).unwrap();
}

#[test]
fn a_log_that_a_reader_keeps_is_not_taken_for_recovered() {
    let test = Scratch::with_table();
    let path = test.path.clone();
    let reader = test.plain();
    reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
    test.db.transact(|tx| insert(tx, 1)).unwrap();
    let options = Database::options().busy_timeout(Duration::ZERO);
    let error = options.open(&path).unwrap_err();
    assert!(matches!(error, Error::NotRecovered(_)), "{error}");
    reader.execute_batch("ROLLBACK").unwrap();
    options.open(&path).unwrap();
}

/// Runs a program that needs the rights of an administrator; `false` (and a line that says what
/// was skipped) when there are none.
pub(crate) fn may(program: &str, args: &[&str]) -> bool {
    let done =
        Command::new(program).args(args).output().is_ok_and(|output| output.status.success());
    if !done {
        eprintln!("skipped: `{program} {}` is not possible here", args.join(" "));
    }
    done
}

#[test]
fn a_database_that_may_not_be_written_is_named_read_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    drop(Database::open(&path).unwrap());
    // Permissions do not stop an administrator; this does.
    let name = path.to_str().unwrap();
    if !may("chattr", &["+i", name]) {
        return;
    }
    let result = Database::open(&path);
    assert!(may("chattr", &["-i", name]));
    let error = result.unwrap_err();
    assert!(matches!(&error, Error::ReadOnly(found) if *found == path), "{error}");
    Database::open(&path).unwrap();
}

#[test]
fn a_folder_that_may_not_be_written_is_named_read_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    drop(Database::open(&path).unwrap());
    let name = folder.path().to_str().unwrap();
    if !may("chattr", &["+i", name]) {
        return;
    }
    let results = [Database::open(&path), Database::open(folder.path().join("new.db"))];
    assert!(may("chattr", &["-i", name]));
    for result in results {
        let error = result.unwrap_err();
        assert!(matches!(&error, Error::ReadOnly(found) if found == folder.path()), "{error}");
    }
}

#[test]
fn memory_in_the_place_of_a_disk_is_warned_of() {
    let shm = Path::new("/dev/shm");
    let Ok(folder) = tempfile::tempdir_in(shm) else {
        eprintln!("skipped: there is no {}", shm.display());
        return;
    };
    let db = Database::open(folder.path().join("app.db")).unwrap();
    assert!(matches!(db.warnings(), [Warning::Volatile { file_system: "tmpfs" }]));
    let on_disk = Scratch::with_table();
    // The file counts, not the link to it.
    let link = on_disk.folder().join("link.db");
    std::os::unix::fs::symlink(folder.path().join("other.db"), &link).unwrap();
    for _ in ["missing", "there"] {
        let linked = Database::open(&link).unwrap();
        assert!(matches!(linked.warnings(), [Warning::Volatile { file_system: "tmpfs" }]));
    }
    assert!(on_disk.db.warnings().is_empty(), "{:?}", on_disk.db.warnings());
}

#[test]
fn the_version_of_sqlite_is_one_without_the_log_reset_race() {
    assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
}

#[test]
fn opened_twice_in_one_process_both_work() {
    let test = Scratch::with_table();
    let second = Database::open(&test.path).unwrap();
    let tickets: Vec<_> = (0..200)
        .map(|id| {
            let db = if id % 2 == 0 { &test.db } else { &second };
            db.submit(move |tx| insert(tx, id))
        })
        .collect();
    let all: Done<Vec<usize>> =
        tickets.into_iter().map(|ticket| Ok(ticket.wait().unwrap())).collect();
    assert_eq!(all.unwrap().len(), 200);
    assert_eq!(test.ids().len(), 200);
}

#[test]
fn a_wait_without_end_for_other_processes_can_be_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let options = Database::options().busy_timeout(std::time::Duration::MAX);
    let db = options.open(folder.path().join("app.db")).unwrap();
    db.transact(|tx| tx.execute("CREATE TABLE t (id)", ())).unwrap();
    let one = db.read(|conn| conn.query_row("SELECT 1", (), |row| row.get::<_, i64>(0)));
    assert_eq!(one.unwrap(), 1);
}

#[test]
fn what_a_dropped_database_leaves_is_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let db = Database::open(&path).unwrap();
    db.transact(|tx| tx.execute("CREATE TABLE t (id)", ())).unwrap();
    db.read(|conn| conn.query_row("SELECT 1", (), |row| row.get::<_, i64>(0))).unwrap();
    drop(db);
    assert!(!path.with_extension("db-wal").exists(), "the log was left behind");
}
