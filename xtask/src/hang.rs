//! Tests under a limit of time: one that hangs ends the run, and is named.
//!
//! The test harness names each test that runs for over a minute. A run that has such a test and then
//! prints nothing for [`SILENCE_MAX`] hangs.

use std::{
    io::{self, Read as _},
    os::unix::process::CommandExt as _,
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

/// How long tests may print nothing once one of them is known to be slow.
pub(crate) const SILENCE_MAX: Duration = Duration::from_mins(10);

/// What the test harness says behind the name of a slow test.
const SLOW: &str = " has been running for over";

/// Runs tests, and shows what they print.
///
/// # Errors
///
/// When they fail, or hang: then all their processes are killed.
pub(crate) fn run(tests: &mut Command, silence_max: Duration) -> Result<()> {
    let status = status(tests, silence_max, &mut io::stdout())?;
    ensure!(status.success(), "the tests failed ({status})");
    Ok(())
}

/// Runs tests, shows what they print in `shown`, and says how they ended.
///
/// # Errors
///
/// When they hang: then all their processes are killed.
pub(crate) fn status(
    tests: &mut Command,
    silence_max: Duration,
    shown: &mut dyn io::Write,
) -> Result<ExitStatus> {
    let mut child = tests
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {tests:?}"))?;
    let mut output = child.stdout.take().context("the tests have no output")?;
    let (sender, printed) = mpsc::channel();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = output.read(&mut buffer) {
            if sender.send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    let (mut line, mut slow) = (String::new(), Vec::new());
    loop {
        match printed.recv_timeout(silence_max) {
            Ok(bytes) => {
                shown.write_all(&bytes).and_then(|()| shown.flush())?;
                line.push_str(&String::from_utf8_lossy(&bytes));
                while let Some(end) = line.find('\n') {
                    note(&line[..end], &mut slow);
                    line.drain(..=end);
                }
            }
            Err(RecvTimeoutError::Timeout) if slow.is_empty() => {}
            Err(RecvTimeoutError::Timeout) => {
                killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL)?;
                child.wait()?;
                bail!(
                    "nothing happens for {silence_max:?}; one of these hangs: {}",
                    slow.join(", ")
                );
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(child.wait()?)
}

/// Keeps the names of slow tests of the test program that runs.
fn note(line: &str, slow: &mut Vec<String>) {
    if line.starts_with("running ") {
        slow.clear();
    } else if let Some((before, _)) = line.split_once(SLOW) {
        slow.push(before.rsplit(' ').next().unwrap_or(before).to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_test_that_hangs_is_named_and_its_processes_end() {
        let script =
            "echo running 2 tests; echo '.test a::b has been running for over 60 seconds'; cat";
        let mut tests = shell(script);
        tests.stdin(Stdio::piped()); // nobody writes: `cat` waits for ever
        let error = run(&mut tests, Duration::from_millis(200)).unwrap_err();
        assert!(error.to_string().contains("one of these hangs: a::b"), "{error}");
    }

    #[test]
    fn silence_alone_is_no_hang_and_failure_is_told() {
        run(shell("read line; exit 0").stdin(Stdio::null()), Duration::from_millis(1)).unwrap();
        run(&mut shell("exit 1"), Duration::from_millis(1)).unwrap_err();
    }
}
