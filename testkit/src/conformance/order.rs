//! Promises 1 and 2: durable and ordered.

use std::thread;

use super::{Done, Scratch, Subject, Transaction, hold, keys, number, put_number, submit};

/// The key of a number that every member of a chain reads and sets.
const CHAIN: u64 = u64::MAX;

/// A member that is only right in its place: it expects the number that the one before it left.
pub(super) fn link<S: Subject>(tx: &mut Transaction<'_, S>, place: u64) -> Done<S, u64> {
    let found = number::<S>(tx, CHAIN)?;
    put_number::<S>(tx, CHAIN, place)?;
    put_number::<S>(tx, place, found)?;
    Ok(found)
}

/// What was acknowledged is there when the database is opened again.
pub fn acknowledged_is_there_after_reopening<S: Subject>() {
    let mut test = Scratch::<S>::new();
    for round in 0..3_u64 {
        let range = round * 100..(round + 1) * 100;
        let tickets: Vec<_> = range
            .map(|key| submit::<S, _, _>(&test.db, move |tx| put_number::<S>(tx, key, key)))
            .collect();
        tickets.into_iter().for_each(|ticket| ticket.wait().unwrap());
        test = test.reopen();
        assert_eq!(keys::<S>(&test.db), (0..(round + 1) * 100).collect::<Vec<_>>());
    }
}

/// When a ticket is resolved, so are all before it.
pub fn tickets_resolve_in_submission_order<S: Subject>() {
    let test = Scratch::<S>::new();
    let mut tickets: Vec<_> = (0..2_000_u64)
        .map(|key| submit::<S, _, _>(&test.db, move |tx| put_number::<S>(tx, key, key)))
        .collect();
    // Waits from the middle on, then from the end: those before must be resolved already.
    for from in [1_000, 500, 0] {
        let later = tickets.split_off(from);
        for (ticket, index) in later.into_iter().zip(from..) {
            ticket.wait().unwrap();
            assert!(
                tickets.iter().all(groupcommit_core::Ticket::is_resolved),
                "{index} is resolved and one before it is not"
            );
        }
    }
}

/// Transactions run in submission order, and each sees what those before it did.
pub fn each_runs_after_those_before_it<S: Subject>() {
    let test = Scratch::<S>::new();
    let tickets: Vec<_> = (1..=2_000_u64)
        .map(|place| submit::<S, _, _>(&test.db, move |tx| link::<S>(tx, place)))
        .collect();
    for (place, ticket) in (1..).zip(tickets) {
        assert_eq!(ticket.wait().unwrap(), place - 1);
    }
    // And within one group.
    let held = hold::<S>(&test.db);
    let tickets: Vec<_> = (2_001..=2_500_u64)
        .map(|place| submit::<S, _, _>(&test.db, move |tx| link::<S>(tx, place)))
        .collect();
    held.release();
    for (place, ticket) in (2_001..).zip(tickets) {
        assert_eq!(ticket.wait().unwrap(), place - 1);
    }
    let test = test.reopen();
    assert_eq!(S::rows(&test.db).len(), 2_501);
}

/// Many threads that block lose no update.
pub fn blocking_callers_share_the_database<S: Subject>() {
    let test = Scratch::<S>::new();
    let before = test.db.stats();
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let add = |tx: &mut Transaction<'_, S>| {
                        let next = number::<S>(tx, CHAIN)? + 1;
                        put_number::<S>(tx, CHAIN, next)
                    };
                    test.db.transact(add).unwrap();
                }
            });
        }
    });
    let stats = test.db.stats();
    assert_eq!(S::rows(&test.db), [(CHAIN, 320_u64.to_be_bytes().to_vec())], "{stats:?}");
    assert_eq!(stats.committed - before.committed, 320);
}
