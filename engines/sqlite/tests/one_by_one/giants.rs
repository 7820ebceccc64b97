//! A transaction that writes more than any cache holds, among small ones.
//!
//! `GROUPCOMMIT_GIANT_MIB` sets how many mebibytes it writes.

use groupcommit_sqlite::{
    Error, Failure, Rejected,
    rusqlite::{self, ErrorCode},
};

use crate::{
    common::{Done, Scratch, hold, insert, neighbour, rejected_by_engine},
    hostile::number,
};

/// So that what a giant wrote is seen to be gone, and not only its rows.
const GIANT: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                     INSERT INTO t SELECT 1000 + i, zeroblob(1048576) FROM n";

#[derive(Debug, Clone, Copy)]
enum Then {
    Completes,
    Fails,
    Panics,
    RollsBack,
}

fn giant_among_small_ones(then: Then) {
    let mib = number("GROUPCOMMIT_GIANT_MIB", 24).cast_signed();
    let test = Scratch::with_table();
    let held = hold(&test.db);
    let before: Vec<_> = (0..20).map(|id| neighbour(&test.db, id)).collect();
    let giant = test.db.submit(move |tx| {
        let rows = tx.execute(GIANT, [mib])?;
        match then {
            Then::Completes => {}
            Then::Fails => return Err(rusqlite::Error::InvalidQuery),
            Then::Panics => panic!("on purpose"),
            Then::RollsBack => {
                tx.execute("INSERT OR ROLLBACK INTO t VALUES (1001, 'conflict')", ()).unwrap_err();
            }
        }
        Done::Ok(rows)
    });
    // Those after it may run in the same group or in the next.
    let after: Vec<_> = (20..40).map(|id| neighbour(&test.db, id)).collect();
    held.release().wait().unwrap();
    for ticket in before {
        assert_eq!(ticket.wait().unwrap(), 1);
    }
    let giant = giant.wait();
    for ticket in after {
        assert_eq!(ticket.wait().unwrap(), 1);
    }
    let there = match then {
        Then::Completes => {
            assert_eq!(giant.unwrap(), usize::try_from(mib).unwrap());
            mib
        }
        Then::Fails => {
            let failed = matches!(giant, Err(Failure::Rejected(Rejected::Caller(_))));
            assert!(failed, "{giant:?}");
            0
        }
        Then::Panics => {
            let panicked = matches!(giant, Err(Failure::Rejected(Rejected::Panicked(_))));
            assert!(panicked, "{giant:?}");
            0
        }
        Then::RollsBack => {
            assert!(matches!(rejected_by_engine(&giant), Error::RolledBack), "{giant:?}");
            0
        }
    };
    let expected: Vec<i64> = (0..40).chain(1001..=1000 + there).collect();
    assert_eq!(test.ids(), expected);
    let whole: i64 = test
        .plain()
        .query_row("SELECT count(*) FROM t WHERE length(v) = 1048576", (), |row| row.get(0))
        .unwrap();
    assert_eq!(whole, there);
    let sound: String =
        test.plain().query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    insert_after(&test);
}

/// The database goes on, and the log is started anew.
fn insert_after(test: &Scratch) {
    for id in 40..60 {
        test.db.transact(move |tx| insert(tx, id)).unwrap();
    }
    let duplicate = test.db.transact(|tx| insert(tx, 40));
    assert_eq!(crate::common::code(duplicate), ErrorCode::ConstraintViolation);
}

#[test]
fn one_that_completes() {
    giant_among_small_ones(Then::Completes);
}

#[test]
fn one_that_fails() {
    giant_among_small_ones(Then::Fails);
}

#[test]
fn one_that_panics() {
    giant_among_small_ones(Then::Panics);
}

#[test]
fn one_that_is_rolled_back() {
    giant_among_small_ones(Then::RollsBack);
}
