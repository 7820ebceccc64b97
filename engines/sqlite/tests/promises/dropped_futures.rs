//! Every future is dropped after N polls: nothing leaks, and admission comes back.

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Poll, Wake, Waker},
};

use groupcommit_sqlite::{Database, Limits};

use crate::common::{Scratch, hold, insert, neighbour};

/// Passes each wake on to a channel.
struct Bell(mpsc::Sender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.send(()).ok();
    }
}

/// Polls `future`, whenever it asks to be, at most `polls` times; `None` when it was dropped first.
fn poll_at_most<F: Future>(future: F, polls: usize, between: impl Fn()) -> Option<F::Output> {
    let (ring, rings) = mpsc::channel();
    let waker = Waker::from(Arc::new(Bell(ring)));
    let mut future = pin!(future);
    for poll in 0..polls {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        if poll == 0 {
            between();
        }
        if poll + 1 < polls {
            rings.recv().unwrap();
        }
    }
    None
}

#[test]
fn a_ticket() {
    let test = Scratch::with_table();
    let kept = Arc::new(());
    for polls in 0..4 {
        let held = hold(&test.db);
        let keeps = kept.clone();
        let id = i64::try_from(polls).unwrap();
        let ticket = test.db.submit(move |tx| {
            assert!(Arc::strong_count(&keeps) > 1);
            insert(tx, id)
        });
        let release = std::cell::Cell::new(Some(held));
        let result = poll_at_most(ticket, polls, || {
            release.take().unwrap().release().wait().unwrap();
        });
        assert_eq!(result.is_some(), polls >= 2, "{polls} polls");
        if let Some(held) = release.take() {
            held.release().wait().unwrap();
        }
        test.db.flush().unwrap();
        assert_eq!(Arc::strong_count(&kept), 1, "{polls} polls");
    }
    assert_eq!(test.ids(), [0, 1, 2, 3], "dropping a ticket cancels nothing");
    assert_eq!(test.db.stats().in_flight, 0);
}

#[test]
fn a_submission_that_waits_for_room() {
    let test = Scratch::with_table();
    let limits = Limits::new(2, 1 << 20);
    let db = Database::options().limits(limits).open(&test.path).unwrap();
    let kept = Arc::new(());
    for polls in 0..4 {
        let held = hold(&db);
        let full = neighbour(&db, 100 + i64::try_from(polls).unwrap());
        let keeps = kept.clone();
        let id = i64::try_from(polls).unwrap();
        let submission = db.submit_async(move |tx| {
            assert!(Arc::strong_count(&keeps) > 1);
            insert(tx, id)
        });
        let release = std::cell::Cell::new(Some(held));
        let ticket = poll_at_most(submission, polls, || {
            release.take().unwrap().release().wait().unwrap();
        });
        assert_eq!(ticket.is_some(), polls >= 2, "{polls} polls");
        if let Some(held) = release.take() {
            held.release().wait().unwrap();
        }
        full.wait().unwrap();
        if let Some(ticket) = ticket {
            ticket.wait().unwrap();
        }
        db.flush().unwrap();
        assert_eq!(db.stats().in_flight, 0, "{polls} polls");
        assert_eq!(Arc::strong_count(&kept), 1, "{polls} polls");
    }
    assert_eq!(test.ids(), [2, 3, 100, 101, 102, 103]);
}

#[test]
fn one_that_was_admitted_but_dropped_before_it_was_polled_again() {
    let test = Scratch::with_table();
    let limits = Limits::new(2, 1 << 20);
    let db = Database::options().limits(limits).open(&test.path).unwrap();
    let held = hold(&db);
    let full = neighbour(&db, 1);
    {
        let mut submission = pin!(db.submit_async(|tx| insert(tx, 2)));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(submission.as_mut().poll(&mut cx).is_pending());
        held.release().wait().unwrap();
        full.wait().unwrap();
    }
    // Both places are free again.
    let held = hold(&db);
    let next = db.try_submit(|tx: &mut groupcommit_sqlite::Transaction<'_>| insert(tx, 3));
    held.release().wait().unwrap();
    next.unwrap().wait().unwrap();
    assert_eq!(test.ids(), [1, 3]);
    assert_eq!(db.stats().in_flight, 0);
}
