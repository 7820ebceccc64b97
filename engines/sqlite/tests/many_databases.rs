//! A thousand open databases: the threads of the whole process, and its time on the processor while
//! nothing happens. A test binary of its own, since it counts those of the process.
#![expect(clippy::unwrap_used, reason = "a test ends where anything fails")]

use std::{fs, time::Duration};

use groupcommit_sqlite::Database;
use nix::sys::{
    resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit},
    time::TimeValLike,
};

const DATABASES: usize = 1_000;

/// Threads that a process may have: ours, the test's and the test harness's own.
const THREADS_MAX: usize = 16;

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// Processor time of this process so far, in milliseconds.
fn processor_ms() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    usage.user_time().num_milliseconds() + usage.system_time().num_milliseconds()
}

#[test]
fn share_a_few_threads_and_rest_while_idle() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    // The database, its log (once for SQLite, once to flush it) and its shared memory.
    let needed = 4 * DATABASES as u64 + 200;
    if hard < needed {
        eprintln!("skipped: only {hard} files may be open here, {needed} are needed");
        return;
    }
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let databases: Vec<Database> = (0..DATABASES)
        .map(|number| Database::open(folder.path().join(format!("{number}.db"))).unwrap())
        .collect();
    let tickets: Vec<_> =
        databases.iter().map(|db| db.submit(|tx| tx.execute("CREATE TABLE t (x)", ()))).collect();
    let mut threads_max = threads();
    for ticket in tickets {
        ticket.wait().unwrap();
        threads_max = threads_max.max(threads());
    }
    assert!(threads_max <= THREADS_MAX, "{threads_max} threads");

    // Nothing is to happen now, so there is nothing to wait for but time.
    let before_ms = processor_ms();
    std::thread::sleep(Duration::from_secs(1));
    let used_ms = processor_ms() - before_ms;
    assert!(used_ms <= 10, "{used_ms} ms of processor time while idle");
    databases.iter().for_each(|db| db.close().unwrap());
}
