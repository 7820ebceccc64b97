//! Promise 3: the cost of one failure among a thousand.

use groupcommit_sqlite::rusqlite;

use crate::common::{Scratch, code, hold, insert, neighbour};

/// Transactions of which one in the middle fails; the number of flushes they took.
fn a_thousand(fails: bool) -> u64 {
    let test = Scratch::with_table();
    insert_first(&test);
    let held = hold(&test.db);
    let before = test.db.stats();
    let tickets: Vec<_> = (1..=1_000)
        .map(|id| {
            test.db.submit(move |tx| {
                insert(tx, id)?;
                if fails && id == 500 { insert(tx, 0) } else { Ok(1) }
            })
        })
        .collect();
    held.release().wait().unwrap();
    for (id, ticket) in (1..).zip(tickets) {
        let result = ticket.wait();
        if fails && id == 500 {
            code(result);
        } else {
            assert_eq!(result.unwrap(), 1);
        }
    }
    let expected: Vec<i64> = (0..=1_000).filter(|&id| !fails || id != 500).collect();
    assert_eq!(test.ids(), expected);
    let after = test.db.stats();
    assert_eq!(after.rejected - before.rejected, u64::from(fails));
    after.flushes - before.flushes
}

fn insert_first(test: &Scratch) {
    test.db.transact(|tx| insert(tx, 0)).unwrap();
}

#[test]
fn one_rejected_among_a_thousand_costs_a_handful_of_flushes() {
    let (without, with) = (a_thousand(false), a_thousand(true));
    assert!(with <= without + 12, "{with} flushes instead of {without}");
}

#[test]
fn each_of_many_that_fail_fails_alone() {
    let test = Scratch::with_table();
    insert_first(&test);
    let held = hold(&test.db);
    let tickets: Vec<_> = (1..=600)
        .map(|id| {
            test.db.submit(move |tx| {
                insert(tx, id)?;
                if id % 3 == 0 { insert(tx, 0) } else { Ok(1) }
            })
        })
        .collect();
    held.release().wait().unwrap();
    let committed = tickets.into_iter().map(|ticket| ticket.wait().is_ok());
    assert_eq!(committed.filter(|&committed| committed).count(), 400);
    assert_eq!(test.ids(), (0..=600).filter(|id| id % 3 != 0 || *id == 0).collect::<Vec<_>>());
    // Each failure costs one run more of those before it since the last one, not of all.
    assert!(test.db.stats().reruns <= 2 * 600, "{:?}", test.db.stats());
}

#[test]
fn one_that_prepares_and_fails_without_a_trace_costs_no_rerun() {
    let test = Scratch::with_table();
    let held = hold(&test.db);
    let tickets: Vec<_> = (0..100).map(|id| neighbour(&test.db, id)).collect();
    let looks = test.db.submit(|tx| {
        let mut ids = tx.prepare_cached("SELECT id FROM t")?;
        let ids = ids.query_map((), |row| row.get::<_, i64>(0))?;
        assert_eq!(ids.count(), 100);
        drop(tx.prepare("SELECT 1")?);
        tx.execute_batch("SELECT 1; SELECT 2;")?;
        assert_eq!(tx.last_insert_rowid(), 0);
        Err::<(), _>(rusqlite::Error::InvalidQuery)
    });
    held.release().wait().unwrap();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    looks.wait().unwrap_err();
    assert_eq!(test.db.stats().reruns, 0);
}
