//! Input and output errors without the rights of an administrator: a limit on the size of files
//! makes writes fail. It belongs to the process, so each of these tests runs in one of its own.

use std::{env, process::Command, time::Duration};

use groupcommit_sqlite::{
    Database, Error, Failure, NotRun,
    rusqlite::{self, Connection, ErrorCode, wal::CheckpointMode},
};
use nix::sys::{
    resource::{Resource, getrlimit, setrlimit},
    signal::{SigSet, Signal},
};

use crate::common::{Done, Scratch, code, ids, neighbour};

const ALONE: &str = "GROUPCOMMIT_TEST_ALONE";

/// Runs a test of this module in a process of its own.
fn alone(name: &str, test: fn()) {
    if env::var_os(ALONE).is_some() {
        return test();
    }
    let name = format!("io_errors::{name}");
    let ran = Command::new(env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

/// From now on no write passes so many bytes of a file.
fn limit_files(bytes: u64) {
    let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, bytes.min(hard), hard).unwrap();
}

/// Before any thread is there: a write beyond the limit is to fail, and not to end the process.
fn survive_the_limit() {
    SigSet::from(Signal::SIGXFSZ).thread_block().unwrap();
}

/// A transaction of many pages.
fn insert_large(db: &Database, id: i64) -> Result<usize, Failure<rusqlite::Error>> {
    db.transact(move |tx| tx.execute("INSERT INTO t VALUES (?1, zeroblob(400000))", [id]))
}

fn is_refused(db: &Database) -> bool {
    matches!(neighbour(db, 100).wait(), Err(Failure::NotRun(NotRun::Failed(_))))
        && matches!(db.exclusive(|_| Done::Ok(())), Err(Failure::NotRun(NotRun::Failed(_))))
}

#[test]
fn a_commit_that_failed_in_the_middle_is_unknown_and_final() {
    alone("a_commit_that_failed_in_the_middle_is_unknown_and_final", || {
        survive_the_limit();
        let test = Scratch::with_table();
        neighbour(&test.db, 1).wait().unwrap();
        limit_files(test.db.wal().bytes + 20_000);
        let unknown = insert_large(&test.db, 2);
        assert!(matches!(unknown, Err(Failure::Unknown(_))), "{unknown:?}");
        limit_files(u64::MAX);
        assert!(is_refused(&test.db));
        test.db.close().unwrap_err();
        let db = Database::open(&test.path).unwrap();
        neighbour(&db, 3).wait().unwrap();
        assert_eq!(test.ids(), [1, 3]);
    });
}

fn checkpoint(connection: &Connection) -> Done {
    connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE).map(drop)
}

/// Through the C interface, where no statement is prepared that would tell of it, and kept by the
/// closure to itself.
#[test]
fn a_failed_checkpoint_in_an_exclusive_is_final_also_behind_another_error() {
    alone("a_failed_checkpoint_in_an_exclusive_is_final_also_behind_another_error", || {
        survive_the_limit();
        let test = Scratch::with_table();
        insert_large(&test.db, 1).unwrap();
        // A transaction meets an error first, in a statement that fills more than the page cache.
        limit_files(test.db.wal().bytes + 20_000);
        let rejected =
            test.db.transact(|tx| tx.execute("INSERT INTO t VALUES (9, zeroblob(20000000))", ()));
        assert_eq!(code(rejected), ErrorCode::SystemIoFailure);
        limit_files(u64::MAX);
        insert_large(&test.db, 2).unwrap();
        let large = std::fs::metadata(&test.path).unwrap().len();
        limit_files(large + 20_000);
        let unknown = test.db.exclusive(|conn| {
            assert!(checkpoint(conn).is_err());
            Done::Ok(())
        });
        assert!(matches!(unknown, Err(Failure::Unknown(_))), "{unknown:?}");
        limit_files(u64::MAX);
        assert!(is_refused(&test.db));
        let at_once = Database::options().busy_timeout(Duration::ZERO);
        let refused = at_once.open(&test.path).unwrap_err();
        assert!(matches!(refused, Error::StillOpen(_)), "{refused}");
        test.db.close().unwrap_err();
        assert!(std::fs::metadata(test.wal_path()).unwrap().len() > 400_000, "it was emptied");
        let db = Database::open(&test.path).unwrap();
        neighbour(&db, 3).wait().unwrap();
        assert_eq!(ids(&test.plain()), [1, 2, 3]);
    });
}

/// Nothing more is written once a checkpoint between groups has failed, though there is room in the log.
#[test]
fn a_failed_checkpoint_between_exclusives_is_final() {
    alone("a_failed_checkpoint_between_exclusives_is_final", || {
        survive_the_limit();
        let test = Scratch::with_table();
        let fill = |first: i64| {
            let sql = "WITH RECURSIVE n (i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 + 89)
                       INSERT INTO t SELECT i, zeroblob(400000) FROM n";
            test.db.transact(move |tx| tx.execute(sql, [first])).unwrap()
        };
        // The first half is in the database. The second is in a log that is long enough to be checkpointed,
        // and goes to the database's end.
        fill(1);
        test.db.exclusive(checkpoint).unwrap();
        fill(91);
        assert!(test.db.wal().frames > 8_000);
        limit_files(test.db.wal().bytes + (16 << 20));
        // The first begins a checkpoint, which fails beside it or after it. One that finds the log locked,
        // because a commit ends at that moment, is begun again once the log is longer by a thousand pages.
        let mut more = 181..=210;
        while matches!(
            test.db.exclusive(|_| Done::Ok(())),
            Ok(()) | Err(Failure::NotRun(NotRun::Closed))
        ) {
            drop(insert_large(&test.db, more.next().expect("the checkpoint fails")));
        }
        limit_files(u64::MAX);
        assert!(is_refused(&test.db));
        test.db.close().unwrap_err();
        assert!(ids(&Connection::open(&test.path).unwrap()).len() >= 180);
    });
}
