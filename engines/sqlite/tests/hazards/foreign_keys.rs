//! Deferred foreign keys are checked at the engine's `COMMIT`, which members share.

use groupcommit_sqlite::Error;

use crate::common::{Scratch, hold, neighbour, rejected_by_engine};

const SCHEMA: &str = "
    CREATE TABLE t (id INTEGER PRIMARY KEY, v);
    CREATE TABLE child (
        id INTEGER PRIMARY KEY,
        parent REFERENCES t DEFERRABLE INITIALLY DEFERRED
    );";

fn children(test: &Scratch) -> i64 {
    test.plain().query_row("SELECT count(*) FROM child", (), |row| row.get(0)).unwrap()
}

#[test]
fn a_member_that_leaves_one_unsatisfied_fails_alone() {
    let test = Scratch::new(SCHEMA);
    let odd = test.between_neighbours(|db| {
        db.submit(|tx| tx.execute("INSERT INTO child VALUES (1, 99)", ()))
    });
    assert!(matches!(rejected_by_engine(&odd), Error::ForeignKey), "{odd:?}");
    assert_eq!(test.ids(), [1, 2]);
    assert_eq!(children(&test), 0);
}

#[test]
fn a_neighbour_does_not_repair_it() {
    let test = Scratch::new(SCHEMA);
    let held = hold(&test.db);
    let orphan = test.db.submit(|tx| tx.execute("INSERT INTO child VALUES (1, 7)", ()));
    let parent = neighbour(&test.db, 7);
    held.release().wait().unwrap();
    let orphan = orphan.wait();
    assert!(matches!(rejected_by_engine(&orphan), Error::ForeignKey), "{orphan:?}");
    parent.wait().unwrap();
    assert_eq!(test.ids(), [7]);
    assert_eq!(children(&test), 0);
}

#[test]
fn a_member_that_satisfies_it_in_the_end_is_kept() {
    let test = Scratch::new(SCHEMA);
    let held = hold(&test.db);
    let both = test.db.submit(|tx| {
        tx.execute("INSERT INTO child VALUES (1, 7)", ())?;
        tx.execute("INSERT INTO t VALUES (7, 'late')", ())
    });
    held.release().wait().unwrap();
    both.wait().unwrap();
    assert_eq!(children(&test), 1);
}

#[test]
fn a_member_that_fails_with_one_unsatisfied_leaves_nothing_to_its_neighbours() {
    let test = Scratch::new(SCHEMA);
    let held = hold(&test.db);
    let odd = test.db.submit(|tx| {
        tx.execute("INSERT INTO child VALUES (1, 99)", ())?;
        Err::<(), _>(groupcommit_sqlite::rusqlite::Error::InvalidQuery)
    });
    let after = neighbour(&test.db, 2);
    held.release().wait().unwrap();
    assert!(odd.wait().unwrap_err().into_caller().is_some());
    after.wait().unwrap();
    assert_eq!(children(&test), 0);
}
