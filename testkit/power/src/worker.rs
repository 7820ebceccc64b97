//! The process that has the database open in a case, told what to do line by line.
//!
//! The harness serves the disk and so must not use it: a page fault on it would wait for a thread
//! of the process that holds the lock which the fault needs.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::{
    faults::Case,
    subject::{Engine, Sqlite, Subject},
};

/// How long an answer may take: nothing waits for ever, whatever the disk does.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);

/// What a case came to, as the worker tells it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Told {
    /// Outcomes in words.
    pub(crate) outcomes: Vec<String>,
    /// It committed again without being opened again.
    pub(crate) went_on: bool,
    /// What did not come out as expected, each a sentence.
    pub(crate) wrong: Vec<String>,
}

/// The worker's end: answers each line of standard input with one.
pub(crate) fn serve(engine: Engine) -> Result<()> {
    std::panic::set_hook(Box::new(|_| {})); // transactions panic on purpose
    ensure!(engine == Engine::Sqlite, "no faults are made for {}", engine.as_str());
    answer_all::<Sqlite>()
}

fn answer_all<S: Subject>() -> Result<()> {
    let mut case = None;
    for line in std::io::stdin().lines() {
        let said = match answer::<S>(&mut case, &line?) {
            Ok(said) => format!("ok {said}"),
            Err(error) => format!("error {error:#}").replace('\n', " "),
        };
        println!("{said}");
    }
    Ok(())
}

fn answer<S: Subject>(slot: &mut Option<Case<S>>, line: &str) -> Result<String> {
    let (command, argument) = line.split_once(' ').unwrap_or((line, ""));
    if command == "begin" {
        *slot = Some(Case::begin(Path::new(argument))?);
        return Ok(String::new());
    }
    let case = slot.as_mut().context("no case was begun")?;
    match command {
        "work" => case.work(),
        "well" => case.expect_refusal_or_service(true),
        "open" => case.open_again(Path::new(argument))?,
        "judge" => case.judge()?,
        "service" => case.expect_service(),
        "close" => case.close(),
        "tell" => return Ok(serde_json::to_string(&case.told())?),
        _ => bail!("there is no `{command}`"),
    }
    Ok(String::new())
}

/// The harness's end.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Worker {
    pub(crate) fn start(engine: Engine) -> Result<Self> {
        let own = std::env::current_exe().context("where is this program?")?;
        let mut child = Command::new(own)
            .args(["worker", "--engine", engine.as_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start a worker")?;
        let input = child.stdin.take().context("no pipe")?;
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
        writeln!(self.input, "{line}").context("the worker has ended")?;
        let Ok(said) = self.answers.recv_timeout(ANSWER_LIMIT) else {
            bail!("the worker ended or hung at `{line}`");
        };
        ensure!(said.starts_with("ok"), "at `{line}`: {said}");
        Ok(said.strip_prefix("ok ").unwrap_or_default().to_owned())
    }

    /// What the case came to.
    pub(crate) fn told(&mut self) -> Result<Told> {
        Ok(serde_json::from_str(&self.ask("tell")?)?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}
