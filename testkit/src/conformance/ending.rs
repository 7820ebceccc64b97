//! Promise 9: nothing is left hanging. Cancelling, deadlines, dropped tickets, closing.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use groupcommit_core::{Failure, NotRun, Terms};

use super::{Scratch, Subject, hold, keys, put_number, submit};

/// One that is cancelled while it is queued is not run, and its neighbours are.
pub fn a_cancelled_transaction_has_no_effect<S: Subject>() {
    let test = Scratch::<S>::new();
    let held = hold::<S>(&test.db);
    let tickets: Vec<_> = (0..10)
        .map(|key| submit::<S, _, _>(&test.db, move |tx| put_number::<S>(tx, key, key)))
        .collect();
    assert!(tickets[0].cancel() && tickets[4].cancel() && tickets[9].cancel());
    held.release();
    for (key, ticket) in (0..).zip(tickets) {
        match ticket.wait() {
            Ok(()) => assert!(![0, 4, 9].contains(&key)),
            Err(Failure::NotRun(NotRun::Cancelled)) => assert!([0, 4, 9].contains(&key)),
            other => panic!("{key}: {other:?}"),
        }
    }
    assert_eq!(keys::<S>(&test.reopen().db), [1, 2, 3, 5, 6, 7, 8]);
}

/// One whose deadline passed while it was queued is not run.
pub fn a_transaction_past_its_deadline_has_no_effect<S: Subject>() {
    let test = Scratch::<S>::new();
    let held = hold::<S>(&test.db);
    let with = |key: u64, deadline| {
        let mut terms = Terms::new();
        terms.deadline = deadline;
        test.db.with(terms).submit(move |tx| put_number::<S>(tx, key, key))
    };
    let (before, late, far) =
        (with(1, None), with(2, Some(Duration::ZERO)), with(3, Some(Duration::from_hours(1))));
    held.release();
    before.wait().unwrap();
    let late = late.wait();
    assert!(matches!(late, Err(Failure::NotRun(NotRun::DeadlinePassed))), "{late:?}");
    far.wait().unwrap();
    assert_eq!(keys::<S>(&test.db), [1, 3]);
}

/// Dropping a ticket leaves its transaction alone.
pub fn a_dropped_ticket_does_not_cancel<S: Subject>() {
    let test = Scratch::<S>::new();
    let held = hold::<S>(&test.db);
    for key in 0..10 {
        drop(submit::<S, _, _>(&test.db, move |tx| put_number::<S>(tx, key, key)));
    }
    held.release();
    test.db.flush().unwrap();
    assert_eq!(keys::<S>(&test.db).len(), 10);
    assert_eq!(test.db.stats().in_flight, 0);
}

/// Closing runs what was admitted, resolves it, and refuses the rest.
pub fn closing_drains_and_then_refuses<S: Subject>() {
    let test = Scratch::<S>::new();
    let tickets: Vec<_> = (0..1_000)
        .map(|key| submit::<S, _, _>(&test.db, move |tx| put_number::<S>(tx, key, key)))
        .collect();
    let other = test.db.clone();
    let test = test.reopen();
    for ticket in tickets {
        assert!(ticket.is_resolved());
        ticket.wait().unwrap();
    }
    let refused = submit::<S, _, _>(&other, |tx| put_number::<S>(tx, 5_000, 0)).wait();
    assert!(matches!(refused, Err(Failure::NotRun(NotRun::Closed))), "{refused:?}");
    let refused = other.try_submit(|tx| put_number::<S>(tx, 5_001, 0));
    assert!(matches!(refused.err().map(|it| it.reason), Some(NotRun::Closed)));
    assert_eq!(keys::<S>(&test.db), (0..1_000).collect::<Vec<_>>());
}

/// A submission that waits without blocking is a submission like the others.
pub fn an_async_submission_commits<S: Subject>() {
    let test = Scratch::<S>::new();
    let submitted = test.db.submit_async(|tx| put_number::<S>(tx, 1, 1));
    let mut submitted = pin!(submitted);
    let Poll::Ready(ticket) = submitted.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    else {
        panic!("admission is empty, and yet it waits");
    };
    ticket.wait().unwrap();
    assert_eq!(keys::<S>(&test.db), [1]);
}
