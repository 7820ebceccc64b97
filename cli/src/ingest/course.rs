//! The course of one ingest: from the first record that is read to the summary.
//!
//! 1. It is the same for every kind of database; what differs is a [`Destination`].
//! 2. What is said to be durable is what the destination reached: records whose tickets resolved to
//!    success.

use std::io;
use std::time::Instant;

use groupcommit::Stats;

use crate::exit::{Exit, Problem};
use crate::ingest::begin::Beginning;
use crate::ingest::interrupt;
use crate::ingest::job::{Job, Shape};
use crate::ingest::ledger::{Entry, Reject};
use crate::ingest::measure::Measure;
use crate::ingest::options::Options;
use crate::ingest::progress::Progress;
use crate::ingest::record::{Next, Record};
use crate::ingest::rejects::RejectsFile;
use crate::ingest::stream::Stream;
use crate::ingest::summary::{Outcome, Summary};

/// How often, in records, the clock is looked at for progress.
const TICK_RECORDS: u64 = 256;

/// Rejections told one by one where no file collects them.
const REJECTIONS_TOLD: u64 = 5;

/// Where records go: submitted in order, settled in order, each its own durable transaction.
pub(crate) trait Destination {
    /// How far it came.
    fn reached(&self) -> &Reached;

    /// The same, to be changed.
    fn reached_mut(&mut self) -> &mut Reached;

    /// What makes its flushes promise less than they should.
    fn warnings(&self) -> Vec<String>;

    /// The database's own counters.
    fn stats(&self) -> Stats;

    /// What is to be done for a record that was read.
    fn job(&self, stream: &Stream, record: &Record, shape: &Shape) -> Job {
        Job::new(stream.number, stream.checksum(), record, shape)
    }

    /// Submits a record, first settling what is resolved, and waiting while too much is in flight.
    fn take(&mut self, job: Job, progress: &Progress) -> Result<(), Problem>;

    /// Whether the first record in flight is resolved.
    fn has_resolved(&self) -> bool;

    /// Waits for the first record in flight, and settles it.
    fn settle_first(&mut self, progress: &Progress) -> Result<(), Problem>;

    /// Settles every record whose ticket is resolved, without waiting.
    fn settle_resolved(&mut self, progress: &Progress) -> Result<(), Problem> {
        while self.has_resolved() {
            self.settle_first(progress)?;
        }
        Ok(())
    }

    /// Waits until every record is settled.
    fn drain(&mut self, progress: &Progress) -> Result<(), Problem>;

    /// Waits for the end of whatever is in flight behind a stop, and settles none of it.
    fn abandon(&mut self);

    /// Notes durably that the end of the input was reached, as it `already` may have been.
    fn finish(&mut self, already: bool) -> Result<(), Problem>;

    /// Closes the database.
    fn close(&mut self) -> Result<(), Problem>;
}

/// How far an ingest came, and what this run did for it.
pub(crate) struct Reached {
    /// The last record decided and durable.
    pub(crate) position: u64,
    /// The line on which it begins.
    pub(crate) line: u64,
    /// Records committed by this run.
    pub(crate) committed: u64,
    /// Records rejected by this run.
    pub(crate) rejected: u64,
    rejects: Option<RejectsFile>,
}

impl Reached {
    /// Nothing yet, behind what earlier runs did.
    pub(crate) fn behind(entry: &Entry, rejects: Option<RejectsFile>) -> Self {
        Self { position: entry.position, line: entry.line, committed: 0, rejected: 0, rejects }
    }

    /// The record is decided and durable.
    pub(crate) fn move_to(&mut self, record: u64, line: u64) {
        (self.position, self.line) = (record, line);
    }

    /// Counts a rejected record, and has it in the file, or says so.
    pub(crate) fn reject(&mut self, reject: &Reject, progress: &Progress) -> Result<(), Problem> {
        self.rejected += 1;
        if let Some(file) = &mut self.rejects {
            return file.add(reject);
        }
        if self.rejected <= REJECTIONS_TOLD {
            let Reject { record, line, reason, .. } = reject;
            progress.note(&format!("record {record} (line {line}) rejected: {reason}"));
        } else if self.rejected == REJECTIONS_TOLD + 1 {
            progress.note("more records are rejected; --rejects FILE lists all, so does the table _groupcommit_rejects");
        }
        Ok(())
    }

    /// Records decided by this run.
    pub(crate) fn records(&self) -> u64 {
        self.committed + self.rejected
    }

    /// What is durable, as part of a sentence.
    pub(crate) fn durable(&self) -> String {
        if self.position == 0 {
            "no record is durable yet".to_owned()
        } else {
            format!("every record through number {} (line {}) is durable", self.position, self.line)
        }
    }
}

/// Why reading ended.
enum End {
    /// The input was read to its end.
    Input,
    /// A signal asked for a stop.
    Signal,
    /// The input cannot be read further.
    Unreadable(io::Error),
}

/// Ingests what `stream` still has, prints the summary, and closes the database.
///
/// # Errors
/// A [`Problem`] with its exit code and sentence.
pub(crate) fn run(
    options: &Options,
    stream: &mut Stream,
    mut destination: impl Destination,
    beginning: Beginning,
) -> Result<Exit, Problem> {
    let Beginning { target, entry, resumed, shape, note } = beginning;
    let begun = Instant::now();
    let mut progress = Progress::begin(options.quiet, stream.size_bytes, stream.read_bytes.clone());
    let warnings = destination.warnings();
    warnings.iter().for_each(|warning| progress.note(&format!("warning: {warning}")));
    if let Some(note) = note {
        progress.note(&note);
    }
    let fed = feed(stream, &shape, &mut destination, &mut progress)
        .and_then(|end| destination.drain(&progress).map(|()| end));
    destination.abandon();
    let is_complete = matches!(fed, Ok(End::Input));
    let durable = destination.reached().durable();
    let mut problem = match fed {
        Ok(End::Input) => destination.finish(entry.finished).err(),
        Ok(End::Signal) => Some(Problem::interrupted(format!(
            "interrupted: {durable}, nothing behind it was ingested; the same command with --resume continues"
        ))),
        Ok(End::Unreadable(error)) => Some(Problem::environment(format!(
            "cannot read {} behind record {} ({error}): {durable}; check that the file is whole, then use --resume",
            stream.name, stream.number,
        ))),
        Err(stop) => Some(stop),
    };
    let reached = destination.reached_mut();
    if let Some(rejects) = reached.rejects.take() {
        problem = problem.or(rejects.finish().err());
    }
    let outcome = match problem.as_ref().map(|problem| problem.exit) {
        None | Some(Exit::Durable | Exit::Rejected) => Outcome::Complete,
        Some(Exit::Interrupted) => Outcome::Interrupted,
        Some(Exit::Environment) => Outcome::Stopped,
        Some(Exit::Unknown) => Outcome::Unknown,
    };
    let seconds = begun.elapsed().as_secs_f64();
    progress.end();
    let measure = Measure::of(&destination.stats());
    let reached = destination.reached();
    let records = reached.records();
    let summary = Summary {
        target,
        source: stream.name.clone(),
        outcome,
        durable: outcome != Outcome::Unknown && warnings.is_empty(),
        records,
        committed: reached.committed,
        rejected: reached.rejected,
        resumed_from: resumed.then_some(entry.position),
        position: reached.position,
        line: reached.line,
        rejected_in_all: entry.rejected + reached.rejected,
        seconds,
        records_per_second: records as f64 / seconds.max(1e-9),
        latency_ms: measure.latency_ms.filter(|_| records > 0),
        group_transactions_mean: measure.group_transactions_mean,
        flushes: measure.flushes,
        problem: problem.as_ref().map(ToString::to_string),
    };
    summary.print(options.json)?;
    if entry.finished && records == 0 && is_complete {
        progress.note(&format!("the ingest was finished already, nothing is new: {durable}"));
    }
    let closed = destination.close();
    match problem {
        Some(problem) => Err(problem),
        None => closed.map(|()| summary.exit()),
    }
}

/// Reads records and submits them until the input ends or something stops it.
fn feed(
    stream: &mut Stream,
    shape: &Shape,
    destination: &mut impl Destination,
    progress: &mut Progress,
) -> Result<End, Problem> {
    let mut record = Record::default();
    loop {
        if interrupt::requested() {
            return Ok(End::Signal);
        }
        let next = match stream.next(&mut record) {
            Ok(next) => next,
            Err(error) => return Ok(End::Unreadable(error)),
        };
        match next {
            Next::Record => {
                destination.take(destination.job(stream, &record, shape), progress)?;
            }
            Next::Idle => destination.settle_resolved(progress)?,
            Next::End => return Ok(End::Input),
        }
        if next == Next::Idle || stream.number.is_multiple_of(TICK_RECORDS) {
            let (done, rejected) =
                (destination.reached().records(), destination.reached().rejected);
            if progress.tick(|| destination.stats(), done, rejected)
                && let Some(rejects) = &mut destination.reached_mut().rejects
            {
                rejects.flush()?;
            }
        }
    }
}
