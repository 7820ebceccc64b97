//! Virtual tables keep prepared statements of their own on the connection that uses them, and
//! finalize those themselves when it is closed. Under valgrind this also shows that nothing is
//! freed twice.

use groupcommit_sqlite::rusqlite::Connection;

use crate::common::{Done, Scratch};

const SCHEMA: &str = "
    CREATE TABLE t (id INTEGER PRIMARY KEY, v);
    CREATE VIRTUAL TABLE fts3 USING fts3(v);
    CREATE VIRTUAL TABLE fts4 USING fts4(v);
    CREATE VIRTUAL TABLE fts5 USING fts5(v);
    CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1);
    CREATE TRIGGER indexed AFTER INSERT ON t BEGIN
        INSERT INTO fts3 (rowid, v) VALUES (new.id, new.v);
        INSERT INTO fts4 (rowid, v) VALUES (new.id, new.v);
        INSERT INTO fts5 (rowid, v) VALUES (new.id, new.v);
        INSERT INTO boxes VALUES (new.id, new.id, new.id + 1);
    END";

const TABLES: [&str; 4] = ["fts3", "fts4", "fts5", "boxes"];

fn search(connection: &Connection, table: &str) -> Done<i64> {
    let sql = match table {
        "boxes" => "SELECT count(*) FROM boxes WHERE x0 >= 1 AND x1 < 100".to_owned(),
        fts => format!("SELECT count(*) FROM {fts} WHERE {fts} MATCH 'word'"),
    };
    connection.query_row(&sql, (), |row| row.get(0))
}

fn insert(test: &Scratch, table: &'static str, id: i64) {
    let sql = match table {
        "boxes" => "INSERT INTO boxes VALUES (?1, ?1, ?1 + 1)".to_owned(),
        table => format!("INSERT INTO {table} (rowid, v) VALUES (?1, 'a word')"),
    };
    test.db.transact(move |tx| tx.execute(&sql, [id])).unwrap();
}

fn gives_the_file_back(test: &Scratch) {
    test.db.close().unwrap();
    assert!(!test.wal_path().exists(), "a connection is still open");
    for table in TABLES {
        search(&test.plain(), table).unwrap();
    }
}

#[test]
fn used_by_a_transaction_are_closed_with_the_database() {
    for table in TABLES {
        let test = Scratch::new(SCHEMA);
        for id in 1..4 {
            insert(&test, table, id);
        }
        assert_eq!(test.db.transact(move |tx| search(tx, table)).unwrap(), 3);
        gives_the_file_back(&test);
    }
}

#[test]
fn used_by_a_read_are_closed_with_the_database() {
    for table in TABLES {
        let test = Scratch::new(SCHEMA);
        insert(&test, table, 1);
        for _ in 0..2 {
            assert_eq!(test.db.read(|conn| search(conn, table)).unwrap(), 1);
        }
        // The second connection is beyond the pool's bound or not: either way it is closed.
        let nested = test.db.read(|conn| -> Done<i64> {
            search(conn, table)?;
            Ok(test.db.read(|inner| search(inner, table)).unwrap())
        });
        assert_eq!(nested.unwrap(), 1);
        gives_the_file_back(&test);
    }
}

#[test]
fn used_by_a_trigger_are_closed_with_the_database() {
    let test = Scratch::new(SCHEMA);
    let tickets: Vec<_> = (1..20)
        .map(|id| test.db.submit(move |tx| tx.execute("INSERT INTO t VALUES (?1, 'a word')", [id])))
        .collect();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    for table in TABLES {
        assert_eq!(test.db.read(|conn| search(conn, table)).unwrap(), 19);
    }
    gives_the_file_back(&test);
}

#[test]
fn used_by_an_exclusive_and_dropped_with_the_database() {
    let test = Scratch::new(SCHEMA);
    insert(&test, "fts5", 1);
    test.db.exclusive(|conn| conn.execute_batch("INSERT INTO boxes VALUES (1, 1, 2)")).unwrap();
    for table in TABLES {
        test.db.exclusive(move |conn| search(conn, table)).unwrap();
    }
    let wal = test.wal_path();
    let Scratch { db, .. } = test.keep_folder();
    drop(db);
    // By the last thread that has done something for it.
    while wal.exists() {
        std::thread::yield_now();
    }
    std::fs::remove_dir_all(wal.parent().unwrap()).unwrap();
}

/// A statement that is leaked in the middle of its rows keeps its virtual table, and that one its own
/// statements.
#[test]
fn a_leaked_search_is_no_reason_to_free_anything_twice() {
    fn leak(connection: &Connection, table: &str) -> Done {
        let sql = match table {
            "boxes" => "SELECT * FROM boxes WHERE x0 >= 1".to_owned(),
            fts => format!("SELECT v FROM {fts} WHERE {fts} MATCH 'word'"),
        };
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query(())?;
        assert!(rows.next()?.is_some());
        std::mem::forget(rows);
        std::mem::forget(statement);
        Ok(())
    }
    for table in TABLES {
        let test = Scratch::new(SCHEMA);
        for id in 1..4 {
            insert(&test, table, id);
        }
        test.db.transact(move |tx| leak(tx, table)).unwrap();
        test.db.read(|conn| leak(conn, table)).unwrap();
        insert(&test, table, 4);
        test.db.exclusive(move |conn| leak(conn, table)).unwrap();
        insert(&test, table, 5);
        test.db.close().unwrap();
        let busy: i64 = test
            .plain()
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0))
            .unwrap();
        assert_eq!(busy, 0, "a snapshot is still held");
        assert_eq!(search(&test.plain(), table).unwrap(), 5);
    }
}
