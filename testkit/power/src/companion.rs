//! A process of this program that serves another, told what to do line by line.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

/// How long an answer may take: nothing waits for ever, whatever the disk does.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);

/// The end of the process that says what is to be done.
#[derive(Debug)]
pub(crate) struct Companion {
    child: Child,
    /// `None` once it was told to end.
    input: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Companion {
    /// Starts this program with `arguments`, in a process group of its own: who interrupts this
    /// process does not interrupt it, and it learns by the end of its input that it is to end.
    pub(crate) fn start(arguments: &[&str]) -> Result<Self> {
        let own = std::env::current_exe().context("where is this program?")?;
        let mut command = Command::new(own);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        if !is_verbose() {
            command.stderr(Stdio::null());
        }
        let mut child = command.spawn().with_context(|| format!("cannot start {arguments:?}"))?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("no pipe")?);
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, input, answers })
    }

    /// Says `line`, and waits for the answer.
    pub(crate) fn ask(&mut self, line: &str) -> Result<String> {
        let input = self.input.as_mut().context("it was told to end")?;
        writeln!(input, "{line}").with_context(|| format!("it has ended before `{line}`"))?;
        let Ok(said) = self.answers.recv_timeout(ANSWER_LIMIT) else {
            bail!("it ended or hung at `{line}`");
        };
        ensure!(said.starts_with("ok"), "at `{line}`: {said}");
        Ok(said.strip_prefix("ok ").unwrap_or_default().to_owned())
    }

    /// Tells it to end, and waits for that.
    pub(crate) fn end(&mut self) {
        self.input = None;
        let _gone = self.child.wait();
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// Whether the processes of the harness say on standard error what they meet.
pub(crate) fn is_verbose() -> bool {
    std::env::var_os("GROUPCOMMIT_POWER_VERBOSE").is_some()
}

/// The other end: answers each line of standard input with one, until there is no more.
pub(crate) fn answer_all(mut answer: impl FnMut(&str) -> Result<String>) -> Result<()> {
    for line in std::io::stdin().lines() {
        let said = match answer(&line?) {
            Ok(said) => format!("ok {said}"),
            Err(error) => format!("error {error:#}").replace('\n', " "),
        };
        println!("{said}");
    }
    Ok(())
}
