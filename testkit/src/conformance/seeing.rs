//! Promise 11 and what a transaction sees of itself; what runs alone.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use groupcommit_core::{Failure, NotRun};

use super::{Scratch, Stop, Subject, Transaction, hold, keys, put_number, submit};

/// Reads inside a transaction see what it wrote before.
pub fn a_transaction_sees_its_own_writes<S: Subject>() {
    let test = Scratch::<S>::new();
    let ticket = submit::<S, _, _>(&test.db, |tx| {
        let mut seen = vec![S::get(tx, 7)?];
        S::put(tx, 7, b"one")?;
        seen.push(S::get(tx, 7)?);
        S::put(tx, 7, b"two")?;
        seen.push(S::get(tx, 7)?);
        assert!(S::delete(tx, 7)?);
        assert!(!S::delete(tx, 7)?);
        seen.push(S::get(tx, 7)?);
        S::put(tx, 7, b"three")?;
        Ok(seen)
    });
    let seen = ticket.wait().unwrap();
    assert_eq!(seen, [None, Some(b"one".to_vec()), Some(b"two".to_vec()), None]);
    assert_eq!(S::rows(&test.db), [(7, b"three".to_vec())]);
}

/// A read that begins after a ticket resolved sees its transaction.
pub fn a_read_after_the_ticket_sees_the_transaction<S: Subject>() {
    let test = Scratch::<S>::new();
    for key in 0..100 {
        submit::<S, _, _>(&test.db, move |tx| put_number::<S>(tx, key, key)).wait().unwrap();
        assert_eq!(keys::<S>(&test.db), (0..=key).collect::<Vec<_>>());
    }
}

/// So does a durable one; and it returns when nothing is in flight.
pub fn a_durable_read_sees_the_transaction<S: Subject>() {
    let test = Scratch::<S>::new();
    assert_eq!(S::rows_durable(&test.db), []);
    let tickets: Vec<_> = (0..100)
        .map(|key| submit::<S, _, _>(&test.db, move |tx| put_number::<S>(tx, key, key)))
        .collect();
    let early = S::rows_durable(&test.db).len();
    assert!(early <= 100);
    tickets.into_iter().for_each(|ticket| ticket.wait().unwrap());
    assert_eq!(S::rows_durable(&test.db).len(), 100);
}

/// While an exclusive runs, no transaction does; it sees those before it, and those after see it.
pub fn an_exclusive_is_alone_between_groups<S: Subject>() {
    let test = Scratch::<S>::new();
    let running = Arc::new(AtomicUsize::new(0));
    let write = |key: u64| {
        let running = running.clone();
        submit::<S, _, _>(&test.db, move |tx: &mut Transaction<'_, S>| {
            running.fetch_add(1, Ordering::SeqCst);
            let put = put_number::<S>(tx, key, key);
            running.fetch_sub(1, Ordering::SeqCst);
            put
        })
    };
    let mut tickets: Vec<_> = (0..200).map(write).collect();
    for round in 0..5_u64 {
        let running = running.clone();
        S::put_exclusively(&test.db, 10_000 + round, b"alone", move || {
            assert_eq!(running.load(Ordering::SeqCst), 0, "an exclusive is not alone");
        });
        // What was submitted before it is in, and resolved.
        assert!(tickets.iter().all(groupcommit_core::Ticket::is_resolved));
        assert!(keys::<S>(&test.db).contains(&(10_000 + round)));
        tickets.extend((200 * (round + 1)..200 * (round + 2)).map(write));
    }
    tickets.into_iter().for_each(|ticket| ticket.wait().unwrap());
    assert_eq!(keys::<S>(&test.reopen().db).len(), 1_200 + 5);
}

/// A blocking call on the database from inside its own transaction would wait for itself.
pub fn a_transaction_that_blocks_on_its_own_database_is_refused<S: Subject>() {
    let test = Scratch::<S>::new();
    let db = test.db.clone();
    let held = hold::<S>(&test.db);
    let ticket = submit::<S, _, _>(&test.db, move |tx| {
        put_number::<S>(tx, 1, 1)?;
        let inner = db.transact(|tx| put_number::<S>(tx, 2, 2));
        match inner {
            Err(Failure::NotRun(NotRun::Reentrant)) => Ok(()),
            other => {
                assert!(other.is_err(), "it waited for itself and came back");
                Err(Stop::Asked(0))
            }
        }
    });
    held.release();
    ticket.wait().unwrap();
    assert_eq!(keys::<S>(&test.db), [1]);
}
