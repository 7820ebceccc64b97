//! Other programs that use the same file.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use groupcommit_sqlite::{Database, Failure, NotRun, Terms, rusqlite::Connection};

use crate::common::{Scratch, hold, ids, insert, neighbour};

#[test]
fn one_that_keeps_the_lock_makes_transactions_not_run_and_then_they_do() {
    let test = Scratch::with_table();
    let path = test.path.clone();
    let db = Database::options().busy_timeout(Duration::ZERO).open(&path).unwrap();
    let other = test.plain();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..2 {
        let refused = db.transact(|tx| insert(tx, 1));
        assert!(matches!(refused, Err(Failure::NotRun(NotRun::Busy(_)))), "{refused:?}");
    }
    let tickets: Vec<_> = (1..5).map(|id| neighbour(&db, id)).collect();
    for ticket in tickets {
        let refused = ticket.wait();
        assert!(matches!(refused, Err(Failure::NotRun(NotRun::Busy(_)))), "{refused:?}");
    }
    other.execute_batch("ROLLBACK").unwrap();
    db.transact(|tx| insert(tx, 1)).unwrap();
    assert_eq!(test.ids(), [1]);
}

#[test]
fn those_that_are_queued_wait_for_one_together() {
    let test = Scratch::with_table();
    let db = Database::options().busy_timeout(Duration::from_millis(500)).open(&test.path).unwrap();
    let other = test.plain();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // One after the other they would wait for more than an hour.
    let tickets: Vec<_> = (0..10_000).map(|id| neighbour(&db, id)).collect();
    for ticket in tickets {
        let refused = ticket.wait();
        assert!(matches!(refused, Err(Failure::NotRun(NotRun::Busy(_)))), "{refused:?}");
    }
    other.execute_batch("ROLLBACK").unwrap();
    neighbour(&db, 1).wait().unwrap();
    assert_eq!(test.ids(), [1]);
}

#[test]
fn one_that_keeps_the_lock_for_a_while_is_waited_for() {
    let test = Scratch::with_table();
    let other = test.plain();
    other.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1, 1)").unwrap();
    let ticket = neighbour(&test.db, 2);
    other.execute_batch("COMMIT").unwrap();
    ticket.wait().unwrap();
    assert_eq!(test.ids(), [1, 2]);
}

#[test]
fn a_transaction_waits_for_one_no_longer_than_its_deadline() {
    let test = Scratch::with_table();
    let patient = Database::options().busy_timeout(Duration::from_secs(20)).open(&test.path);
    let patient = patient.unwrap();
    let other = test.plain();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let late =
        patient.with(Terms::new().deadline(Duration::from_millis(50))).transact(|tx| insert(tx, 1));
    assert!(matches!(late, Err(Failure::NotRun(NotRun::DeadlinePassed))), "{late:?}");
    other.execute_batch("ROLLBACK").unwrap();
    patient.transact(|tx| insert(tx, 2)).unwrap();
    assert_eq!(test.ids(), [2]);
}

#[test]
fn one_that_writes_and_checkpoints_at_once_loses_nothing_and_costs_nothing() {
    let test = Scratch::with_table();
    let path = test.path.clone();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let (ready, is_ready) = mpsc::channel();
    let other = thread::spawn(move || {
        let connection = Connection::open(path).unwrap();
        connection.busy_timeout(Duration::from_mins(1)).unwrap();
        connection.pragma_update(None, "synchronous", "OFF").unwrap();
        let mut count = 0;
        let mut modes = ["PASSIVE", "FULL", "RESTART", "TRUNCATE"].iter().cycle();
        while !stopped.load(Ordering::Relaxed) || count < 50 {
            count += 1;
            connection.execute("INSERT INTO t VALUES (-?1, 'theirs')", [count]).unwrap();
            let mode = modes.next().unwrap();
            connection
                .query_row(&format!("PRAGMA wal_checkpoint({mode})"), (), |_| Ok(()))
                .unwrap();
            ready.send(()).ok();
        }
        count
    });
    is_ready.recv().unwrap();
    for round in 0..20 {
        let tickets: Vec<_> =
            (0..50).map(|member| neighbour(&test.db, 1 + round * 50 + member)).collect();
        for ticket in tickets {
            assert_eq!(ticket.wait().unwrap(), 1);
        }
    }
    stop.store(true, Ordering::Relaxed);
    let theirs = other.join().unwrap();
    let expected: Vec<i64> = (-theirs..=-1).chain(1..=1_000).collect();
    assert_eq!(test.ids(), expected);
    let reopened = test.reopen();
    assert_eq!(reopened.ids(), expected);
}

#[test]
fn one_that_changes_the_schema_between_groups_is_followed() {
    let test = Scratch::with_table();
    neighbour(&test.db, 1).wait().unwrap();
    let other = test.plain();
    other.execute_batch("DROP TABLE t; CREATE TABLE t (v, id INTEGER PRIMARY KEY, w)").unwrap();
    let held = hold(&test.db);
    let next = neighbour(&test.db, 2);
    held.release().wait().unwrap();
    next.wait().unwrap();
    assert_eq!(ids(&other), [2]);
}

/// Has `then` called when the connection has next rolled back and let go of its locks.
#[expect(unsafe_code, reason = "SQLite's C interface: rusqlite lends no hook to a closure")]
fn when_rolled_back(connection: &Connection, then: impl FnOnce() + Send + 'static) {
    type Then = Option<Box<dyn FnOnce() + Send>>;
    unsafe extern "C" fn call(then: *mut std::ffi::c_void) {
        // SAFETY: it is what was leaked below, and SQLite calls on the thread that uses the connection.
        let then = unsafe { &mut *then.cast::<Then>() };
        if let Some(then) = then.take() {
            then();
        }
    }
    let then: Then = Some(Box::new(then));
    let leaked: *mut Then = Box::leak(Box::new(then));
    // SAFETY: the handle is valid while the connection is borrowed; what the hook is given is never
    // freed.
    unsafe {
        groupcommit_sqlite::rusqlite::ffi::sqlite3_rollback_hook(
            connection.handle(),
            Some(call),
            leaked.cast(),
        );
    }
}

/// What was not run has no row that another could be in conflict with.
#[test]
fn one_that_takes_the_lock_during_a_retreat_leaves_nobody_rejected_for_one_that_was_not_run() {
    let test = Scratch::with_table();
    let db = Database::options().busy_timeout(Duration::ZERO).open(&test.path).unwrap();
    let (locked, other) = mpsc::channel();
    let plain = test.plain();
    let held = hold(&db);
    let first = neighbour(&db, 1);
    let mut before_retreat = Some((locked, plain));
    let conflict = db.submit(move |tx| {
        if let Some((locked, plain)) = before_retreat.take() {
            when_rolled_back(tx, move || {
                plain.execute_batch("BEGIN IMMEDIATE").unwrap();
                locked.send(plain).unwrap();
            });
        }
        insert(tx, 50)?;
        insert(tx, 1)
    });
    held.release().wait().ok();
    for ticket in [first, conflict] {
        let refused = ticket.wait();
        assert!(matches!(refused, Err(Failure::NotRun(NotRun::Busy(_)))), "{refused:?}");
    }
    drop(other.recv().unwrap());
    db.transact(|tx| insert(tx, 2)).unwrap();
    assert_eq!(test.ids(), [2]);
}
