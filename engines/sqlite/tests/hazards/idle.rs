//! A good neighbour holds no lock while idle, and no connection ever runs without syncs.

use groupcommit_sqlite::rusqlite::Connection;

use crate::common::{Done, Scratch, code, neighbour};

fn synchronous(connection: &Connection) -> Done<i64> {
    connection.query_row("PRAGMA synchronous", (), |row| row.get(0))
}

#[test]
fn no_lock_is_held() {
    let test = Scratch::with_table();
    neighbour(&test.db, 1).wait().unwrap();
    test.db.read(|conn| conn.query_row("SELECT count(*) FROM t", (), |_| Ok(()))).unwrap();
    let conflict = test.db.transact(|tx| tx.execute("INSERT INTO t VALUES (1, 1)", ()));
    code(conflict);
    let other = test.plain();
    other.busy_timeout(std::time::Duration::ZERO).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (2, 2); COMMIT").unwrap();
    // Needs every reader to have let go of its snapshot.
    let busy: i64 =
        other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0)).unwrap();
    assert_eq!(busy, 0);
}

#[test]
fn no_connection_does_without_syncs() {
    let test = Scratch::with_table();
    assert_eq!(test.db.exclusive(synchronous).unwrap(), 1);
    assert!(test.db.read(synchronous).unwrap() >= 1);
    // Not even one that was asked to.
    let asked = test.db.exclusive(|conn| {
        conn.execute_batch("PRAGMA synchronous = OFF")?;
        synchronous(conn)
    });
    assert!(asked.is_err() || asked.unwrap() >= 1);
    assert_eq!(test.db.exclusive(synchronous).unwrap(), 1);
}
