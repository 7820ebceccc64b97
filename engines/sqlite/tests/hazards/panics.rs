//! Closures that panic, outside and inside savepoints.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

use groupcommit_sqlite::{Failure, Rejected};

use crate::common::{Done, Scratch, hold, insert, neighbour};

#[test]
fn a_member_that_panics_fails_alone() {
    let test = Scratch::with_table();
    let held = hold(&test.db);
    let before = neighbour(&test.db, 1);
    let dirty = test.db.submit(|tx| -> Done {
        insert(tx, 50)?;
        panic!("on purpose");
    });
    let middle = neighbour(&test.db, 2);
    let clean = test.db.submit(|_| -> Done { panic_any(7) });
    let after = neighbour(&test.db, 3);
    held.release().wait().unwrap();
    before.wait().unwrap();
    let dirty = dirty.wait();
    let message = match &dirty {
        Err(Failure::Rejected(Rejected::Panicked(message))) => message,
        other => panic!("{other:?}"),
    };
    assert_eq!(message, "on purpose");
    middle.wait().unwrap();
    assert!(matches!(clean.wait(), Err(Failure::Rejected(Rejected::Panicked(_)))));
    after.wait().unwrap();
    assert_eq!(test.ids(), [1, 2, 3]);
}

#[test]
fn one_caught_inside_undoes_its_savepoint_only() {
    let test = Scratch::with_table();
    let nests = test.between_neighbours(|db| {
        db.submit(|tx| {
            insert(tx, 10)?;
            tx.savepoint(|tx| {
                insert(tx, 11)?;
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    tx.savepoint(|tx| -> Done {
                        insert(tx, 12)?;
                        tx.savepoint(|tx| insert(tx, 13))?;
                        panic!("on purpose");
                    })
                }));
                assert!(caught.is_err());
                insert(tx, 14)
            })?;
            let undone = tx.savepoint(|tx| {
                insert(tx, 15)?;
                Err::<(), _>(groupcommit_sqlite::rusqlite::Error::InvalidQuery)
            });
            assert!(undone.is_err());
            tx.savepoint(|tx| insert(tx, 16))
        })
    });
    nests.unwrap();
    assert_eq!(test.ids(), [1, 2, 10, 11, 14, 16]);
}

#[test]
fn one_in_a_read_closes_its_connection_and_the_next_read_works() {
    let test = Scratch::with_table();
    neighbour(&test.db, 1).wait().unwrap();
    for _ in 0..20 {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            test.db.read(|conn| -> Done {
                conn.query_row("SELECT id FROM t", (), |_| panic!("on purpose"))
            })
        }));
        assert!(caught.is_err());
    }
    let id: i64 =
        test.db.read(|conn| conn.query_row("SELECT id FROM t", (), |row| row.get(0))).unwrap();
    assert_eq!(id, 1);
}

#[test]
fn what_a_neighbour_bound_to_a_statement_is_not_bound_any_more() {
    let test = Scratch::with_table();
    let sql = "INSERT INTO t VALUES (:id, :v)";
    let held = hold(&test.db);
    let full = test.db.submit(move |tx| {
        let mut insert = tx.prepare_cached(sql)?;
        insert.execute(&[(":id", "1"), (":v", "theirs")])
    });
    let full_2 = test.db.submit(move |tx| tx.execute(sql, &[(":id", "2"), (":v", "theirs")]));
    let partial = test.db.submit(move |tx| tx.execute(sql, &[(":id", "3")]));
    held.release().wait().unwrap();
    full.wait().unwrap();
    full_2.wait().unwrap();
    partial.wait().unwrap();
    let v: Option<String> =
        test.plain().query_row("SELECT v FROM t WHERE id = 3", (), |row| row.get(0)).unwrap();
    assert_eq!(v, None);
}

#[test]
fn one_in_an_exclusive_is_its_own() {
    let test = Scratch::with_table();
    let panicked = test.db.exclusive(|conn| -> Done {
        conn.execute_batch("BEGIN; INSERT INTO t VALUES (50, 1)")?;
        panic!("on purpose");
    });
    assert!(matches!(panicked, Err(Failure::Rejected(Rejected::Panicked(_)))), "{panicked:?}");
    neighbour(&test.db, 1).wait().unwrap();
    assert_eq!(test.ids(), [1]);
}
