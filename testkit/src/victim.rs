//! A process that a test starts and kills: another test of the same program, run in a process of its own.
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test that cannot go on has failed"
)]

use std::{
    env,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

const PATH: &str = "GROUPCOMMIT_TEST_DATABASE";
const READY: &str = "ready to be killed";

/// A process that has a database open and can be killed.
#[derive(Debug)]
pub struct Victim(Child);

impl Victim {
    /// Runs the test of this name again, in a process of its own that finds [`path`](Self::path), until it
    /// [parks](Self::park).
    #[must_use]
    pub fn start(path: &Path, test: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(PATH, path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains(READY)), "the process ended early");
        Self(child)
    }

    /// The database that this process is to leave behind when it is killed; `None` in the test that kills it.
    #[must_use]
    pub fn path() -> Option<PathBuf> {
        env::var_os(PATH).map(PathBuf::from)
    }

    /// Says that this process can be killed, and waits for it.
    pub fn park() -> ! {
        println!("{READY}");
        loop {
            std::thread::park();
        }
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
