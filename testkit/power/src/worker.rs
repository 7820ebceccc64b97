//! The process that has the database open in a case, told what to do line by line: one that a disk
//! that fails may end or hang.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::{
    case::{Case, Told},
    companion::{Companion, answer_all},
    subject::{Engine, Subject, for_engine},
};

/// The worker's end: answers each line of standard input with one.
pub(crate) fn serve(engine: Engine) -> Result<()> {
    std::panic::set_hook(Box::new(|_| {})); // transactions panic on purpose
    for_engine!(engine, serve_cases())
}

fn serve_cases<S: Subject>() -> Result<()> {
    let mut case = None;
    answer_all(|line| answer::<S>(&mut case, line))
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
        "well" => case.expect_refusal_or_service(serde_json::from_str(argument)?),
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
pub(crate) struct Worker(Companion);

impl Worker {
    pub(crate) fn start(engine: Engine) -> Result<Self> {
        Ok(Self(Companion::start(&["worker", "--engine", engine.as_str()])?))
    }

    /// Says `line`, and waits for the answer.
    pub(crate) fn ask(&mut self, line: &str) -> Result<String> {
        self.0.ask(line)
    }

    /// What the case came to.
    pub(crate) fn told(&mut self) -> Result<Told> {
        Ok(serde_json::from_str(&self.0.ask("tell")?)?)
    }
}
