//! A disk that runs full in the middle of a group.

use std::path::Path;

use groupcommit_sqlite::{
    Database, Failure, Rejected,
    rusqlite::{self, Connection, ErrorCode},
};

use crate::{
    common::{Scratch, code, hold, ids, insert, neighbour},
    opening::may,
};

/// A small file system in memory, unmounted at the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted =
            may("mount", &["-t", "tmpfs", "-o", "size=4m", "none", folder.path().to_str()?]);
        mounted.then_some(Self(folder))
    }

    fn enlarge(&self) {
        assert!(may("mount", &["-o", "remount,size=64m", self.path().to_str().unwrap()]));
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        may("umount", &["-l", self.path().to_str().unwrap()]);
    }
}

/// Fills more than the page cache holds, so the disk runs full in the middle of the statement.
#[test]
fn in_a_statement() {
    rejects_the_transaction_that_does_not_fit_and_no_other(20);
}

/// Fills less than the page cache holds, so the disk runs full in the commit that members share.
#[test]
fn in_the_commit() {
    rejects_the_transaction_that_does_not_fit_and_no_other(6);
}

/// A checkpoint in an exclusive that does not fit: a later one copies the same pages again.
#[test]
fn in_a_checkpoint() {
    let Some(disk) = SmallDisk::mount() else { return };
    let path = disk.path().join("app.db");
    let db = Database::open(&path).unwrap();
    db.exclusive(|conn| conn.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, v)")).unwrap();
    db.transact(|tx| tx.execute("INSERT INTO t VALUES (1000, zeroblob(1000000))", ())).unwrap();
    let filler = disk.path().join("filler");
    std::fs::write(&filler, vec![1; 4 << 20]).unwrap_err(); // as much of it as there is room for
    assert!(std::fs::metadata(&filler).unwrap().len() > 1_000_000);

    let checkpoint = || {
        db.exclusive(|conn| {
            conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get::<_, i64>(0))
        })
    };
    assert_eq!(code(checkpoint()), ErrorCode::DiskFull);
    std::fs::remove_file(&filler).unwrap();
    db.transact(|tx| insert(tx, 1)).unwrap();
    assert_eq!(checkpoint().unwrap(), 0, "not busy");
    assert_eq!(db.wal().bytes, 0);
    db.transact(|tx| insert(tx, 2)).unwrap();
    db.close().unwrap();
    assert_eq!(ids(&Connection::open(&path).unwrap()), [1, 2, 1000]);
}

/// What a closure fails with after its checkpoint is its own affair.
#[test]
fn an_error_after_a_checkpoint_is_no_reason_to_refuse() {
    let test = Scratch::with_table();
    for id in 1..4 {
        neighbour(&test.db, id).wait().unwrap();
        let failed = test.db.exclusive(|conn| {
            conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))?;
            Err::<(), _>(rusqlite::Error::QueryReturnedNoRows)
        });
        assert!(matches!(failed, Err(Failure::Rejected(Rejected::Caller(_)))), "{failed:?}");
    }
    assert_eq!(test.ids(), [1, 2, 3]);
}

fn rejects_the_transaction_that_does_not_fit_and_no_other(megabytes: i64) {
    const FILL: &str =
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                        INSERT INTO t SELECT 1000 + i, zeroblob(1000000) FROM n";
    let Some(disk) = SmallDisk::mount() else { return };
    let path = disk.path().join("app.db");
    let db = Database::open(&path).unwrap();
    db.exclusive(|conn| conn.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, v)")).unwrap();

    let held = hold(&db);
    let before = neighbour(&db, 1);
    let big = db.submit(move |tx| tx.execute(FILL, [megabytes]));
    let after = neighbour(&db, 2);
    held.release().wait().unwrap();
    before.wait().unwrap();
    assert_eq!(code(big.wait()), ErrorCode::DiskFull);
    after.wait().unwrap();
    assert_eq!(ids(&Connection::open(&path).unwrap()), [1, 2]);

    // The database goes on: what fits is committed, what does not is rejected, and all can be read.
    assert_eq!(code(db.transact(move |tx| tx.execute(FILL, [megabytes]))), ErrorCode::DiskFull);
    db.transact(|tx| insert(tx, 3)).unwrap();
    let count: i64 =
        db.read(|conn| conn.query_row("SELECT count(*) FROM t", (), |row| row.get(0))).unwrap();
    assert_eq!(count, 3);

    disk.enlarge();
    assert_eq!(
        db.transact(move |tx| tx.execute(FILL, [megabytes])).unwrap(),
        usize::try_from(megabytes).unwrap()
    );
    db.close().unwrap();
    drop(db);
    let reopened = Database::open(&path).unwrap();
    reopened.transact(|tx| insert(tx, 4)).unwrap();
    let expected: Vec<i64> = [1, 2, 3, 4].into_iter().chain(1001..=1000 + megabytes).collect();
    assert_eq!(ids(&Connection::open(&path).unwrap()), expected);
}
