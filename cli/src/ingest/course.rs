//! The course of one ingest: from the first record that is read to the summary.

use std::io;
use std::time::Instant;

use crate::exit::{Exit, Problem};
use crate::ingest::flight::Flight;
use crate::ingest::interrupt;
use crate::ingest::job::{Job, Shape};
use crate::ingest::ledger::{Entry, Place};
use crate::ingest::options::Options;
use crate::ingest::progress::Progress;
use crate::ingest::record::{Next, Record};
use crate::ingest::store::Store;
use crate::ingest::stream::Stream;
use crate::ingest::summary::{Measure, Outcome, Summary};

/// How often, in records, the clock is looked at for progress.
const TICK_RECORDS: u64 = 256;

/// Where an ingest begins.
pub(crate) struct Beginning {
    /// What the ledger has.
    pub(crate) entry: Entry,
    /// Whether it continues an earlier run.
    pub(crate) resumed: bool,
    /// What a record has to look like.
    pub(crate) shape: Shape,
    /// What is worth telling before the first record.
    pub(crate) notes: Vec<String>,
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
pub(crate) fn run<S: Store>(
    options: &Options,
    stream: &mut Stream,
    mut flight: Flight<S>,
    beginning: Beginning,
) -> Result<Exit, Problem> {
    let Beginning { entry, resumed, shape, notes } = beginning;
    let begun = Instant::now();
    let mut progress = Progress::begin(options.quiet, stream.size_bytes, stream.read_bytes.clone());
    let warnings = flight.store.warnings();
    warnings.iter().for_each(|warning| progress.note(&format!("warning: {warning}")));
    notes.iter().for_each(|note| progress.note(note));
    let fed = feed(stream, &shape, &mut flight, &mut progress)
        .and_then(|end| flight.drain(&progress).map(|()| end));
    flight.abandon();
    let is_complete = matches!(fed, Ok(End::Input));
    let durable = flight.durable();
    let mut problem = match fed {
        Ok(End::Input) if entry.finished && flight.records() == 0 => None,
        Ok(End::Input) => {
            let noted = flight.store.finish(flight.place);
            let problem = |trouble: crate::ingest::store::Trouble| {
                trouble.problem(
                    "note the end of the ingest in",
                    &flight.store.name(),
                    Some(&durable),
                )
            };
            noted.err().map(problem)
        }
        Ok(End::Signal) => Some(Problem::interrupted(format!(
            "interrupted: {durable}, and nothing after it was ingested; the same command with --resume continues"
        ))),
        Ok(End::Unreadable(error)) => Some(Problem::environment(format!(
            "cannot read {} after record {} ({error}): {durable}; check that the file is whole, then use --resume",
            stream.name, stream.number,
        ))),
        Err(stop) => Some(stop),
    };
    if let Some(rejects) = flight.rejects.take() {
        problem = problem.or(rejects.finish().err());
    }
    // Only a closed database is known to hold everything: closing looks at its files once more.
    let closed = flight.store.close().map_err(|what| {
        let name = flight.store.name();
        Problem::unknown(format!(
            "cannot close {name} ({what}): check the disk, then use --resume, which continues from what {name} has"
        ))
    });
    // Whatever stopped it before, nothing can be said of what is durable then.
    if let Err(unclosed) = closed
        && !problem.as_ref().is_some_and(|problem| problem.exit == Exit::Unknown)
    {
        problem = Some(unclosed);
    }
    let outcome = match problem.as_ref().map(|problem| problem.exit) {
        None | Some(Exit::Durable | Exit::Rejected) => Outcome::Complete,
        Some(Exit::Interrupted) => Outcome::Interrupted,
        Some(Exit::Environment) => Outcome::Stopped,
        Some(Exit::Unknown) => Outcome::Unknown,
    };
    let seconds = begun.elapsed().as_secs_f64();
    progress.end();
    let measure = Measure::of(&flight.store.stats());
    let records = flight.records();
    let Place { position, line, .. } = flight.place;
    let summary = Summary {
        target: entry.target,
        source: stream.name.clone(),
        outcome,
        durable: outcome != Outcome::Unknown && warnings.is_empty(),
        records,
        committed: flight.committed,
        rejected: flight.rejected,
        resumed_from: resumed.then_some(entry.place.position),
        position,
        line,
        rejected_in_all: entry.rejected + flight.rejected,
        seconds,
        records_per_second: records as f64 / seconds.max(1e-9),
        latency_ms: measure.latency_ms.filter(|_| records > 0),
        group_transactions_mean: measure.group_transactions_mean,
        flushes: measure.flushes,
        problem: problem.as_ref().map(ToString::to_string),
    };
    summary.print(options.json)?;
    if entry.finished && records == 0 && is_complete && problem.is_none() {
        progress.note(&format!("the ingest was finished already, nothing is new: {durable}"));
    }
    problem.map_or(Ok(summary.exit()), Err)
}

/// Reads records and submits them until the input ends or something stops it.
fn feed<S: Store>(
    stream: &mut Stream,
    shape: &Shape,
    flight: &mut Flight<S>,
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
                let place = stream.place(&record);
                flight.take(Job::new(place, &record, shape), progress)?;
            }
            Next::Idle => flight.settle_resolved(progress)?,
            Next::End => return Ok(End::Input),
        }
        if next == Next::Idle || stream.number.is_multiple_of(TICK_RECORDS) {
            let (done, rejected) = (flight.records(), flight.rejected);
            if progress.tick(|| flight.store.stats(), done, rejected)
                && let Some(rejects) = &mut flight.rejects
            {
                rejects.flush()?;
            }
        }
    }
}
