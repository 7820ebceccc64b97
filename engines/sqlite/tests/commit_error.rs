//! A COMMIT that fails when some of its pages are in the log already: nobody can tell whether the
//! last of them, which commits, is there too.
#![cfg(unix)]

use std::{env, process::Command};

use groupcommit_sqlite::{Database, Failure, NotRun};

const FOLDER: &str = "GROUPCOMMIT_TEST_FOLDER";

/// Runs itself again in a process that may write 256 KiB to a file: beyond that, a write fails with
/// an error that is none of space.
#[test]
fn is_final() {
    let Some(folder) = env::var_os(FOLDER) else {
        let folder = tempfile::tempdir().unwrap();
        let limited = "trap '' XFSZ; ulimit -f 512; exec \"$0\" --exact is_final --nocapture";
        let mut command = Command::new("sh");
        command.args(["-c", limited]).arg(env::current_exe().unwrap());
        assert!(command.env(FOLDER, folder.path()).status().unwrap().success());
        return;
    };
    let db = Database::open(std::path::Path::new(&folder).join("app.db")).unwrap();
    db.transact(|tx| tx.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v)", ())).unwrap();
    // Fits into the page cache, so nothing is written before the commit.
    let large = db.transact(|tx| tx.execute("INSERT INTO t VALUES (1, zeroblob(1000000))", ()));
    assert!(matches!(large, Err(Failure::Unknown(_))), "{large:?}");
    let after = db.transact(|tx| tx.execute("INSERT INTO t VALUES (2, 'v')", ()));
    assert!(matches!(after, Err(Failure::NotRun(NotRun::Failed(_)))), "{after:?}");
}
