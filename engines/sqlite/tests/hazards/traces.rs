//! What a transaction that fails has left behind is more than the rows that SQLite counts.

use groupcommit_sqlite::{Transaction, rusqlite};

use crate::common::{Done, Scratch, hold, neighbour};

/// Everything in the database, as a plain connection reads it.
fn sequence(test: &Scratch) -> Vec<(String, i64)> {
    let plain = test.plain();
    let mut rows = plain.prepare("SELECT name, seq FROM sqlite_sequence").unwrap();
    let rows = rows.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

const SCHEMA: &str = "
    CREATE TABLE t (id INTEGER PRIMARY KEY, v);
    CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT, u UNIQUE);
    INSERT INTO t VALUES (100, 'there');
    INSERT INTO a VALUES (1, 'there');";

#[test]
fn a_sequence_that_moved_without_a_row_is_undone() {
    const MOVES: [&str; 4] = [
        "INSERT OR IGNORE INTO a VALUES (50, 'there')",
        "INSERT INTO a VALUES (50, 'there') ON CONFLICT DO NOTHING",
        "INSERT INTO a SELECT 50, 'x' WHERE 0",
        "INSERT OR IGNORE INTO a VALUES (50, 'there') RETURNING id",
    ];
    type Run = fn(&Transaction, &str) -> Done;
    let ways: [Run; 3] = [
        |tx, sql| tx.execute(sql, ()).map(drop),
        |tx, sql| tx.query_row(sql, (), |_| Ok(())),
        |tx, sql| tx.prepare_cached(sql)?.query(())?.next().map(drop),
    ];
    for sql in MOVES {
        for run in ways {
            let test = Scratch::new(SCHEMA);
            let before = sequence(&test);
            let held = hold(&test.db);
            let first = neighbour(&test.db, 1);
            let fails = test.db.submit(move |tx| {
                run(tx, sql).ok();
                Err::<(), _>(rusqlite::Error::InvalidQuery)
            });
            held.release().wait().unwrap();
            first.wait().unwrap();
            fails.wait().unwrap_err();
            assert_eq!(sequence(&test), before, "{sql}");
            assert_eq!(test.ids(), [1, 100]);
        }
    }
}

#[test]
fn one_whose_first_statement_breaks_a_constraint_costs_no_rerun() {
    let test = Scratch::new(SCHEMA);
    let held = hold(&test.db);
    let tickets: Vec<_> = (0..50).map(|id| neighbour(&test.db, id)).collect();
    let fails: Vec<_> = (0..50).map(|_| neighbour(&test.db, 100)).collect();
    held.release().wait().unwrap();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    for ticket in fails {
        ticket.wait().unwrap_err();
    }
    assert_eq!(test.db.stats().reruns, 0);
}

/// `REPLACE` deletes rows that nobody counts before the statement fails.
#[test]
fn rows_of_a_statement_that_failed_half_way_are_undone() {
    const FAILS: [&str; 3] = [
        "INSERT OR FAIL INTO t VALUES (1, 'x'), (100, 'x')",
        "UPDATE OR FAIL t SET id = 99 + id % 2 WHERE id > 97",
        "INSERT OR REPLACE INTO t SELECT 100, abs(-9223372036854775807 - 1)",
    ];
    for sql in FAILS {
        let test = Scratch::new(&format!("{SCHEMA} INSERT INTO t VALUES (98, 'there');"));
        let held = hold(&test.db);
        let first = neighbour(&test.db, 2);
        let fails = test.db.submit(move |tx| tx.execute(sql, ()));
        held.release().wait().unwrap();
        first.wait().unwrap();
        fails.wait().unwrap_err();
        assert_eq!(test.ids(), [2, 98, 100], "{sql}");
    }
}
