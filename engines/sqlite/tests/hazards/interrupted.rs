//! A member that hands the connection's interrupt handle to another thread, which then interrupts
//! whoever is running. Nobody can tell who did; but nobody is half done, and the database goes on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
};

use groupcommit_sqlite::{Failure, NotRun, Rejected, rusqlite};

use crate::common::{Done, Scratch, insert};

const PAIRS: i64 = 3_000;

fn is_interrupt(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted)
}

#[test]
fn neighbours_are_whole_or_not_there() {
    let test = Scratch::with_table();
    let (hand_out, handed_out) = mpsc::channel();
    test.db
        .transact(move |tx| {
            hand_out.send(tx.get_interrupt_handle()).unwrap();
            Done::Ok(())
        })
        .unwrap();
    let handle = handed_out.recv().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stops = stop.clone();
    let interrupts = thread::spawn(move || {
        while !stops.load(Relaxed) {
            handle.interrupt();
            // Where interrupts never pause, no statement of anybody's ever gets through.
            (0..100).for_each(|_| std::hint::spin_loop());
        }
    });
    for _ in 0..50 {
        let alone = test.db.exclusive(|conn| conn.execute_batch("BEGIN; SELECT 1; ROLLBACK"));
        assert!(matches!(alone, Ok(()) | Err(Failure::Rejected(_))), "{alone:?}");
    }
    let tickets: Vec<_> = (0..PAIRS)
        .map(|id| {
            let ticket = test.db.submit(move |tx| {
                insert(tx, id)?;
                // Long enough to be interrupted in, now and then.
                tx.query_row(
                    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 500)
                     SELECT count(*) FROM n",
                    (),
                    |_| Ok(()),
                )?;
                insert(tx, PAIRS + id)
            });
            (id, ticket)
        })
        .collect();
    let mut whole = Vec::new();
    for (id, ticket) in tickets {
        match ticket.wait() {
            Ok(_) => whole.push(id),
            Err(Failure::Rejected(Rejected::Caller(error))) if is_interrupt(&error) => {}
            Err(Failure::Rejected(Rejected::Engine(cause)))
                if cause.downcast_ref().is_some_and(is_interrupt) => {}
            Err(Failure::NotRun(NotRun::Unavailable(_))) => {}
            other => panic!("{id}: {other:?}"),
        }
    }
    stop.store(true, Relaxed);
    interrupts.join().unwrap();
    let second: Vec<i64> = whole.iter().map(|id| PAIRS + id).collect();
    assert_eq!(test.ids(), [whole, second].concat());
    test.db.transact(|tx| insert(tx, -1)).unwrap();
}
