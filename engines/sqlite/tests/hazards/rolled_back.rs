//! `OR ROLLBACK` and `RAISE(ROLLBACK)` end the whole engine transaction in the middle of a member.

use groupcommit_sqlite::{Error, rusqlite::ErrorCode};

use crate::common::{Done, Scratch, code, hold, insert, neighbour, rejected_by_engine};

const SCHEMA: &str = "
    CREATE TABLE t (id INTEGER PRIMARY KEY, v);
    CREATE TRIGGER stop BEFORE INSERT ON t WHEN NEW.v = 'roll back'
    BEGIN SELECT RAISE(ROLLBACK, 'stopped'); END;";

const CONFLICT: &str = "INSERT OR ROLLBACK INTO t VALUES (1, 'conflict')";
const RAISE: &str = "INSERT INTO t VALUES (77, 'roll back')";

#[test]
fn it_fails_alone() {
    for sql in [CONFLICT, RAISE] {
        let test = Scratch::new(SCHEMA);
        let odd = test.between_neighbours(|db| {
            db.submit(move |tx| {
                insert(tx, 50)?;
                tx.execute(sql, ())
            })
        });
        assert_eq!(code(odd), ErrorCode::ConstraintViolation);
        assert_eq!(test.ids(), [1, 2]);
    }
}

#[test]
fn swallowed_it_still_undoes_the_member_and_what_follows_does_not_autocommit() {
    for sql in [CONFLICT, RAISE] {
        let test = Scratch::new(SCHEMA);
        let odd = test.between_neighbours(|db| {
            db.submit(move |tx| {
                insert(tx, 50)?;
                assert!(tx.execute(sql, ()).is_err());
                // Now outside any transaction: this would commit by itself.
                let followed = insert(tx, 51).is_ok() || tx.execute_batch("DELETE FROM t").is_ok();
                Done::Ok(followed)
            })
        });
        assert!(matches!(rejected_by_engine(&odd), Error::RolledBack), "{odd:?}");
        assert_eq!(test.ids(), [1, 2]);
    }
}

#[test]
fn a_savepoint_after_it_begins_no_transaction_of_its_own() {
    let test = Scratch::new(SCHEMA);
    neighbour(&test.db, 1).wait().unwrap();
    let odd = test.db.transact(|tx| {
        assert!(tx.execute(CONFLICT, ()).is_err());
        let inner = tx.savepoint(|tx| insert(tx, 51));
        Done::Ok(inner.is_ok())
    });
    assert!(matches!(rejected_by_engine(&odd), Error::RolledBack), "{odd:?}");
    assert_eq!(test.ids(), [1]);
}

#[test]
fn inside_a_savepoint_it_undoes_the_whole_member() {
    let test = Scratch::new(SCHEMA);
    let held = hold(&test.db);
    let before = neighbour(&test.db, 1);
    let odd = test.db.submit(|tx| {
        insert(tx, 50)?;
        let inner = tx.savepoint(|tx| {
            insert(tx, 51)?;
            tx.execute(CONFLICT, ())
        });
        Done::Ok(inner.is_ok())
    });
    held.release().wait().unwrap();
    before.wait().unwrap();
    let odd = odd.wait();
    assert!(matches!(rejected_by_engine(&odd), Error::RolledBack), "{odd:?}");
    assert_eq!(test.ids(), [1]);
}
