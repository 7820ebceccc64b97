//! A process that is killed leaves a log that is readable, but perhaps not durable.

use std::{fs, path::PathBuf, time::Duration};

use groupcommit_sqlite::{Database, rusqlite::Connection};
use groupcommit_testkit::Victim;

use crate::common::{hold, ids, insert, neighbour};

const ROWS: i64 = 100;

/// What the process does that is killed.
fn live(path: PathBuf) -> ! {
    let db = Database::open(path).unwrap();
    db.transact(|tx| tx.execute("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, v)", ()))
        .unwrap();
    let tickets: Vec<_> = (1..=ROWS).map(|id| neighbour(&db, id)).collect();
    for ticket in tickets {
        assert_eq!(ticket.wait().unwrap(), 1);
    }
    // In the middle of a transaction, so with a lock and with pages that are not committed.
    let _held = hold(&db);
    Victim::park()
}

#[test]
fn what_it_left_in_the_log_is_in_the_database_before_open_returns() {
    if let Some(path) = Victim::path() {
        live(path);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let wal = path.with_extension("db-wal");
    let name = "unclean_stop::what_it_left_in_the_log_is_in_the_database_before_open_returns";
    Victim::start(&path, name).kill();
    assert!(fs::metadata(&wal).unwrap().len() > 0, "nothing was left in the log");

    let db = Database::open(&path).unwrap();
    assert_eq!(fs::metadata(&wal).unwrap().len(), 0, "the log was not brought in");
    // The database alone, without its log, holds everything.
    let copy = folder.path().join("copy.db");
    fs::copy(&path, &copy).unwrap();
    assert_eq!(ids(&Connection::open(&copy).unwrap()), (1..=ROWS).collect::<Vec<_>>());
    db.transact(|tx| insert(tx, ROWS + 1)).unwrap();
}

#[test]
fn another_process_in_the_middle_of_a_transaction_is_a_neighbour() {
    if let Some(path) = Victim::path() {
        live(path);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    drop(Database::open(&path).unwrap());
    let name = "unclean_stop::another_process_in_the_middle_of_a_transaction_is_a_neighbour";
    let mut victim = Victim::start(&path, name);
    let options = Database::options().busy_timeout(Duration::ZERO);
    // It holds the write lock, so its log cannot be brought in, nor anything written.
    assert!(options.open(&path).is_err());
    victim.kill();
    let db = options.open(&path).unwrap();
    db.transact(|tx| insert(tx, ROWS + 1)).unwrap();
}
