//! `groupcommit ingest`: every record of an input its own durable transaction.
//!
//! ```text
//! input ──► record ──► job ──► pipeline ──► execute ──► ledger
//! bytes     lines      values  in flight    one         position and verdicts,
//!                                           transaction in the same transaction
//! ```
//!
//! 1. A record is decided exactly once: its row, or the verdict that it is rejected, is committed
//!    together with its position, across any number of interruptions.
//! 2. No value is stored altered; what a column cannot keep is a rejected record.
//! 3. The main thread reads, parses and submits; the database's own threads execute and flush.

mod begin;
mod csv;
mod execute;
#[cfg(test)]
mod fuzz;
mod infer;
mod input;
mod interrupt;
mod job;
#[cfg(feature = "keyed")]
mod keyed;
mod ledger;
mod measure;
mod options;
mod pipeline;
mod progress;
mod record;
mod rejects;
mod server;
mod stream;
mod summary;
mod table;
mod value;

use std::time::Instant;

use groupcommit::Failure;
use groupcommit::sqlite::{Database, Error};

pub(crate) use options::Options;

use crate::exit::{Exit, Problem, explain};
use begin::Beginning;
use job::Job;
use ledger::Entry;
use measure::Measure;
use pipeline::{Pipeline, Stop, durable_through};
use progress::Progress;
use record::{Next, Record};
use rejects::RejectsFile;
use stream::Stream;
use summary::{Outcome, Summary, counted};

/// How often, in records, the clock is looked at for progress.
const TICK_RECORDS: u64 = 256;

/// Verdicts read from the ledger at once.
const REJECTS_AT_ONCE: u32 = 1_000;

/// Runs the subcommand.
///
/// # Errors
/// A [`Problem`] with its exit code and sentence.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    if let Some((engine, path)) = options.keyed_target() {
        if !engine.is_built_in() {
            return Err(Problem::environment(format!(
                "this program was built without {}; build it with `cargo build --release --features {engine}`",
                engine.title()
            )));
        }
        #[cfg(feature = "keyed")]
        return keyed::run(options, engine, &path);
        #[cfg(not(feature = "keyed"))]
        return Err(Problem::environment(format!("cannot open {}", path.display())));
    }
    options.check_without_key()?;
    if let Some((engine, url)) = options.server_target() {
        if !engine.is_built_in() {
            return Err(Problem::environment(format!(
                "this program was built without {}; build it with `cargo build --release --features {engine}`",
                engine.title()
            )));
        }
        return server::run(options, engine, url);
    }
    let options = &options.with_sqlite_path()?;
    let layout = options.layout()?;
    interrupt::install()?;
    let mut stream = Stream::open(input::open(options)?, layout)?;
    let database = open_database(options)?;
    let beginning = begin::decide(options, layout, &mut stream, &database)?;
    skip(&mut stream, &beginning.target, &beginning.entry)?;
    let rejects = open_rejects(options, &database, beginning.entry.id)?;
    ingest(options, &mut stream, &database, beginning, rejects)
}

fn open_database(options: &Options) -> Result<Database, Problem> {
    let path = &options.database;
    Database::options()
        .create(true)
        .convert_to_wal(options.convert_to_wal)
        .busy_timeout(options.busy_timeout)
        .open(path)
        .map_err(|error| {
            let why = match &error {
                Error::RollbackJournal { .. } => {
                    "it is in rollback-journal mode; --convert-to-wal converts it to \
                    write-ahead logging, which every program that uses it will then see"
                        .to_owned()
                }
                error => explain(error),
            };
            Problem::environment(format!("cannot open the database {}: {why}", path.display()))
        })
}

/// Passes over the records that earlier runs decided, and proves that they are the same.
fn skip(stream: &mut Stream, target: &str, entry: &Entry) -> Result<(), Problem> {
    if entry.position == 0 {
        return Ok(());
    }
    let name = stream.name.clone();
    let other = |what: String| {
        Problem::environment(format!(
            "cannot continue the ingest of {} into {} with {}: {what}; give the same input, or leave --resume out \
             to ingest another",
            entry.source, target, name
        ))
    };
    let mut record = Record::default();
    let mut number = 0;
    while number < entry.position {
        if interrupt::requested() {
            return Err(Problem::interrupted(
                "interrupted while finding the place to continue: nothing has changed",
            ));
        }
        match stream.next(&mut record) {
            Ok(Next::Record) => number += 1,
            Ok(Next::Idle) => {}
            Ok(Next::End) => {
                return Err(other(format!(
                    "it has only {}, and {} are durable",
                    counted(number),
                    entry.position
                )));
            }
            Err(error) => {
                return Err(Problem::environment(format!(
                    "cannot read {} ({error}): check that the file is whole, then use --resume",
                    stream.name
                )));
            }
        }
    }
    if stream.checksum() == entry.checksum {
        Ok(())
    } else {
        Err(other(format!("its first {} are not the same", counted(number))))
    }
}

/// Opens the rejects file and fills it with the verdicts of earlier runs.
fn open_rejects(
    options: &Options,
    database: &Database,
    id: i64,
) -> Result<Option<RejectsFile>, Problem> {
    let Some(path) = &options.rejects else {
        return Ok(None);
    };
    let same = |other: &std::path::Path| matches!((path.canonicalize(), other.canonicalize()), (Ok(ours), Ok(theirs)) if ours == theirs);
    if same(&options.database) || options.input.as_deref().is_some_and(same) {
        return Err(Problem::environment(format!(
            "--rejects {} would overwrite the input or the database: choose another file",
            path.display()
        )));
    }
    let mut file = RejectsFile::create(path)?;
    let mut after = 0;
    loop {
        let batch = database
            .read(|connection| ledger::rejects(connection, id, after, REJECTS_AT_ONCE))
            .map_err(|failure| {
                Problem::environment(format!(
                    "cannot read the rejected records in {}: {}",
                    options.database.display(),
                    explain(&failure)
                ))
            })?;
        let Some(last) = batch.last() else {
            return Ok(Some(file));
        };
        after = last.record;
        for reject in &batch {
            file.add(reject)?;
        }
    }
}

fn ingest(
    options: &Options,
    stream: &mut Stream,
    database: &Database,
    beginning: Beginning,
    rejects: Option<RejectsFile>,
) -> Result<Exit, Problem> {
    let Beginning { target, entry, resumed, shape, plan, note } = beginning;
    let begun = Instant::now();
    let mut progress = Progress::begin(options.quiet, stream.size_bytes, stream.read_bytes.clone());
    for warning in database.warnings() {
        progress.note(&format!("warning: {warning}"));
    }
    if let Some(note) = note {
        progress.note(&note);
    }
    let start = (entry.position, entry.line);
    let mut pipeline = Pipeline::new(
        database.clone(),
        options.database.clone(),
        plan,
        options.in_flight,
        rejects,
        start,
    );
    let mut feeding = feed(stream, &shape, &mut pipeline, database, &mut progress)
        .and_then(|end| pipeline.drain(&progress).map(|()| end));
    let ended = pipeline.end();
    let complete = matches!(feeding, Ok(End::Input));
    if complete
        && let Err(stop) = finish(options, database, entry.id, pipeline.position, entry.finished)
    {
        feeding = Err(stop);
    }
    let seconds = begun.elapsed().as_secs_f64();
    progress.end();
    let (outcome, stopped) = judge(feeding, stream, &pipeline);
    let problem = stopped.or(ended.err());
    let measure = Measure::of(&database.stats());
    let records = pipeline.committed + pipeline.rejected;
    let summary = Summary {
        target,
        source: stream.name.clone(),
        outcome,
        durable: outcome != Outcome::Unknown && database.warnings().is_empty(),
        records,
        committed: pipeline.committed,
        rejected: pipeline.rejected,
        resumed_from: resumed.then_some(entry.position),
        position: pipeline.position,
        line: pipeline.line,
        rejected_in_all: entry.rejected + pipeline.rejected,
        seconds,
        records_per_second: records as f64 / seconds.max(1e-9),
        latency_ms: measure.latency_ms.filter(|_| records > 0),
        group_transactions_mean: measure.group_transactions_mean,
        flushes: measure.flushes,
        problem: problem.as_ref().map(ToString::to_string),
    };
    summary.print(options.json)?;
    if entry.finished && records == 0 && complete {
        let durable = durable_through(entry.position, entry.line);
        progress.note(&format!("the ingest was finished already, nothing is new: {durable}"));
    }
    let closed = database.close().map_err(|error| {
        Problem::unknown(format!(
            "cannot close the database {}: {}; use --resume, which continues from what it recovers",
            options.database.display(),
            explain(&error)
        ))
    });
    match problem {
        Some(problem) => Err(problem),
        None => closed.map(|()| summary.exit()),
    }
}

/// How the run ended, and the sentence for it where that was early.
fn judge(
    feeding: Result<End, Stop>,
    stream: &Stream,
    pipeline: &Pipeline,
) -> (Outcome, Option<Problem>) {
    match feeding {
        Ok(End::Input) => (Outcome::Complete, None),
        Ok(End::Signal) => (
            Outcome::Interrupted,
            Some(Problem::interrupted(format!(
                "interrupted: {}, nothing behind it was ingested; the same command with --resume continues",
                pipeline.durable_so_far()
            ))),
        ),
        Ok(End::Unreadable(error)) => (
            Outcome::Stopped,
            Some(Problem::environment(format!(
                "cannot read {} behind record {} ({error}): {}; check that the file is whole, then use --resume",
                stream.name,
                stream.number,
                pipeline.durable_so_far()
            ))),
        ),
        Err(Stop { exit: Exit::Unknown, sentence }) => {
            (Outcome::Unknown, Some(Problem::unknown(sentence)))
        }
        Err(Stop { sentence, .. }) => (Outcome::Stopped, Some(Problem::environment(sentence))),
    }
}

/// Why reading ended.
pub(crate) enum End {
    /// The input was read to its end.
    Input,
    /// A signal asked for a stop.
    Signal,
    /// The input cannot be read further.
    Unreadable(std::io::Error),
}

/// Reads records and submits them until the input ends or something stops it.
fn feed(
    stream: &mut Stream,
    shape: &job::Shape,
    pipeline: &mut Pipeline,
    database: &Database,
    progress: &mut Progress,
) -> Result<End, Stop> {
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
            Next::Record => pipeline
                .push(Job::new(stream.number, stream.checksum(), &record, shape), progress)?,
            Next::Idle => pipeline.settle_resolved(progress)?,
            Next::End => return Ok(End::Input),
        }
        let look = next == Next::Idle || stream.number.is_multiple_of(TICK_RECORDS);
        if look
            && progress.tick(
                || database.stats(),
                pipeline.committed + pipeline.rejected,
                pipeline.rejected,
            )
        {
            pipeline
                .flush_rejects()
                .map_err(|problem| Stop { exit: problem.exit, sentence: problem.to_string() })?;
        }
    }
}

/// Notes durably that the end of the input was reached.
fn finish(
    options: &Options,
    database: &Database,
    id: i64,
    position: u64,
    already: bool,
) -> Result<(), Stop> {
    if already {
        return Ok(());
    }
    let path = options.database.display();
    let stop = |exit, what: String| {
        Err(Stop {
            exit,
            sentence: format!(
                "every record is durable, but the end of the ingest could not be noted in {path}: {what}; use --resume"
            ),
        })
    };
    match database.transact(move |transaction| ledger::finish(transaction, id, position)) {
        Ok(true) => Ok(()),
        Ok(false) => stop(Exit::Environment, "another ingest has moved its position".to_owned()),
        Err(Failure::Unknown(unknown)) => stop(Exit::Unknown, explain(unknown.cause().as_ref())),
        Err(failure) => stop(Exit::Environment, explain(&failure)),
    }
}
