//! A log that cannot be written: RocksDB may go on once there is room again, a pipeline may not.

use std::{env, path::PathBuf, process::Command};

use groupcommit_rocksdb::{Database, Failure, NotRun};
use nix::sys::{
    resource::{Resource, getrlimit, setrlimit},
    signal::{SigHandler, Signal, signal},
};

const PATH: &str = "GROUPCOMMIT_TEST_DATABASE";
const FILE_BYTES_MAX: u64 = 256 << 10;

/// Limits what its process may write, so it needs one of its own.
fn fail_to_write(path: PathBuf) {
    let db = Database::open(path).unwrap();
    let (soft, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    #[expect(unsafe_code, reason = "a signal is ignored, no handler runs")]
    // SAFETY: no handler is installed.
    unsafe {
        signal(Signal::SIGXFSZ, SigHandler::SigIgn).unwrap();
    }
    setrlimit(Resource::RLIMIT_FSIZE, FILE_BYTES_MAX, hard).unwrap();
    let mut acknowledged = 0_u64;
    let failure = loop {
        let key = acknowledged.to_be_bytes();
        match db.transact(move |tx| tx.put(key, vec![7; 10_000])) {
            Ok(()) => acknowledged += 1,
            Err(failure) => break failure,
        }
    };
    assert!(matches!(failure, Failure::Unknown(_)), "{failure}");
    setrlimit(Resource::RLIMIT_FSIZE, soft, hard).unwrap();
    // There is room again, whatever RocksDB makes of it.
    let after = db.transact(|tx| tx.put("after", "v")).unwrap_err();
    assert!(matches!(after, Failure::NotRun(NotRun::Failed(_))), "{after}");
    let flushed = db.read_durable(|snapshot| snapshot.get("after")).unwrap_err();
    assert!(matches!(flushed, Failure::NotRun(NotRun::Failed(_)) | Failure::Unknown(_)));
    db.close().unwrap_err();
    println!("acknowledged {acknowledged}");
}

#[test]
fn a_log_that_could_not_be_written_is_final_until_it_is_opened_again() {
    if let Some(path) = env::var_os(PATH) {
        return fail_to_write(path.into());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let name = "log_failure::a_log_that_could_not_be_written_is_final_until_it_is_opened_again";
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(PATH, &path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let (_, count) = text.split_once("acknowledged ").unwrap();
    let acknowledged: u64 = count.split_whitespace().next().unwrap().parse().unwrap();
    assert!(acknowledged > 0);
    let db = Database::open(&path).unwrap();
    for row in 0..acknowledged {
        assert!(crate::value(&db, row.to_be_bytes()).is_some(), "{row}");
    }
    db.transact(|tx| tx.put("after", "v")).unwrap();
}
