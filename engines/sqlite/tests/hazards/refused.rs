//! A member that would begin or end transactions, or change the connection that all share.

use groupcommit_sqlite::{
    Error, Failure, Rejected, Statement,
    rusqlite::{self, ErrorCode, config::DbConfig},
};

use crate::common::{Done, Scratch, code, hold, insert, neighbour, rejected_by_engine};

const FORBIDDEN: [&str; 22] = [
    "BEGIN",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "END",
    "ROLLBACK",
    "SAVEPOINT s",
    "RELEASE s",
    "ROLLBACK TO s",
    "PRAGMA synchronous = OFF",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA foreign_keys = OFF",
    "PRAGMA defer_foreign_keys = ON",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA user_version = 7",
    "ATTACH ':memory:' AS other",
    "DETACH other",
    "CREATE TEMP TABLE x (y)",
    "CREATE TEMP VIEW x AS SELECT 1",
    "CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END",
    "CREATE VIRTUAL TABLE temp.t USING fts5 (x)",
    "CREATE TABLE temp.t (id)",
    "SELECT load_extension('x')",
];

#[test]
fn through_whatever_path() {
    let test = Scratch::with_table();
    let held = hold(&test.db);
    let before = neighbour(&test.db, 1);
    let attempts: Vec<_> = FORBIDDEN
        .iter()
        .flat_map(|&sql| {
            let db = &test.db;
            [
                db.submit(move |tx| tx.execute(sql, ()).map(drop)),
                db.submit(move |tx| tx.execute_batch(&format!("SELECT 1; {sql};"))),
                db.submit(move |tx| tx.prepare(sql).map(drop)),
                db.submit(move |tx| tx.prepare_cached(sql).map(drop)),
                db.submit(move |tx| tx.run(&[Statement::new(sql, [])]).map(drop)),
            ]
        })
        .collect();
    let unchecked = test.db.submit(|tx| tx.unchecked_transaction().map(drop));
    let after = neighbour(&test.db, 2);
    held.release().wait().unwrap();
    before.wait().unwrap();
    for (index, attempt) in attempts.into_iter().enumerate() {
        let sql = FORBIDDEN[index / 5];
        let error = attempt.wait().unwrap_err().into_caller().unwrap();
        assert!(error.to_string().contains("not authorized"), "{sql}: {error}");
    }
    assert_eq!(code(unchecked.wait()), ErrorCode::AuthorizationForStatementDenied);
    after.wait().unwrap();
    assert_eq!(test.ids(), [1, 2]);
}

#[test]
fn also_when_an_exclusive_had_prepared_it() {
    const SQL: [&str; 4] =
        ["COMMIT", "PRAGMA user_version = 7", "ATTACH ':memory:' AS x", "CREATE TEMP TABLE x (y)"];
    let test = Scratch::with_table();
    test.db
        .exclusive(|conn| {
            for sql in SQL {
                drop(conn.prepare_cached(sql)?);
            }
            Done::Ok(())
        })
        .unwrap();
    for sql in SQL {
        let held = hold(&test.db);
        let before = neighbour(&test.db, 1);
        let odd = test.db.submit(move |tx| {
            insert(tx, 50)?;
            tx.execute(sql, ())
        });
        held.release().wait().unwrap();
        before.wait().unwrap();
        assert_eq!(code(odd.wait()), ErrorCode::AuthorizationForStatementDenied, "{sql}");
        assert_eq!(test.ids(), [1], "{sql}");
        test.db.transact(|tx| tx.execute("DELETE FROM t", ())).unwrap();
    }
}

#[test]
fn a_switch_of_the_connection_is_turned_back_and_its_member_rejected() {
    let switches = [
        DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY,
        DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER,
        DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW,
        DbConfig::SQLITE_DBCONFIG_DEFENSIVE,
        DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA,
        DbConfig::SQLITE_DBCONFIG_DQS_DML,
        DbConfig::SQLITE_DBCONFIG_DQS_DDL,
        DbConfig::SQLITE_DBCONFIG_LEGACY_ALTER_TABLE,
        DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA,
        DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE,
        DbConfig::SQLITE_DBCONFIG_REVERSE_SCANORDER,
    ];
    let test = Scratch::with_table();
    for (id, switch) in (0..).zip(switches) {
        let held = hold(&test.db);
        let odd = test.db.submit(move |tx| {
            insert(tx, 1_000)?;
            let value = tx.db_config(switch)?;
            tx.set_db_config(switch, !value)?;
            Done::Ok(value)
        });
        let after = test.db.submit(move |tx| {
            insert(tx, id)?;
            tx.db_config(switch)
        });
        held.release().wait().unwrap();
        let odd = odd.wait();
        assert!(odd.is_err(), "{switch:?}");
        after.wait().unwrap();
        let value = test.db.transact(move |tx| tx.db_config(switch)).unwrap();
        let fresh = test.plain().db_config(switch).unwrap();
        assert_eq!(value, fresh, "{switch:?}");
    }
    assert_eq!(test.ids(), (0..11).collect::<Vec<_>>());
}

#[test]
fn a_foreign_key_does_not_pass_behind_a_switch_of_a_neighbour() {
    let test = Scratch::new(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, v);
         CREATE TABLE child (id INTEGER PRIMARY KEY, parent REFERENCES t);",
    );
    let held = hold(&test.db);
    let odd = test.db.submit(|tx| tx.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, false));
    let orphan = test.db.submit(|tx| tx.execute("INSERT INTO child VALUES (1, 99)", ()));
    held.release().wait().unwrap();
    odd.wait().unwrap_err();
    assert_eq!(code(orphan.wait()), ErrorCode::ConstraintViolation);
}

#[test]
fn a_neighbour_does_not_fail_for_a_switch_that_another_turned() {
    for fails in [false, true] {
        let test = Scratch::new(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v); CREATE VIEW seen AS SELECT * FROM t;",
        );
        let held = hold(&test.db);
        let odd = test.db.submit(move |tx| {
            tx.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
            if fails { Err(rusqlite::Error::InvalidQuery) } else { Ok(()) }
        });
        let looks = test.db.submit(|tx| {
            insert(tx, 1)?;
            tx.query_row("SELECT count(*) FROM seen", (), |row| row.get::<_, i64>(0))
        });
        held.release().wait().unwrap();
        let odd = odd.wait();
        if fails {
            assert!(matches!(odd, Err(Failure::Rejected(Rejected::Caller(_)))), "{odd:?}");
        } else {
            assert!(matches!(rejected_by_engine(&odd), Error::ConfigurationChanged), "{odd:?}");
        }
        assert_eq!(looks.wait().unwrap(), 1);
    }
}

#[test]
fn what_an_exclusive_left_in_temp_is_gone_after_it() {
    let test = Scratch::with_table();
    test.db
        .exclusive(|conn| {
            conn.execute_batch(
                "CREATE TEMP TABLE t (id INTEGER PRIMARY KEY, v);
                 CREATE TEMP TABLE \"odd \"\"name\" (x);
                 CREATE TEMP VIEW w AS SELECT * FROM main.t;
                 CREATE TEMP TRIGGER r AFTER INSERT ON main.t BEGIN SELECT RAISE(ABORT, 'no'); END;",
            )
        })
        .unwrap();
    // It would have gone into the temporary table, and nowhere else.
    neighbour(&test.db, 1).wait().unwrap();
    assert_eq!(test.ids(), [1]);
    let left = test.db.transact(|tx| {
        let sql = "SELECT count(*) FROM temp.sqlite_schema WHERE name NOT LIKE 'groupcommit_%'";
        tx.query_row(sql, (), |row| row.get::<_, i64>(0))
    });
    assert_eq!(left.unwrap(), 0);
}

#[test]
fn an_exclusive_that_leaves_its_transaction_open_is_rolled_back() {
    let test = Scratch::with_table();
    let left = test.db.exclusive(|conn| conn.execute_batch("BEGIN; INSERT INTO t VALUES (1, 1)"));
    assert!(matches!(rejected_by_engine(&left), Error::LeftOpen), "{left:?}");
    neighbour(&test.db, 2).wait().unwrap();
    assert_eq!(test.ids(), [2]);
}

#[test]
fn what_an_exclusive_attached_is_gone_after_it() {
    let test = Scratch::with_table();
    let other = test.folder().join("other.db");
    let other = other.to_str().unwrap().to_owned();
    test.db
        .exclusive(move |conn| {
            conn.execute("ATTACH ?1 AS other", [&other])?;
            conn.execute_batch("CREATE TABLE other.o (x)")
        })
        .unwrap();
    // Its log is not the one that a flush covers: a write there would not be durable.
    let outside = test.db.transact(|tx| tx.execute("INSERT INTO other.o VALUES (1)", ()));
    assert_eq!(code(outside), ErrorCode::Unknown);
}
