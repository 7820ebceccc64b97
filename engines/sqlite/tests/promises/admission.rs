//! Promise 8: admission is bounded by count and by bytes.

use std::{sync::mpsc, thread, time::Duration};

use groupcommit_sqlite::{Database, Failure, Limits, NotRun, Terms, Transaction};

use crate::common::{Scratch, hold, insert, neighbour};

fn limited(test: &Scratch, limits: Limits) -> Database {
    Database::options().limits(limits).open(&test.path).unwrap()
}

#[test]
fn try_submit_refuses_what_does_not_fit_and_gives_the_closure_back() {
    let test = Scratch::with_table();
    let db = limited(&test, Limits::new(3, 1 << 20));
    let held = hold(&db);
    let first = db.try_submit(|tx: &mut Transaction<'_>| insert(tx, 1)).unwrap();
    let second = db.try_submit(|tx: &mut Transaction<'_>| insert(tx, 2)).unwrap();
    let refused = db.try_submit(|tx: &mut Transaction<'_>| insert(tx, 3)).unwrap_err();
    assert!(matches!(refused.reason, NotRun::Overloaded));
    held.release().wait().unwrap();
    first.wait().unwrap();
    second.wait().unwrap();
    db.submit(refused.closure).wait().unwrap();
    assert_eq!(test.ids(), [1, 2, 3]);
}

#[test]
fn bytes_are_limited_too() {
    let test = Scratch::with_table();
    let db = limited(&test, Limits::new(100, 1_000));
    let held = hold(&db);
    let small = || db.with(Terms::new().bytes(400));
    let first = small().try_submit(|tx: &mut Transaction<'_>| insert(tx, 1)).unwrap();
    let second = small().try_submit(|tx: &mut Transaction<'_>| insert(tx, 2)).unwrap();
    let refused = small().try_submit(|tx: &mut Transaction<'_>| insert(tx, 3)).unwrap_err();
    assert!(matches!(refused.reason, NotRun::Overloaded));
    held.release().wait().unwrap();
    first.wait().unwrap();
    second.wait().unwrap();
    // Larger than the limit: admitted alone instead of never.
    let giant = db.with(Terms::new().bytes(1 << 30)).submit(|tx| insert(tx, 4));
    giant.wait().unwrap();
    assert_eq!(test.ids(), [1, 2, 4]);
}

#[test]
fn submit_waits_for_room_in_the_order_of_arrival() {
    let test = Scratch::with_table();
    let db = limited(&test, Limits::new(2, 1 << 20));
    let held = hold(&db);
    let queued = neighbour(&db, 1);
    let (admitted, is_admitted) = mpsc::channel();
    let other = db.clone();
    let waits = thread::spawn(move || {
        let ticket = neighbour(&other, 2);
        admitted.send(()).unwrap();
        ticket.wait().unwrap()
    });
    assert!(is_admitted.recv_timeout(Duration::from_millis(50)).is_err(), "it did not wait");
    held.release().wait().unwrap();
    queued.wait().unwrap();
    assert_eq!(waits.join().unwrap(), 1);
    assert_eq!(test.ids(), [1, 2]);
}

#[test]
fn waiting_for_room_ends_at_the_deadline() {
    let test = Scratch::with_table();
    let db = limited(&test, Limits::new(1, 1 << 20));
    let held = hold(&db);
    let late = db.with(Terms::new().deadline(Duration::from_millis(20))).submit(|tx| insert(tx, 1));
    assert!(matches!(late.wait(), Err(Failure::NotRun(NotRun::DeadlinePassed))));
    held.release().wait().unwrap();
    neighbour(&db, 2).wait().unwrap();
    assert_eq!(test.ids(), [2]);
}

#[test]
fn a_hundred_times_the_limit_passes_through() {
    let test = Scratch::with_table();
    let db = limited(&test, Limits::new(8, 1 << 20));
    let workers: Vec<_> = (0..4)
        .map(|worker| {
            let db = db.clone();
            thread::spawn(move || {
                let tickets: Vec<_> =
                    (0..200).map(|turn| neighbour(&db, worker * 200 + turn)).collect();
                for ticket in tickets {
                    assert_eq!(ticket.wait().unwrap(), 1);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(test.ids(), (0..800).collect::<Vec<_>>());
    assert_eq!(db.stats().in_flight, 0);
}
