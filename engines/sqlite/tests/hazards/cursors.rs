//! A cursor that a member leaves open, which takes a leak on purpose.

use groupcommit_sqlite::rusqlite::Connection;

use crate::common::{Done, Scratch, hold, neighbour};

fn leak_rows(tx: &Connection) -> Done {
    let mut statement = tx.prepare("SELECT id FROM t")?;
    let mut rows = statement.query(())?;
    assert!(rows.next()?.is_some());
    std::mem::forget(rows);
    std::mem::forget(statement);
    Ok(())
}

#[test]
fn does_not_hold_a_snapshot_or_break_the_next_group() {
    let test = Scratch::with_table();
    test.db.transact(|tx| tx.execute("INSERT INTO t VALUES (1, 1), (2, 2)", ())).unwrap();
    test.db.transact(|tx| leak_rows(tx)).unwrap();
    let busy: i64 =
        test.plain().query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0)).unwrap();
    assert_eq!(busy, 0, "a snapshot is still held");
    neighbour(&test.db, 3).wait().unwrap();
    assert_eq!(test.ids(), [1, 2, 3]);
}

#[test]
fn does_not_lock_a_table_for_a_neighbour() {
    let test = Scratch::with_table();
    neighbour(&test.db, 1).wait().unwrap();
    let held = hold(&test.db);
    let leaks = test.db.submit(|tx| leak_rows(tx));
    let drops = test.db.submit(|tx| tx.execute("DROP TABLE t", ()));
    held.release().wait().unwrap();
    leaks.wait().unwrap();
    drops.wait().unwrap();
}

#[test]
fn does_not_keep_a_failing_member_from_being_rolled_back() {
    let test = Scratch::with_table();
    neighbour(&test.db, 1).wait().unwrap();
    let held = hold(&test.db);
    let before = neighbour(&test.db, 2);
    let odd = test.db.submit(|tx| {
        crate::common::insert(tx, 50)?;
        leak_rows(tx)?;
        Err::<(), _>(groupcommit_sqlite::rusqlite::Error::InvalidQuery)
    });
    let after = neighbour(&test.db, 3);
    held.release().wait().unwrap();
    before.wait().unwrap();
    odd.wait().unwrap_err();
    after.wait().unwrap();
    assert_eq!(test.ids(), [1, 2, 3]);
}

#[test]
fn in_an_exclusive_does_not_hold_a_snapshot() {
    let test = Scratch::with_table();
    test.db.transact(|tx| tx.execute("INSERT INTO t VALUES (1, 1), (2, 2)", ())).unwrap();
    test.db.exclusive(leak_rows).unwrap();
    let busy: i64 =
        test.plain().query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0)).unwrap();
    assert_eq!(busy, 0, "a snapshot is still held");
    neighbour(&test.db, 3).wait().unwrap();
}

#[test]
fn in_a_read_does_not_hold_a_snapshot() {
    let test = Scratch::with_table();
    neighbour(&test.db, 1).wait().unwrap();
    test.db
        .read(|conn| {
            leak_rows(conn)?;
            Done::Ok(())
        })
        .unwrap();
    neighbour(&test.db, 2).wait().unwrap();
    let busy: i64 =
        test.plain().query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0)).unwrap();
    assert_eq!(busy, 0, "a snapshot is still held");
}

/// The leaked statements keep their connections, so the log stays; but nothing keeps a lock.
#[test]
fn does_not_keep_a_lock_after_the_database_is_closed() {
    let test = Scratch::with_table();
    test.db.transact(|tx| tx.execute("INSERT INTO t VALUES (1, 1), (2, 2)", ())).unwrap();
    test.db.transact(|tx| leak_rows(tx)).unwrap();
    test.db.read(leak_rows).unwrap();
    test.db.exclusive(leak_rows).unwrap();
    test.db.close().unwrap();
    let busy: i64 =
        test.plain().query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0)).unwrap();
    assert_eq!(busy, 0, "a snapshot is still held");
    let test = test.reopen();
    neighbour(&test.db, 3).wait().unwrap();
    assert_eq!(test.ids(), [1, 2, 3]);
}
