//! A disk that runs full in the middle of a group.

use std::{fs, path::Path};

use groupcommit_sqlite::{Database, rusqlite::ErrorCode};

use crate::{
    common::{code, hold, ids, insert, neighbour},
    opening::may,
};

/// A small file system in memory, unmounted at the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted =
            may("mount", &["-t", "tmpfs", "-o", "size=8m", "none", folder.path().to_str()?]);
        mounted.then_some(Self(folder))
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

const FILL: &str =
    "WITH RECURSIVE n (i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < 1019)
                    INSERT INTO t SELECT i, zeroblob(1000000) FROM n";

#[test]
fn rejects_the_transaction_that_does_not_fit_and_no_other() {
    let Some(disk) = SmallDisk::mount() else { return };
    let path = disk.path().join("app.db");
    let db = Database::open(&path).unwrap();
    db.exclusive(|conn| conn.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, v)")).unwrap();

    let held = hold(&db);
    let before = neighbour(&db, 1);
    let big = db.submit(|tx| tx.execute(FILL, ()));
    let after = neighbour(&db, 2);
    held.release().wait().unwrap();
    before.wait().unwrap();
    assert_eq!(code(big.wait()), ErrorCode::DiskFull);
    after.wait().unwrap();
    assert_eq!(ids(&rusqlite_connection(&path)), [1, 2]);

    // The log keeps the room that it once had; opening anew gives it back.
    db.close().unwrap();
    drop(db);
    let db = Database::open(&path).unwrap();

    // Now to the last byte, by somebody else.
    let filler = disk.path().join("filler");
    let mut size = 8 << 20;
    while size > 0 {
        let room = fs::OpenOptions::new().create(true).append(true).open(&filler).unwrap();
        if std::io::Write::write_all(&mut &room, &vec![1; size]).is_err() {
            size /= 2;
        }
    }
    let grow = || db.transact(|tx| tx.execute("INSERT INTO t VALUES (?1, zeroblob(3000000))", [9]));
    assert_eq!(code(grow()), ErrorCode::DiskFull);
    let count: i64 =
        db.read(|conn| conn.query_row("SELECT count(*) FROM t", (), |row| row.get(0))).unwrap();
    assert_eq!(count, 2);

    fs::remove_file(&filler).unwrap();
    assert_eq!(grow().unwrap(), 1);
    db.transact(|tx| insert(tx, 3)).unwrap();
    assert_eq!(ids(&rusqlite_connection(&path)), [1, 2, 3, 9]);
    db.close().unwrap();
}

fn rusqlite_connection(path: &Path) -> groupcommit_sqlite::rusqlite::Connection {
    groupcommit_sqlite::rusqlite::Connection::open(path).unwrap()
}
