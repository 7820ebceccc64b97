//! Promise 10: a callback is called once, on success and on failure, off the critical path.

use std::sync::mpsc;

use groupcommit_sqlite::{Failure, NotRun, Outcome};

use crate::common::{Scratch, hold, insert, neighbour};

#[test]
fn each_is_called_once_and_in_order() {
    let test = Scratch::with_table();
    let (call, calls) = mpsc::channel();
    for id in 0..500 {
        let call = call.clone();
        let id = if id % 10 == 9 { 0 } else { id };
        test.db.submit_then(
            move |tx| insert(tx, id),
            move |result| call.send((id, Outcome::of(&result))).unwrap(),
        );
    }
    drop(call);
    let calls: Vec<_> = calls.iter().collect();
    let expected: Vec<_> = (0..500)
        .map(|id| if id % 10 == 9 { (0, Outcome::Rejected) } else { (id, Outcome::Committed) })
        .collect();
    assert_eq!(calls, expected);
}

#[test]
fn a_slow_one_delays_no_commit() {
    let test = Scratch::with_table();
    let (release, released) = mpsc::channel::<()>();
    let (called, calls) = mpsc::channel();
    test.db.submit_then(
        |tx| insert(tx, 1),
        move |_| {
            released.recv().ok();
            called.send(()).unwrap();
        },
    );
    for id in 2..50 {
        assert_eq!(neighbour(&test.db, id).wait().unwrap(), 1);
    }
    test.db.flush().unwrap();
    assert!(calls.try_recv().is_err());
    drop(release);
    calls.recv().unwrap();
}

#[test]
fn one_that_panics_keeps_no_other_from_being_called() {
    let test = Scratch::with_table();
    let (call, calls) = mpsc::channel();
    test.db.submit_then(|tx| insert(tx, 1), |_| panic!("on purpose"));
    test.db.submit_then(|tx| insert(tx, 2), move |result| call.send(result).unwrap());
    assert_eq!(calls.recv().unwrap().unwrap(), 1);
}

#[test]
fn it_is_called_when_the_transaction_is_refused() {
    let test = Scratch::with_table();
    test.db.close().unwrap();
    let (call, calls) = mpsc::channel();
    test.db.submit_then(|tx| insert(tx, 1), move |result| call.send(result).unwrap());
    assert!(matches!(calls.recv().unwrap(), Err(Failure::NotRun(NotRun::Closed))));
}

#[test]
fn it_sees_what_its_transaction_did() {
    let test = Scratch::with_table();
    let (call, calls) = mpsc::channel();
    let held = hold(&test.db);
    for id in 0..20 {
        let (db, call) = (test.db.clone(), call.clone());
        test.db.submit_then(
            move |tx| insert(tx, id),
            move |_| {
                let count = db.read(|conn| {
                    conn.query_row("SELECT count(*) FROM t WHERE id = ?1", [id], |row| {
                        row.get::<_, i64>(0)
                    })
                });
                call.send(count.unwrap()).unwrap();
            },
        );
    }
    held.release().wait().unwrap();
    drop(call);
    assert_eq!(calls.iter().collect::<Vec<_>>(), [1; 20]);
}
