//! A database that was opened by a relative path stays itself when the process changes its
//! directory, as a daemon does. Alone in its program, because the directory is the process's.

use groupcommit_sqlite::{Database, rusqlite};

#[test]
fn is_kept_when_the_process_goes_elsewhere() {
    let (here, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let other = rusqlite::Connection::open(elsewhere.path().join("app.db")).unwrap();
    other
        .execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t (id); INSERT INTO t VALUES (7)")
        .unwrap();
    std::env::set_current_dir(here.path()).unwrap();
    let db = Database::open("app.db").unwrap();
    db.transact(|tx| tx.execute("CREATE TABLE t (id)", ())).unwrap();
    std::env::set_current_dir(elsewhere.path()).unwrap();
    let rows: i64 =
        db.read(|conn| conn.query_row("SELECT count(*) FROM t", (), |row| row.get(0))).unwrap();
    assert_eq!(rows, 0, "read another database");
}
