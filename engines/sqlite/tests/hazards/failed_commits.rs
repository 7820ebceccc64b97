//! A COMMIT that fails before a page of it has reached the log.

use groupcommit_sqlite::{Failure, rusqlite};

use crate::common::{Done, Scratch, insert, neighbour};

/// An index whose segments are damaged is read only when the commit writes to it.
#[test]
fn for_a_damaged_virtual_table_loses_one_transaction() {
    let test = Scratch::new(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, v);
         CREATE VIRTUAL TABLE f USING fts5 (x);
         INSERT INTO f VALUES ('a b c');
         UPDATE f_data SET block = zeroblob(10) WHERE id > 9;
         UPDATE f_data SET block = x'00000000ff' WHERE id = 10;",
    );
    let damaged = test.between_neighbours(|db| {
        db.submit(|tx| {
            insert(tx, 50)?;
            tx.execute("INSERT INTO f VALUES ('d')", ())
        })
    });
    assert!(matches!(damaged, Err(Failure::Rejected(_))), "{damaged:?}");
    neighbour(&test.db, 3).wait().unwrap();
    assert_eq!(test.ids(), [1, 2, 3]);
}

/// SQLite refuses the commit of a connection on which it came upon a damaged schema.
#[test]
fn for_an_error_that_a_closure_kept_to_itself_loses_one_transaction() {
    let test = Scratch::with_table();
    let odd = test.between_neighbours(|db| {
        db.submit(|tx| {
            insert(tx, 50)?;
            tx.execute("CREATE VIEW IF NOT EXISTS IF AS SELECT null", ()).unwrap_err();
            Done::Ok(())
        })
    });
    let plain = plain_loses_it(&test);
    assert_eq!(matches!(odd, Err(Failure::Rejected(_))), plain, "{odd:?}");
    assert!(!test.ids().contains(&50) || !plain);
}

fn plain_loses_it(test: &Scratch) -> bool {
    let plain = rusqlite::Connection::open(test.folder().join("plain.db")).unwrap();
    plain.execute_batch("CREATE TABLE t (id); BEGIN; INSERT INTO t VALUES (1)").unwrap();
    plain.execute("CREATE VIEW IF NOT EXISTS IF AS SELECT null", ()).unwrap_err();
    plain.execute_batch("COMMIT").is_err()
}

/// SQLite remembers the damage until the next commit, whoever's that is.
#[test]
fn for_an_error_of_one_that_failed_loses_nobody_else() {
    let test = Scratch::with_table();
    let odd = test.between_neighbours(|db| {
        db.submit(|tx| {
            tx.execute("CREATE VIEW IF NOT EXISTS IF AS SELECT null", ()).unwrap_err();
            insert(tx, 50)?;
            Err::<(), _>(rusqlite::Error::InvalidQuery)
        })
    });
    odd.unwrap_err();
    assert_eq!(test.ids(), [1, 2]);
}
