//! A group whose dirty pages exceed the page cache: SQLite writes them to the log before the
//! commit.

use crate::common::{Scratch, code, hold, neighbour};

/// More than the writing connection's page cache of 64 MiB.
const FILL: &str =
    "WITH RECURSIVE n (i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < 1079)
                    INSERT INTO t SELECT i, zeroblob(1000000) FROM n";

#[test]
fn is_committed_and_undone_like_any_other() {
    let test = Scratch::with_table();
    let held = hold(&test.db);
    let before = neighbour(&test.db, 1);
    let fails = test.db.submit(|tx| {
        tx.execute(FILL, ())?;
        tx.execute("INSERT INTO t VALUES (1, 'conflict')", ())
    });
    let fills = test.db.submit(|tx| tx.execute(FILL, ()));
    let after = neighbour(&test.db, 2);
    held.release().wait().unwrap();
    before.wait().unwrap();
    code(fails.wait());
    assert_eq!(fills.wait().unwrap(), 80);
    after.wait().unwrap();
    let expected: Vec<i64> = [1, 2].into_iter().chain(1000..1080).collect();
    assert_eq!(test.ids(), expected);
    let sound: String =
        test.plain().query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}
