//! Promises 6 and 9: cancelling, and deadlines.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use groupcommit_sqlite::{Failure, NotRun, Terms};

use crate::common::{Scratch, hold, insert, neighbour};

const ENDLESS: &str =
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

#[test]
fn a_queued_transaction_can_be_cancelled_and_never_runs() {
    let test = Scratch::with_table();
    let held = hold(&test.db);
    let before = neighbour(&test.db, 1);
    let ran = Arc::new(AtomicBool::new(false));
    let runs = ran.clone();
    let cancelled = test.db.submit(move |tx| {
        runs.store(true, Ordering::Relaxed);
        insert(tx, 50)
    });
    let after = neighbour(&test.db, 2);
    assert!(cancelled.cancel());
    assert!(!cancelled.cancel(), "twice");
    assert_eq!(Arc::strong_count(&ran), 1, "its closure is kept");
    assert!(!cancelled.is_resolved(), "before its turn");
    held.release().wait().unwrap();
    before.wait().unwrap();
    assert!(matches!(cancelled.wait(), Err(Failure::NotRun(NotRun::Cancelled))));
    after.wait().unwrap();
    assert!(!ran.load(Ordering::Relaxed));
    assert_eq!(test.ids(), [1, 2]);
}

#[test]
fn a_running_or_resolved_transaction_cannot_be_cancelled() {
    let test = Scratch::with_table();
    let held = hold(&test.db);
    assert!(!held.ticket.cancel());
    held.release().wait().unwrap();
    let ticket = neighbour(&test.db, 1);
    test.db.flush().unwrap();
    assert!(!ticket.cancel());
    assert_eq!(ticket.wait().unwrap(), 1);
}

#[test]
fn a_transaction_whose_deadline_passes_in_the_queue_never_runs() {
    let test = Scratch::with_table();
    let held = hold(&test.db);
    let late = test.db.with(Terms::new().deadline(Duration::ZERO)).submit(|tx| insert(tx, 50));
    let in_time =
        test.db.with(Terms::new().deadline(Duration::from_hours(1))).submit(|tx| insert(tx, 1));
    held.release().wait().unwrap();
    assert!(matches!(late.wait(), Err(Failure::NotRun(NotRun::DeadlinePassed))));
    in_time.wait().unwrap();
    assert_eq!(test.ids(), [1]);
}

#[test]
fn one_that_would_run_for_ever_is_stopped_at_its_deadline_and_its_neighbours_commit() {
    for writes_first in [false, true] {
        let test = Scratch::with_table();
        let endless = test.between_neighbours(|db| {
            db.with(Terms::new().deadline(Duration::from_millis(200))).submit(move |tx| {
                if writes_first {
                    insert(tx, 50)?;
                }
                tx.query_row(ENDLESS, (), |row| row.get::<_, i64>(0))
            })
        });
        assert!(matches!(endless, Err(Failure::NotRun(NotRun::DeadlinePassed))), "{endless:?}");
        assert_eq!(test.ids(), [1, 2]);
    }
}

#[test]
fn a_write_that_would_run_for_ever_is_undone_at_its_deadline() {
    let test = Scratch::with_table();
    let endless = test.between_neighbours(|db| {
        db.with(Terms::new().deadline(Duration::from_millis(100))).submit(|tx| {
            tx.execute(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
             INSERT OR REPLACE INTO t SELECT 100 + i % 10, 'x' FROM n",
                (),
            )
        })
    });
    assert!(matches!(endless, Err(Failure::NotRun(NotRun::DeadlinePassed))), "{endless:?}");
    assert_eq!(test.ids(), [1, 2]);
}

#[test]
fn dropping_a_ticket_neither_cancels_nor_leaks() {
    let test = Scratch::with_table();
    let kept = Arc::new(());
    let held = hold(&test.db);
    for id in 0..10 {
        let keeps = kept.clone();
        drop(test.db.submit(move |tx| {
            assert!(Arc::strong_count(&keeps) > 1);
            insert(tx, id)
        }));
    }
    held.release().wait().unwrap();
    test.db.flush().unwrap();
    assert_eq!(Arc::strong_count(&kept), 1);
    assert_eq!(test.ids(), (0..10).collect::<Vec<_>>());
    assert_eq!(test.db.stats().in_flight, 0);
}

#[test]
fn waiting_can_be_given_up_and_taken_up_again() {
    let test = Scratch::with_table();
    let (release, released) = mpsc::channel::<()>();
    let mut ticket = test.db.submit(move |tx| {
        released.recv().ok();
        insert(tx, 1)
    });
    assert!(ticket.wait_timeout(Duration::ZERO).is_none());
    assert!(ticket.wait_timeout(Duration::from_millis(5)).is_none());
    drop(release);
    assert_eq!(ticket.wait_timeout(Duration::from_hours(1)).unwrap().unwrap(), 1);
}
