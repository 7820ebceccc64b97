//! Promise 3: isolated in failure.

use groupcommit_core::{Failure, Rejected};

use super::{
    Done, Scratch, Stop, Subject, Transaction, hold, keys, number, order::link, put_number, submit,
};

/// What is asked of the member in the middle of a thousand.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Odd {
    No,
    Fails,
    Panics,
}

const MIDDLE: u64 = 500;

/// The key under which an odd member leaves what nobody may ever see.
const TRACE: u64 = u64::MAX - 1;

/// A member of a chain; the odd one writes, and then does not come to its end.
fn member<S: Subject>(tx: &mut Transaction<'_, S>, place: u64, odd: Odd) -> Done<S, u64> {
    if odd == Odd::No || place != MIDDLE {
        assert_eq!(number::<S>(tx, TRACE)?, 0, "{place} sees what was to be undone");
        return link::<S>(tx, place);
    }
    put_number::<S>(tx, TRACE, place)?;
    link::<S>(tx, place)?;
    match odd {
        Odd::Panics => panic!("{place} was asked to panic"),
        _ => Err(Stop::Asked(place)),
    }
}

/// Runs a thousand of which one may be odd, and returns the number of flushes that they took.
fn a_thousand<S: Subject>(odd: Odd) -> u64 {
    let test = Scratch::<S>::new();
    let held = hold::<S>(&test.db);
    let before = test.db.stats();
    let tickets: Vec<_> = (1..=1_000_u64)
        .map(|place| submit::<S, _, _>(&test.db, move |tx| member::<S>(tx, place, odd)))
        .collect();
    held.release();
    for (place, ticket) in (1..).zip(tickets) {
        match (ticket.wait(), odd) {
            (Err(Failure::Rejected(Rejected::Caller(Stop::Asked(MIDDLE)))), Odd::Fails) => {
                assert_eq!(place, MIDDLE);
            }
            (Err(Failure::Rejected(Rejected::Panicked(message))), Odd::Panics) => {
                assert_eq!((place, message.as_str()), (MIDDLE, "500 was asked to panic"));
            }
            (result, _) => {
                let skips = odd != Odd::No && place == MIDDLE + 1;
                assert_eq!(result.unwrap(), place - 1 - u64::from(skips));
            }
        }
    }
    let after = test.db.stats();
    assert_eq!(after.rejected - before.rejected, u64::from(odd != Odd::No));
    let expected: Vec<u64> =
        (1..=1_000).filter(|&place| odd == Odd::No || place != MIDDLE).chain([u64::MAX]).collect();
    assert_eq!(keys::<S>(&test.db), expected);
    let test = test.reopen();
    assert_eq!(keys::<S>(&test.db), expected);
    after.flushes - before.flushes
}

/// The other 999 commit, once each and in order, at the cost of a few flushes.
pub fn one_failing_among_a_thousand_fails_alone<S: Subject>() {
    let (without, with) = (a_thousand::<S>(Odd::No), a_thousand::<S>(Odd::Fails));
    assert!(with <= without + 12, "{with} flushes instead of {without}");
}

/// As [`one_failing_among_a_thousand_fails_alone`], with a panic.
pub fn one_panicking_among_a_thousand_fails_alone<S: Subject>() {
    let (without, with) = (a_thousand::<S>(Odd::No), a_thousand::<S>(Odd::Panics));
    assert!(with <= without + 12, "{with} flushes instead of {without}");
}

/// One in three fails after it wrote: the others commit.
pub fn each_of_many_that_fail_fails_alone<S: Subject>() {
    let test = Scratch::<S>::new();
    let held = hold::<S>(&test.db);
    let tickets: Vec<_> = (1..=600_u64)
        .map(|key| {
            submit::<S, _, _>(&test.db, move |tx| {
                put_number::<S>(tx, key, key)?;
                if key % 3 == 0 { Err(Stop::Asked(key)) } else { Ok(()) }
            })
        })
        .collect();
    held.release();
    for (key, ticket) in (1..).zip(tickets) {
        assert_eq!(ticket.wait().is_ok(), key % 3 != 0);
    }
    let test = test.reopen();
    assert_eq!(keys::<S>(&test.db), (1..=600).filter(|key| key % 3 != 0).collect::<Vec<_>>());
}

/// Overwritten and removed values are as they were for those after one that fails.
pub fn nothing_of_one_that_fails_is_seen_by_its_neighbours<S: Subject>() {
    let test = Scratch::<S>::new();
    let before = submit::<S, _, _>(&test.db, |tx| {
        put_number::<S>(tx, 1, 1)?;
        put_number::<S>(tx, 2, 2)
    });
    before.wait().unwrap();
    let held = hold::<S>(&test.db);
    let first = submit::<S, _, _>(&test.db, |tx| put_number::<S>(tx, 3, 3));
    let fails = submit::<S, (), _>(&test.db, |tx| {
        put_number::<S>(tx, 1, 10)?;
        assert!(S::delete(tx, 2)?);
        assert!(S::delete(tx, 3)?);
        put_number::<S>(tx, 4, 4)?;
        Err(Stop::Asked(0))
    });
    let looks = submit::<S, _, _>(&test.db, |tx| {
        (1..=4).map(|key| number::<S>(tx, key)).collect::<Result<Vec<_>, _>>()
    });
    held.release();
    first.wait().unwrap();
    fails.wait().unwrap_err();
    assert_eq!(looks.wait().unwrap(), [1, 2, 3, 0]);
    assert_eq!(keys::<S>(&test.db), [1, 2, 3]);
}
