//! `changes()`, `total_changes()` and `last_insert_rowid()` belong to the connection; a member must
//! find them as on a connection of its own.

use groupcommit_sqlite::{Statement, Transaction, rusqlite};

use crate::common::{Done, Scratch, hold, neighbour};

type Counters = (i64, i64, i64);

fn from_sql(tx: &Transaction) -> Done<Counters> {
    tx.query_row("SELECT changes(), total_changes(), last_insert_rowid()", (), |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })
}

fn from_api(tx: &Transaction) -> Counters {
    (tx.changes().cast_signed(), tx.total_changes().cast_signed(), tx.last_insert_rowid())
}

#[test]
fn a_member_starts_with_none_of_its_neighbours() {
    let test = Scratch::with_table();
    let held = hold(&test.db);
    let before = test.db.submit(|tx| tx.execute("INSERT INTO t VALUES (8, 1), (9, 1)", ()));
    let looks = test.db.submit(|tx| {
        let mut seen = vec![from_sql(tx)?, from_api(tx)];
        tx.execute("INSERT INTO t VALUES (20, 1)", ())?;
        tx.execute("UPDATE t SET v = 2", ())?;
        seen.extend([from_sql(tx)?, from_api(tx)]);
        tx.execute("DELETE FROM t WHERE id = 1000", ())?;
        seen.extend([from_sql(tx)?, from_api(tx)]);
        Done::Ok(seen)
    });
    let after = test.db.submit(|tx| Done::Ok([from_sql(tx)?, from_api(tx)]));
    held.release().wait().unwrap();
    assert_eq!(before.wait().unwrap(), 2);
    let expected = [(0, 0, 0), (0, 0, 0), (3, 4, 20), (3, 4, 20), (0, 4, 20), (0, 4, 20)];
    assert_eq!(looks.wait().unwrap(), expected);
    assert_eq!(after.wait().unwrap(), [(0, 0, 0), (0, 0, 0)]);
}

#[test]
fn a_member_that_runs_again_starts_with_none_of_its_first_run() {
    let test = Scratch::with_table();
    let held = hold(&test.db);
    let looks = test.db.submit(|tx| {
        let first = from_sql(tx)?;
        tx.execute("INSERT INTO t VALUES (20, 1)", ())?;
        Done::Ok([first, from_sql(tx)?])
    });
    let odd = test.db.submit(|tx| {
        tx.execute("INSERT INTO t VALUES (21, 1)", ())?;
        Err::<(), _>(rusqlite::Error::InvalidQuery)
    });
    held.release().wait().unwrap();
    assert_eq!(looks.wait().unwrap(), [(0, 0, 0), (1, 1, 20)]);
    odd.wait().unwrap_err();
    assert!(test.db.stats().reruns > 0, "the member was not run again");
}

#[test]
fn plain_data_reports_its_own() {
    let test = Scratch::with_table();
    let held = hold(&test.db);
    let before = neighbour(&test.db, 9);
    let sql = ["SELECT 1", "DELETE FROM t WHERE id = 1000", "CREATE TABLE u (x)"];
    let data = test.db.submit_statements(sql.map(|sql| Statement::new(sql, [])).to_vec());
    held.release().wait().unwrap();
    before.wait().unwrap();
    let results = data.wait().unwrap();
    let counts: Vec<_> =
        results.iter().map(|result| (result.rows_affected, result.last_insert_id)).collect();
    assert_eq!(counts, [(0, None); 3]);
}

/// The results of `looks`, alone and behind a neighbour that wrote.
fn alone_and_behind<T: PartialEq + std::fmt::Debug + Send + 'static>(
    schema: &str,
    neighbour: &'static str,
    looks: fn(&Transaction) -> Done<T>,
) {
    let [alone, behind] = [false, true].map(|is_behind| {
        let test = Scratch::new(schema);
        let held = hold(&test.db);
        let before = is_behind.then(|| test.db.submit(move |tx| tx.execute_batch(neighbour)));
        let looks = test.db.submit(move |tx| looks(tx));
        held.release().wait().unwrap();
        if let Some(before) = before {
            before.wait().unwrap();
        }
        looks.wait().unwrap()
    });
    assert_eq!(behind, alone);
}

/// What the neighbour put into the index is written only when something makes it.
#[test]
fn full_text_of_a_neighbour_is_not_counted() {
    for module in ["fts5 (x)", "fts4 (x)", "fts3 (x)"] {
        let schema = format!(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v);
             CREATE VIRTUAL TABLE f USING {module};"
        );
        let fills = "INSERT INTO f VALUES ('a b c'), ('d e f'); INSERT INTO f VALUES ('g')";
        alone_and_behind(&schema, fills, |tx| {
            let mut seen = vec![from_sql(tx)?, from_api(tx)];
            tx.savepoint(|tx| {
                seen.push(from_sql(tx)?);
                Done::Ok(())
            })?;
            seen.extend([from_sql(tx)?, from_api(tx)]);
            let made = tx.execute("CREATE TABLE made (x)", ())?;
            seen.extend([from_sql(tx)?, from_api(tx)]);
            Done::Ok((made, seen))
        });
        alone_and_behind(&schema, fills, |tx| {
            let sql = [
                "CREATE TABLE made (x)",
                "INSERT INTO f (rowid, x) VALUES (9, 'h')",
                "DROP TABLE made",
            ];
            tx.run(&sql.map(|sql| Statement::new(sql, [])))
        });
    }
}

#[test]
fn inside_a_statement_too() {
    let schema = "
        CREATE TABLE t (id INTEGER PRIMARY KEY, v);
        CREATE TABLE seen (n);
        CREATE TABLE d (id INTEGER PRIMARY KEY, n DEFAULT (changes()));
        CREATE TRIGGER r AFTER INSERT ON t BEGIN
            INSERT INTO seen VALUES (changes()); INSERT INTO seen VALUES (changes());
        END;";
    let fills = "INSERT INTO seen VALUES (9), (9), (9)";
    alone_and_behind(schema, fills, |tx| {
        tx.query_row("INSERT INTO t VALUES (1, 1) RETURNING changes()", (), |row| {
            row.get::<_, i64>(0)
        })
    });
    alone_and_behind(schema, fills, |tx| {
        tx.execute("INSERT INTO d (id) VALUES (1)", ())?;
        tx.query_row("SELECT n FROM d", (), |row| row.get::<_, i64>(0))
    });
    alone_and_behind(schema, fills, |tx| {
        tx.execute("INSERT INTO t VALUES (1, 1), (2, 2)", ())?;
        let mut seen = tx.prepare("SELECT n FROM seen WHERE n < 9")?;
        seen.query_map((), |row| row.get::<_, i64>(0))?.collect::<Done<Vec<_>>>()
    });
}

#[test]
fn a_schema_change_returns_none() {
    let fills = "INSERT INTO t VALUES (1, 1), (2, 2)";
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, v)";
    alone_and_behind(schema, fills, |tx| tx.execute("CREATE TABLE u (x)", ()));
    alone_and_behind(schema, fills, |tx| tx.prepare("CREATE TABLE u (x)")?.execute(()));
    alone_and_behind(schema, fills, |tx| {
        let connection: &rusqlite::Connection = tx;
        let before = connection.changes();
        Done::Ok((before, connection.execute("CREATE TABLE u (x)", ())?))
    });
}

/// SQLite finds out that a statement is stale only when it has made virtual tables write.
#[test]
fn a_statement_that_a_neighbour_left_stale_counts_nothing() {
    const MAKE: &str = "CREATE TABLE IF NOT EXISTS made (x)";
    let test = Scratch::new("CREATE VIRTUAL TABLE f USING fts5 (x)");
    let held = hold(&test.db);
    let makes = test.db.submit(|tx| tx.execute(MAKE, ()));
    let looks = test.db.submit(|tx| {
        let sql = ["INSERT INTO f VALUES ('a b')", MAKE];
        tx.run(&sql.map(|sql| Statement::new(sql, [])))
    });
    held.release().wait().unwrap();
    makes.wait().unwrap();
    let counts: Vec<_> = looks.wait().unwrap().iter().map(|result| result.rows_affected).collect();
    assert_eq!(counts, [1, 0]);
}
