//! A failed member that wrote through rusqlite's blob handle, which SQLite does not count as a change.
use groupcommit_sqlite::{Database, rusqlite};
use std::{io::Write, sync::mpsc};
#[test]
fn leaves_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("app.db")).unwrap();
    db.exclusive(|c| {
        c.execute_batch(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, zeroblob(4))",
        )
    })
    .unwrap();
    let (s, r) = mpsc::channel::<()>();
    let held = db.submit(move |_| {
        r.recv().ok();
        Ok::<_, rusqlite::Error>(())
    });
    let failed = db.submit(|tx| {
        let mut blob = tx.blob_open("main", "t", "v", 1, false)?;
        blob.write_all(b"oops").unwrap();
        drop(blob);
        Err::<(), _>(rusqlite::Error::InvalidQuery)
    });
    let after = db.submit(|tx| tx.execute("INSERT INTO t VALUES (2, 0)", ()));
    drop(s); // and not sent: the closure may run again
    held.wait().unwrap();
    assert!(failed.wait().is_err());
    after.wait().unwrap();
    let v: Vec<u8> =
        db.read(|c| c.query_row("SELECT v FROM t WHERE id = 1", (), |row| row.get(0))).unwrap();
    assert_eq!(v, [0; 4]);
}
