//! `kill -9` at random moments: nothing that was acknowledged is lost, and nothing is there behind
//! a gap.
//!
//! The test runs its own program again as the process to be killed, which says on its standard error
//! what was acknowledged. `GROUPCOMMIT_KILLS` sets the number of kills (3 unless told),
//! `GROUPCOMMIT_KILL_SEED` repeats a run. A kill leaves the page cache, so this finds lost writes
//! and broken recovery, and cannot find a missing flush.

use std::{
    collections::VecDeque,
    env,
    hash::{BuildHasher as _, RandomState},
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
};

use groupcommit_core::Submit as _;

use super::{Subject, keys, put_number, submit};

/// Tells the program that it is the one to be killed, and where its database is.
const CHILD: &str = "GROUPCOMMIT_CONFORMANCE_CHILD";

/// Tickets that the process to be killed keeps outstanding.
const IN_FLIGHT: usize = 200;

/// Kills a process that writes, again and again on the same database; `test` is the full name of
/// the test that calls this, with its module.
pub fn a_killed_process_loses_nothing_acknowledged<S: Subject>(test: &str) {
    if let Some(path) = env::var_os(CHILD) {
        write_until_killed::<S>(Path::new(&path));
    }
    // The name as the test runner knows it has no crate in front.
    let test = test.split_once("::").map_or(test, |(_, name)| name);
    let kills: u64 = setting("GROUPCOMMIT_KILLS", 3);
    let seed: u64 = setting("GROUPCOMMIT_KILL_SEED", RandomState::new().hash_one(0));
    println!("GROUPCOMMIT_KILL_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.db");
    // Created here, so that whatever serves it outlives those who are killed.
    S::open(&path).close_any().unwrap();
    let mut there = 0;
    for kill in 0..kills {
        let lines = 1 + seed.rotate_left(u32::try_from(8 * (kill % 8)).unwrap()) % 2_000;
        let acknowledged = kill_after(test, &path, lines);
        let db = S::open(&path);
        let found = keys::<S>(&db);
        assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>(), "there is a gap");
        assert!(
            found.len() as u64 > acknowledged,
            "{acknowledged} was acknowledged, and there are {} rows from 0 on",
            found.len()
        );
        assert!(found.len() > there, "nothing was written");
        there = found.len();
        db.close_any().unwrap();
    }
}

fn setting(name: &str, otherwise: u64) -> u64 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")),
        Err(_) => otherwise,
    }
}

/// Runs the process, kills it once it has acknowledged `lines` transactions, and returns the last
/// one that it had acknowledged by then.
fn kill_after(test: &str, path: &Path, lines: u64) -> u64 {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let (mut last, mut read, mut line) = (None, 0, String::new());
    let mut others = String::new();
    loop {
        line.clear();
        if said.read_line(&mut line).unwrap() == 0 {
            break;
        }
        // The last line may have been cut off by the kill.
        match line.strip_prefix("durable ").and_then(|rest| rest.strip_suffix('\n')) {
            Some(key) => last = Some(key.parse().unwrap()),
            None => others += &line,
        }
        read += 1;
        if read == lines {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    last.unwrap_or_else(|| panic!("the process acknowledged nothing; it said: {others}"))
}

/// Writes the keys 0, 1, 2, ... from where the database ends.
fn write_until_killed<S: Subject>(path: &Path) -> ! {
    let db = S::open(path);
    let mut outstanding = VecDeque::new();
    let mut error = std::io::stderr();
    for key in keys::<S>(&db).len() as u64.. {
        outstanding
            .push_back((key, submit::<S, _, _>(&db, move |tx| put_number::<S>(tx, key, key))));
        if outstanding.len() == IN_FLIGHT {
            let (key, ticket) = outstanding.pop_front().unwrap();
            ticket.wait().unwrap();
            if writeln!(error, "durable {key}").is_err() {
                break; // nobody listens any more
            }
        }
    }
    std::process::exit(1)
}
