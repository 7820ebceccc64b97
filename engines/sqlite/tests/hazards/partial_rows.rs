//! `OR FAIL` and `RAISE(FAIL)` keep the rows that came before the one that failed.

use groupcommit_sqlite::rusqlite::ErrorCode;

use crate::common::{Done, Scratch, code, hold, neighbour};

const SCHEMA: &str = "
    CREATE TABLE t (id INTEGER PRIMARY KEY, v);
    CREATE TRIGGER stop BEFORE INSERT ON t WHEN NEW.v = 'fail'
    BEGIN SELECT RAISE(FAIL, 'stopped'); END;";

const CONFLICT: &str = "INSERT OR FAIL INTO t VALUES (50, 'a'), (1, 'conflict'), (51, 'b')";
const RAISE: &str = "INSERT INTO t VALUES (50, 'a'), (77, 'fail'), (51, 'b')";

#[test]
fn a_member_that_fails_so_leaves_nothing() {
    for sql in [CONFLICT, RAISE] {
        let test = Scratch::new(SCHEMA);
        let odd = test.between_neighbours(|db| db.submit(move |tx| tx.execute(sql, ())));
        assert_eq!(code(odd), ErrorCode::ConstraintViolation);
        assert_eq!(test.ids(), [1, 2]);
    }
}

#[test]
fn a_member_that_swallows_it_keeps_them_as_it_would_alone() {
    for sql in [CONFLICT, RAISE] {
        let test = Scratch::new(SCHEMA);
        let held = hold(&test.db);
        let before = neighbour(&test.db, 1);
        let odd = test.db.submit(move |tx| Done::Ok(tx.execute(sql, ()).is_ok()));
        held.release().wait().unwrap();
        before.wait().unwrap();
        assert!(!odd.wait().unwrap());
        assert_eq!(test.ids(), [1, 50]);
    }
}

#[test]
fn a_member_that_swallows_it_and_then_fails_leaves_nothing() {
    let test = Scratch::new(SCHEMA);
    let held = hold(&test.db);
    let before = neighbour(&test.db, 1);
    let odd = test.db.submit(|tx| {
        assert!(tx.execute(CONFLICT, ()).is_err());
        Err::<(), _>("given up")
    });
    held.release().wait().unwrap();
    before.wait().unwrap();
    assert_eq!(odd.wait().unwrap_err().into_caller(), Some("given up"));
    assert_eq!(test.ids(), [1]);
}
