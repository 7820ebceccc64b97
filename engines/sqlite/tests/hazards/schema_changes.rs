//! Statements that change the schema: kept prepared, they escape the hook that notices them.

use groupcommit_sqlite::{Statement, Transaction, Value, rusqlite};

use crate::common::{Scratch, hold, neighbour};

const CREATE: &str = "CREATE TABLE extra (x)";

fn tables(test: &Scratch) -> Vec<String> {
    let plain = test.plain();
    let mut statement = plain.prepare("SELECT name FROM sqlite_schema ORDER BY name").unwrap();
    let names = statement.query_map((), |row| row.get(0)).unwrap();
    names.map(Result::unwrap).collect()
}

#[test]
fn one_that_is_kept_prepared_is_undone_when_its_member_fails() {
    let test = Scratch::with_table();
    test.db.transact(|tx| tx.execute(CREATE, ())).unwrap();
    test.db.transact(|tx| tx.execute("DROP TABLE extra", ())).unwrap();
    let odd = test.between_neighbours(|db| {
        db.submit(|tx| {
            tx.execute(CREATE, ())?;
            Err::<(), _>(rusqlite::Error::InvalidQuery)
        })
    });
    odd.unwrap_err();
    assert_eq!(tables(&test), ["t"]);
    assert_eq!(test.ids(), [1, 2]);
}

/// A member creates the table and fails, with the statement prepared before.
fn is_undone(test: &Scratch) {
    let odd = test.db.transact(|tx| {
        tx.execute(CREATE, ())?;
        Err::<(), _>(rusqlite::Error::InvalidQuery)
    });
    odd.unwrap_err();
    assert_eq!(tables(test), ["t"]);
}

#[test]
fn one_that_was_only_prepared_before_is_undone_when_its_member_fails() {
    let test = Scratch::with_table();
    test.db.transact(|tx| tx.prepare_cached(CREATE).map(drop)).unwrap();
    is_undone(&test);
}

#[test]
fn one_that_an_exclusive_prepared_is_undone_when_its_member_fails() {
    let test = Scratch::with_table();
    test.db.exclusive(|conn| conn.prepare_cached(CREATE).map(drop)).unwrap();
    is_undone(&test);
}

#[test]
fn a_neighbour_of_one_that_failed_does_not_see_it() {
    let test = Scratch::with_table();
    let held = hold(&test.db);
    let odd = test.db.submit(|tx| {
        tx.execute_batch("CREATE TABLE extra (x); ALTER TABLE t ADD COLUMN w; DROP TABLE t;")?;
        Err::<(), _>(rusqlite::Error::InvalidQuery)
    });
    let after = neighbour(&test.db, 1);
    let creates = test.db.submit(|tx| tx.execute(CREATE, ()));
    held.release().wait().unwrap();
    odd.wait().unwrap_err();
    after.wait().unwrap();
    creates.wait().unwrap();
    assert_eq!(tables(&test), ["extra", "t"]);
}

#[test]
fn plain_data_sees_the_columns_that_a_neighbour_added() {
    let test = Scratch::with_table();
    let all = || vec![Statement::new("SELECT * FROM t", [])];
    let held = hold(&test.db);
    let empty = test.db.submit_statements(all());
    let first = neighbour(&test.db, 1);
    let before = test.db.submit_statements(all());
    let alters = test.db.submit(|tx| tx.execute("ALTER TABLE t ADD COLUMN w DEFAULT 5", ()));
    let after = test.db.submit_statements(all());
    let clears = test.db.submit(|tx| tx.execute("DELETE FROM t", ()));
    let renames = test.db.submit(|tx| tx.execute("ALTER TABLE t RENAME COLUMN w TO z", ()));
    let empty_again = test.db.submit_statements(all());
    held.release().wait().unwrap();
    assert_eq!(empty.wait().unwrap()[0].columns, ["id", "v"]);
    first.wait().unwrap();
    assert_eq!(before.wait().unwrap()[0].columns, ["id", "v"]);
    alters.wait().unwrap();
    let after = &after.wait().unwrap()[0];
    assert_eq!(after.columns, ["id", "v", "w"]);
    assert_eq!(after.rows, [[Value::Int(1), Value::Text("v".into()), Value::Int(5)]]);
    clears.wait().unwrap();
    renames.wait().unwrap();
    assert_eq!(empty_again.wait().unwrap()[0].columns, ["id", "v", "z"]);
}

/// SQLite checks the rows that are there with a `PRAGMA` of its own.
#[test]
fn a_column_is_added_with_a_constraint() {
    let test = Scratch::with_table();
    neighbour(&test.db, 1).wait().unwrap();
    for column in ["n INTEGER DEFAULT 3 CHECK (n > 2)", "g NOT NULL AS (id + 1)"] {
        let sql = format!("ALTER TABLE t ADD COLUMN {column}");
        test.db.transact(move |tx| tx.execute(&sql, ())).unwrap();
    }
    let broken = "ALTER TABLE t ADD COLUMN m DEFAULT 3 CHECK (m > 5)";
    let error = test.db.transact(move |tx| tx.execute(broken, ())).unwrap_err();
    assert_eq!(error.into_caller().unwrap().to_string(), "CHECK constraint failed");
    let g = |tx: &Transaction| tx.query_row("SELECT g FROM t", (), |row| row.get::<_, i64>(0));
    assert_eq!(test.db.transact(move |tx| g(tx)).unwrap(), 2);
}

/// SQLite keeps the column in the connection's memory.
#[test]
fn a_column_that_could_not_be_added_is_not_there_for_a_neighbour() {
    let test = Scratch::with_table();
    neighbour(&test.db, 1).wait().unwrap();
    let held = hold(&test.db);
    let adds = test.db.submit(|tx| {
        let sql = "ALTER TABLE t ADD COLUMN never INTEGER DEFAULT 1 CHECK (never > 2)";
        tx.execute(sql, ()).unwrap_err();
        Ok::<_, rusqlite::Error>(())
    });
    let inserts = test.db.submit(|tx| tx.execute("INSERT INTO t VALUES (2, 'v')", ()));
    held.release().wait().unwrap();
    adds.wait().unwrap();
    inserts.wait().unwrap();
}
