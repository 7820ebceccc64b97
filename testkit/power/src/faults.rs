//! Failing disks: one fault at every place where it can happen, and what became of every ticket.
//!
//! A case opens a database, makes the disk fail at the n-th operation of a sort, submits some
//! groups with checkpoints between them, opens the database again and cuts the power. Expected:
//!
//! 1. What was acknowledged is there; what was said to have had no effect is not; nothing is there
//!    in part. What is unknown may be there or not.
//! 2. After an unknown outcome the database refuses everything until it is opened again.
//! 3. Without one it goes on, at the latest when the disk is well again; only after an input or output
//!    error it may refuse too, since pages may be lost that only the log still has, and after one of
//!    a flush it must.
//! 4. Opening it again always leads back to service.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use groupcommit_core::Outcome;
use serde::{Deserialize, Serialize};

use crate::{
    disk::{Disk, Fault, Kind, Operation, Survivors},
    full, medium,
    plan::Planned,
    powercut::folder,
    record::Record,
    subject::{Came, Engine, Failing, Subject, for_engine},
    sweep,
    verify::{self, Promised},
    worker::{Told, Worker},
};

/// Options of `faults`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Try every this many places of a fault
    #[arg(long, value_name = "N", default_value_t = 1)]
    stride: u64,

    /// The engine under test
    #[arg(long, value_enum, default_value_t = Engine::Sqlite)]
    engine: Engine,

    /// The folder for images and mounts [default: /dev/shm, else the temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Write the record as JSON to this file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// What all cases came to.
#[derive(Debug, Clone, Serialize)]
struct Report {
    engine: &'static str,
    stride: u64,
    rows: Vec<Row>,
    seconds: f64,
}

/// One sort of fault, at every place where it can happen.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) cases: u64,
    pub(crate) committed: u64,
    pub(crate) rejected: u64,
    pub(crate) not_run: u64,
    pub(crate) unknown: u64,
    pub(crate) refused_afterwards: u64,
    pub(crate) went_on: u64,
    pub(crate) violations: u64,
}

/// A sort of fault.
#[derive(Debug, Clone, Copy)]
struct Sort {
    /// How the names of the files end, and what they are.
    file: (&'static str, &'static str),
    operation: Operation,
    kind: Kind,
    lasts: bool,
}

/// What the database is to do once the disk is well again, where no outcome is unknown: where one is, it
/// must refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Expected {
    /// To go on.
    Service,
    /// To refuse until it is opened again.
    Refusal,
    Either,
}

/// Places after which no further is tried, were each of them reached.
const PLACES_MAX: u64 = 2_000;

/// Rounds of submissions in a case, with how many each.
const ROUNDS: u64 = 6;
const EACH: u64 = 5;

pub(crate) fn run(options: &Options) -> Result<()> {
    if let Some(missing) = medium::missing() {
        println!("failing disks skipped; missing: {missing}");
        return Ok(());
    }
    sweep::sweep(&folder(options.dir.as_deref()));
    for_engine!(options.engine, run_all(options))
}

fn run_all<S: Subject>(options: &Options) -> Result<()> {
    let began = Instant::now();
    let parent = folder(options.dir.as_deref());
    let mut rows = Vec::new();
    for &file in S::FILES {
        for (operation, kind) in [
            (Operation::Write, Kind::InputOutput),
            (Operation::Flush, Kind::InputOutput),
            (Operation::Write, Kind::NoSpace),
            (Operation::Write, Kind::Short),
        ] {
            for lasts in [false, true] {
                let sort = Sort { file, operation, kind, lasts };
                let row = try_all::<S>(sort, &parent, options).with_context(|| sort.name())?;
                row.print();
                rows.push(row);
            }
        }
    }
    let row = full::sweep::<S>(&parent, options.stride).context("a full file system")?;
    row.print();
    rows.push(row);
    let violations: u64 = rows.iter().map(|row| row.violations).sum();
    let unreached: Vec<_> = rows.iter().filter(|row| row.cases == 0).map(|row| &row.what).collect();
    let report = Report {
        engine: options.engine.as_str(),
        stride: options.stride,
        rows: rows.clone(),
        seconds: began.elapsed().as_secs_f64(),
    };
    if let Some(path) = &options.record {
        fs::write(path, serde_json::to_string(&report)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    ensure!(unreached.is_empty(), "never reached: {unreached:?}");
    ensure!(violations == 0, "{violations} cases did not come out as expected");
    Ok(())
}

impl Row {
    fn print(&self) {
        println!(
            "{}: {} cases; {} committed, {} rejected, {} not run, {} unknown; {} refused afterwards, \
             {} went on; {} not as expected",
            self.what,
            self.cases,
            self.committed,
            self.rejected,
            self.not_run,
            self.unknown,
            self.refused_afterwards,
            self.went_on,
            self.violations,
        );
    }

    /// Takes in a case.
    pub(crate) fn count(&mut self, case: &Told) {
        self.cases += 1;
        let of = |outcome: Outcome| {
            case.outcomes.iter().filter(|known| **known == outcome.as_str()).count() as u64
        };
        self.committed += of(Outcome::Committed);
        self.rejected += of(Outcome::Rejected);
        self.not_run += of(Outcome::NotRun);
        self.unknown += of(Outcome::Unknown);
        self.refused_afterwards += u64::from(!case.went_on);
        self.went_on += u64::from(case.went_on);
        self.violations += u64::from(!case.wrong.is_empty());
        for wrong in &case.wrong {
            println!("{}: {wrong}", self.what);
        }
    }
}

impl Sort {
    fn name(self) -> String {
        let kind = match self.kind {
            Kind::InputOutput => "EIO at a",
            Kind::NoSpace => "ENOSPC at a",
            Kind::Short => "a short",
        };
        let operation = match self.operation {
            Operation::Write => "write",
            Operation::Flush => "flush",
        };
        let (_, file) = self.file;
        let lasts = if self.lasts { "from then on" } else { "once" };
        format!("{kind} {operation} of the {file}, {lasts}")
    }

    fn expected<S: Subject>(self) -> Expected {
        match (self.kind, self.operation) {
            // Pages may be lost, and a second flush would not say so.
            (Kind::InputOutput, Operation::Flush) => Expected::Refusal,
            (Kind::NoSpace | Kind::Short, _) if S::OUTLIVES_FULL_DISKS => Expected::Service,
            _ => Expected::Either,
        }
    }

    fn at(self, number: u64) -> Fault {
        let make = if self.lasts { Fault::lasting } else { Fault::once };
        make(self.file.0, self.operation, number, self.kind)
    }
}

/// Tries a fault at every place, until a place is beyond the last.
fn try_all<S: Subject>(sort: Sort, parent: &Path, options: &Options) -> Result<Row> {
    let mut row = Row { what: sort.name(), ..Row::default() };
    let mut beyond = 0;
    let mut number = 1;
    let mut worker = Worker::start(options.engine)?;
    // How groups fall varies, and with them how many operations there are: the first place that is
    // not reached may not be the last that is.
    while beyond < 3 && number < PLACES_MAX {
        let case = on_disk::<S>(sort, parent, number, &mut worker);
        match case.with_context(|| format!("place {number}"))? {
            Some(told) => row.count(&told),
            None => beyond += 1,
        }
        number += options.stride;
    }
    Ok(row)
}

/// One case on a disk of its own; `None` when the fault was not reached.
fn on_disk<S: Subject>(
    sort: Sort,
    parent: &Path,
    number: u64,
    worker: &mut Worker,
) -> Result<Option<Told>> {
    let folder = sweep::folder_in(parent)?;
    let mut disk = Disk::start()?;
    disk.mount(folder.path())?;
    let here = folder.path().display();
    worker.ask(&format!("begin {here}"))?;
    disk.inject(Some(sort.at(number)))?;
    worker.ask("work")?;
    let reached = disk.tell()?.faults > 0;
    disk.inject(None)?;
    let expected = if reached { sort.expected::<S>() } else { Expected::Service };
    worker.ask(&format!("well {}", serde_json::to_string(&expected)?))?;
    // Half of the cases are opened again while the page cache hides what never became durable.
    if number.is_multiple_of(2) {
        worker.ask(&format!("open {here}"))?;
        worker.ask("service")?;
    }
    disk.cut()?;
    worker.ask("close")?;
    disk.unmount()?;
    disk.restore_power(Survivors::None, number)?;
    disk.mount(folder.path())?;
    worker.ask(&format!("open {here}"))?;
    worker.ask("judge")?;
    worker.ask("service")?;
    worker.ask("close")?;
    disk.unmount()?;
    let told = worker.told()?;
    Ok(reached.then_some(told))
}

/// One case under way.
pub(crate) struct Case<S> {
    subject: Option<S>,
    next: u64,
    outcomes: Vec<Outcome>,
    promised: Promised,
    went_on: bool,
    /// What did not come out as expected, each a sentence.
    wrong: Vec<String>,
}

impl<S: Subject> Case<S> {
    /// Opens a new database in `folder`, with some transactions in it.
    pub(crate) fn begin(folder: &Path) -> Result<Self> {
        let mut case = Self {
            subject: Some(S::open(folder)?),
            next: 1,
            outcomes: Vec::new(),
            promised: Promised::default(),
            went_on: false,
            wrong: Vec::new(),
        };
        for _ in 0..4 {
            ensure!(case.transact() == Some(Outcome::Committed), "it fails without a fault");
        }
        case.outcomes.clear();
        Ok(case)
    }

    /// What it came to so far.
    pub(crate) fn told(&self) -> Told {
        let outcomes = self.outcomes.iter().map(|outcome| outcome.as_str().to_owned()).collect();
        Told { outcomes, went_on: self.went_on, wrong: self.wrong.clone() }
    }

    fn plan(&mut self, bytes: u32) -> Planned {
        self.next += 1;
        Planned { number: self.next - 1, items: 2, bytes }
    }

    fn came(&mut self, number: u64, came: &Came) {
        self.outcomes.push(came.outcome);
        self.promised.take_in(&[match came.outcome {
            Outcome::Committed => Record::Acknowledged(number),
            Outcome::Rejected | Outcome::NotRun => Record::WithoutEffect(number),
            Outcome::Unknown => Record::Unknown(number),
        }]);
    }

    fn transact(&mut self) -> Option<Outcome> {
        let planned = self.plan(300);
        let came = self.subject.as_ref()?.transact(planned);
        self.came(planned.number, &came);
        Some(came.outcome)
    }

    /// Submits groups with checkpoints between them, some large, some with a member that fails.
    pub(crate) fn work(&mut self) {
        let Some(subject) = self.subject.clone() else { return };
        let mut refuses = false;
        for round in 0..ROUNDS {
            let tickets: Vec<_> = (0..EACH)
                .map(|n| {
                    let planned = self.plan(if (round, n) == (2, 3) { 30_000 } else { 300 });
                    (planned.number, subject.submit(planned))
                })
                .collect();
            if round == 3 {
                let came = subject.submit_failing(Failing::Error)();
                if came.outcome == Outcome::Committed {
                    self.wrong.push("one that fails on purpose was committed".to_owned());
                }
            }
            let mut unknown = false;
            for (number, ticket) in tickets {
                let came = ticket();
                unknown |= came.outcome == Outcome::Unknown;
                if refuses && came.outcome != Outcome::NotRun {
                    let outcome = came.outcome.as_str();
                    self.wrong.push(format!("transaction {number} was {outcome} after an unknown"));
                }
                self.came(number, &came);
            }
            refuses |= unknown;
            if round % 2 == 1 {
                subject.tidy(round / 2 + 1);
            }
        }
    }

    /// The disk is well again: whoever has an unknown outcome behind it refuses, and whoever has not
    /// does what is expected.
    pub(crate) fn expect_refusal_or_service(&mut self, expected: Expected) {
        let unknown = self.outcomes.contains(&Outcome::Unknown);
        let expected = if unknown { Expected::Refusal } else { expected };
        match self.transact() {
            Some(Outcome::Committed) if expected != Expected::Refusal => self.went_on = true,
            Some(Outcome::NotRun) if expected != Expected::Service => {}
            Some(outcome) => self.wrong.push(format!(
                "{} after {} unknown outcome, once the disk was well again",
                outcome.as_str(),
                if unknown { "an" } else { "no" }
            )),
            None => {}
        }
    }

    pub(crate) fn expect_service(&mut self) {
        for _ in 0..2 {
            let outcome = self.transact();
            if outcome != Some(Outcome::Committed) {
                self.wrong.push(format!("{outcome:?} after it was opened again"));
            }
        }
    }

    pub(crate) fn open_again(&mut self, folder: &Path) -> Result<()> {
        self.close();
        let subject = S::open(folder).context("cannot open the database again")?;
        let last = subject.look()?.transactions.last().map_or(0, |planned| planned.number);
        self.next = last + 1;
        self.promised.take_in(&[Record::Opened(self.next)]);
        self.subject = Some(subject);
        Ok(())
    }

    /// Closes it; that fails where something has failed before.
    pub(crate) fn close(&mut self) {
        if let Some(subject) = self.subject.take() {
            let _reported_before = subject.close();
        }
    }

    /// What is there, against what was promised.
    pub(crate) fn judge(&mut self) -> Result<()> {
        let subject = self.subject.as_ref().context("it is closed")?;
        let violations = verify::judge(&subject.look()?, &self.promised);
        if !violations.is_none() {
            self.wrong.push(violations.to_string());
        }
        if let Err(error) = subject.check_integrity() {
            self.wrong.push(format!("{error:#}"));
        }
        Ok(())
    }
}
