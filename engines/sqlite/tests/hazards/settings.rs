//! What a connection was told by one closure must not be true for the next.

use groupcommit_sqlite::{
    Error,
    rusqlite::{self, Connection, ErrorCode},
};

use crate::common::{Done, Scratch, code, hold, insert, neighbour, rejected_by_engine};

/// `SQLITE_DBCONFIG_ENABLE_COMMENTS`, which rusqlite has no name for.
const ENABLE_COMMENTS: i32 = 1022;

#[expect(unsafe_code, reason = "SQLite's C interface")]
fn disable(connection: &Connection, switch: i32) {
    // SAFETY: the handle is valid while the connection is borrowed; the switch takes an `int` and
    // a pointer that may be null.
    let code = unsafe {
        rusqlite::ffi::sqlite3_db_config(
            connection.handle(),
            switch,
            0,
            std::ptr::null_mut::<std::ffi::c_int>(),
        )
    };
    assert_eq!(code, 0);
}

/// Forbids statements of more than ten bytes.
#[expect(unsafe_code, reason = "SQLite's C interface")]
fn limit(connection: &Connection) {
    // SAFETY: the handle is valid while the connection is borrowed.
    unsafe {
        rusqlite::ffi::sqlite3_limit(
            connection.handle(),
            rusqlite::ffi::SQLITE_LIMIT_SQL_LENGTH,
            10,
        );
    }
}

#[test]
fn sql_comments_that_a_member_switched_off_are_on_for_its_neighbours() {
    let test = Scratch::with_table();
    let held = hold(&test.db);
    let before = neighbour(&test.db, 1);
    let odd = test.db.submit(|tx| {
        insert(tx, 50)?;
        disable(tx, ENABLE_COMMENTS);
        Done::Ok(())
    });
    let after = test.db.submit(|tx| tx.execute("INSERT INTO t VALUES (2, 1) -- a comment", ()));
    held.release().wait().unwrap();
    before.wait().unwrap();
    let odd = odd.wait();
    assert!(matches!(rejected_by_engine(&odd), Error::ConfigurationChanged), "{odd:?}");
    after.wait().unwrap();
    assert_eq!(test.ids(), [1, 2]);
}

#[test]
fn a_limit_that_a_member_lowered_is_as_before_for_its_neighbours() {
    let test = Scratch::with_table();
    let held = hold(&test.db);
    let odd = test.db.submit(|tx| {
        limit(tx);
        Done::Ok(())
    });
    let after = neighbour(&test.db, 2);
    held.release().wait().unwrap();
    let odd = odd.wait();
    assert!(matches!(rejected_by_engine(&odd), Error::ConfigurationChanged), "{odd:?}");
    after.wait().unwrap();
}

#[test]
fn nothing_that_an_exclusive_set_is_set_after_it() {
    let test = Scratch::new(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, v);
         CREATE TABLE child (id INTEGER PRIMARY KEY, p REFERENCES t);",
    );
    test.db
        .exclusive(|conn| {
            disable(conn, ENABLE_COMMENTS);
            conn.execute_batch(
                "PRAGMA defer_foreign_keys = ON; PRAGMA query_only = ON;
                 PRAGMA case_sensitive_like = ON; PRAGMA max_page_count = 5",
            )?;
            limit(conn);
            Done::Ok(())
        })
        .unwrap();
    let orphan = test.db.submit(|tx| tx.execute("INSERT INTO child VALUES (1, 99)", ()));
    assert_eq!(code(orphan.wait()), ErrorCode::ConstraintViolation);
    let like = test.db.transact(|tx| {
        tx.execute("INSERT INTO t VALUES (1, zeroblob(100000)) -- a comment", ())?;
        tx.query_row("SELECT 'a' LIKE 'A'", (), |row| row.get::<_, bool>(0))
    });
    assert!(like.unwrap());
}

#[test]
fn an_exclusive_finds_nothing_of_what_members_did() {
    let test = Scratch::with_table();
    neighbour(&test.db, 7).wait().unwrap();
    let seen = test.db.exclusive(|conn| {
        let sql = "SELECT changes(), total_changes(), last_insert_rowid()";
        let by_sql: (i64, i64, i64) =
            conn.query_row(sql, (), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Done::Ok((by_sql, conn.changes(), conn.total_changes(), conn.last_insert_rowid()))
    });
    assert_eq!(seen.unwrap(), ((0, 0, 0), 0, 0, 0));
}

#[test]
fn what_one_read_set_is_not_set_in_the_next() {
    let test = Scratch::with_table();
    let like = || {
        let sql = "SELECT 'a' LIKE 'A' -- a comment";
        test.db.read(|conn| conn.query_row(sql, (), |row| row.get::<_, bool>(0)))
    };
    let sets: [fn(&Connection) -> Done; 3] = [
        |conn| conn.execute_batch("PRAGMA case_sensitive_like = ON"),
        |conn| {
            limit(conn);
            Ok(())
        },
        |conn| {
            disable(conn, ENABLE_COMMENTS);
            Ok(())
        },
    ];
    for set in sets {
        assert!(like().unwrap());
        test.db.read(set).unwrap();
        assert!(like().unwrap());
    }
}
