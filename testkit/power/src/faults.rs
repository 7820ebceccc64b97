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
use serde::Serialize;

use crate::{
    case::{Expected, Told},
    disk::{Disk, Fault, Kind, Operation, Survivors},
    full, medium,
    powercut::folder,
    row::Row,
    subject::{Engine, Subject, for_engine},
    sweep,
    worker::Worker,
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

/// A sort of fault.
#[derive(Debug, Clone, Copy)]
struct Sort {
    /// How the names of the files end, and what they are.
    file: (&'static str, &'static str),
    operation: Operation,
    kind: Kind,
    lasts: bool,
}

/// Places after which no further is tried, were each of them reached.
const PLACES_MAX: u64 = 2_000;

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
