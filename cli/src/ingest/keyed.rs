//! Ingest into a key-value engine: each record under the value of one of its columns.
//!
//! 1. As with SQLite, a record and its position are one transaction, and a record's transaction
//!    fails where the position is another: records take effect in order, each exactly once.
//! 2. A store has no constraints, so a record is rejected before it is submitted or not at all; a
//!    key that comes again replaces what was under it, in the order of the input.
//! 3. What an engine has to do is in [`Store`]; everything else is the same for all of them.

mod ledger;
#[cfg(feature = "lmdb")]
mod lmdb;
mod record;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod store;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use groupcommit::{Failure, Rejected, Submit, Terms, Ticket};
use groupcommit_lab::engine::Engine;

use crate::exit::{Exit, Problem, explain};
use crate::ingest::begin::previous;
use crate::ingest::job::{Job, Shape, Work};
use crate::ingest::ledger::{Entry, Reject};
use crate::ingest::measure::Measure;
use crate::ingest::options::{Encoding, Format, Layout, Options};
use crate::ingest::pipeline::durable_through;
use crate::ingest::progress::Progress;
use crate::ingest::record::{Next, Record};
use crate::ingest::rejects::RejectsFile;
use crate::ingest::stream::Stream;
use crate::ingest::summary::{Outcome, Summary};
use crate::ingest::{REJECTS_AT_ONCE, TICK_RECORDS, input, interrupt, skip};
use ledger::{Ledger, Place, Refusal};
use record::Pair;
use store::{Store, Transaction};

/// The table that records go into unless one is named.
const TABLE: &str = "records";

/// Runs the subcommand for a key-value engine.
///
/// # Errors
/// A [`Problem`] with its exit code and sentence.
pub(crate) fn run(options: &Options, engine: Engine, path: &Path) -> Result<Exit, Problem> {
    match engine {
        #[cfg(feature = "lmdb")]
        Engine::Lmdb => ingest_into::<lmdb::Lmdb>(options, path),
        #[cfg(feature = "rocksdb")]
        Engine::Rocksdb => ingest_into::<rocksdb::Rocksdb>(options, path),
        other => Err(Problem::environment(format!(
            "{} does not keep records under a key: give the path of the database alone",
            other.title()
        ))),
    }
}

/// Everything that stays the same from record to record.
struct Ingest<'a, S: Store> {
    options: &'a Options,
    path: &'a Path,
    database: S::Database,
    ledger: Arc<Ledger<S>>,
    in_flight: VecDeque<InFlight<S>>,
    rejects: Option<RejectsFile>,
    place: Place,
    committed: u64,
    rejected: u64,
}

/// A record that is submitted and not known to be durable.
struct InFlight<S: Store> {
    place: Place,
    reject: Option<Reject>,
    ticket: Ticket<(), Refusal<S::Error>>,
}

/// Why reading ended.
enum End {
    Input,
    Signal,
    Unreadable(std::io::Error),
}

fn ingest_into<S: Store>(options: &Options, path: &Path) -> Result<Exit, Problem> {
    let layout = options.layout()?;
    let Some(key) = options.key.clone().filter(|_| layout.format != Format::Sql) else {
        return Err(Problem::environment(if layout.format == Format::Sql {
            format!("{} takes no SQL: give CSV or NDJSON", S::ENGINE.title())
        } else {
            format!("{} keeps records under a key: name its column with --key", S::ENGINE.title())
        }));
    };
    interrupt::install()?;
    let mut stream = Stream::open(input::open(options)?, layout)?;
    let shape = shape(options, layout, &mut stream)?;
    let pair = Pair::new(&shape, &key, options.value, S::KEY_BYTES_MAX)
        .map_err(|what| Problem::environment(format!("cannot ingest {}: {what}", stream.name)))?;
    let table = options.table.clone().unwrap_or_else(|| TABLE.to_owned());
    let cannot = |doing: &str, error: &(dyn std::error::Error + 'static)| {
        Problem::environment(format!("cannot {doing} {}: {}", path.display(), explain(error)))
    };
    let (database, spaces) =
        S::open(path, &table).map_err(|error| cannot("open the database", &*error))?;
    let ledger = Arc::new(Ledger::<S>::new(spaces, &table));
    let reading = reading(options, layout, &key);
    let found = ledger.find(&database).map_err(|error| cannot("read", &error))?;
    let before = previous(options, found, &table, &reading)?;
    let resumed = before.is_some();
    let entry = if let Some(entry) = before {
        entry
    } else {
        let (ledger, source) = (ledger.clone(), stream.name.clone());
        database
            .transact_with(Terms::default(), move |tx| ledger.begin(tx, &source, &reading))
            .map_err(|failure| cannot("begin the ingest in", &failure))?
    };
    skip(&mut stream, &table, &entry)?;
    let rejects = match &options.rejects {
        Some(file) => Some(rejects(file, options, path, &ledger, &database)?),
        None => None,
    };
    let place = Place::of(&entry);
    let ingest = Ingest {
        options,
        path,
        database,
        ledger,
        in_flight: VecDeque::new(),
        rejects,
        place,
        committed: 0,
        rejected: 0,
    };
    ingest.run(&mut stream, &shape, &pair, &entry, resumed, table)
}

/// The options that decide how the input is read; a resumed ingest must have the same.
fn reading(options: &Options, layout: Layout, key: &str) -> String {
    let mut words = vec![crate::ingest::begin::reading(options, layout)];
    if layout.format == Format::Csv {
        // No table keeps the types of the columns: they have to be found again.
        words.push(format!("--sample {}", options.sample));
        let types = options.types.iter();
        words.extend(types.map(|(name, kind)| format!("--type {name}={}", kind.declared())));
    }
    words.push(format!("--key {key:?} --value {}", options.value.name()));
    words.join(" ")
}

/// What a record has to look like. NDJSON records are kept as they are, and need no columns.
fn shape(options: &Options, layout: Layout, stream: &mut Stream) -> Result<Shape, Problem> {
    let columns = if layout.format == Format::Csv {
        crate::ingest::begin::csv_columns_of(options, stream)?
    } else {
        Vec::new()
    };
    Ok(Shape { format: layout.format, columns, nulls: options.nulls.clone() })
}

/// Opens the rejects file and fills it with the verdicts of earlier runs.
fn rejects<S: Store>(
    file: &Path,
    options: &Options,
    path: &Path,
    ledger: &Ledger<S>,
    database: &S::Database,
) -> Result<RejectsFile, Problem> {
    let same = |other: &Path| matches!((file.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other);
    if same(path) || options.input.as_deref().is_some_and(same) {
        return Err(Problem::environment(format!(
            "--rejects {} would overwrite the input or the database: choose another file",
            file.display()
        )));
    }
    let mut rejects = RejectsFile::create(file)?;
    let mut after = 0;
    loop {
        let batch = ledger.rejects(database, after, REJECTS_AT_ONCE as usize).map_err(|error| {
            let why = explain(&error);
            Problem::environment(format!("cannot read what {} rejected: {why}", path.display()))
        })?;
        let Some(last) = batch.last() else { return Ok(rejects) };
        after = last.record;
        batch.iter().try_for_each(|reject| rejects.add(reject))?;
    }
}

impl<S: Store> Ingest<'_, S> {
    fn run(
        mut self,
        stream: &mut Stream,
        shape: &Shape,
        pair: &Pair,
        entry: &Entry,
        resumed: bool,
        target: String,
    ) -> Result<Exit, Problem> {
        let begun = Instant::now();
        let mut progress =
            Progress::begin(self.options.quiet, stream.size_bytes, stream.read_bytes.clone());
        let warnings = S::warnings(&self.database);
        warnings.iter().for_each(|warning| progress.note(&format!("warning: {warning}")));
        let fed = self.feed(stream, shape, pair, &mut progress);
        let fed = match fed {
            Ok(end) => self.settle(0, &progress).map(|()| end),
            Err(stop) => Err(stop),
        };
        for waiting in self.in_flight.drain(..) {
            // Behind a stop nothing can have been decided; only its end is awaited.
            drop(waiting.ticket.wait());
        }
        let mut outcome = Outcome::Complete;
        let mut problem = match fed {
            Ok(End::Input) => self.finish(entry.finished).err(),
            Ok(End::Signal) => {
                outcome = Outcome::Interrupted;
                Some(Problem::interrupted(format!(
                    "interrupted: {}, nothing behind it was ingested; the same command with --resume continues",
                    self.durable()
                )))
            }
            Ok(End::Unreadable(error)) => Some(Problem::environment(format!(
                "cannot read {} behind record {} ({error}): {}; check that the file is whole, then use --resume",
                stream.name,
                stream.number,
                self.durable()
            ))),
            Err(stop) => Some(stop),
        };
        if let Some(rejects) = self.rejects.take() {
            problem = problem.or(rejects.finish().err());
        }
        outcome = match &problem {
            Some(Problem { exit: Exit::Unknown, .. }) => Outcome::Unknown,
            Some(Problem { exit: Exit::Environment, .. }) => Outcome::Stopped,
            _ => outcome,
        };
        let seconds = begun.elapsed().as_secs_f64();
        progress.end();
        let measure = Measure::of(&self.database.statistics());
        let records = self.committed + self.rejected;
        let summary = Summary {
            target,
            source: stream.name.clone(),
            outcome,
            durable: outcome != Outcome::Unknown && warnings.is_empty(),
            records,
            committed: self.committed,
            rejected: self.rejected,
            resumed_from: resumed.then_some(entry.position),
            position: self.place.position,
            line: self.place.line,
            rejected_in_all: self.place.rejected,
            seconds,
            records_per_second: records as f64 / seconds.max(1e-9),
            latency_ms: measure.latency_ms.filter(|_| records > 0),
            group_transactions_mean: measure.group_transactions_mean,
            flushes: measure.flushes,
            problem: problem.as_ref().map(ToString::to_string),
        };
        summary.print(self.options.json)?;
        let closed = self.database.close_all().map_err(|error| {
            Problem::unknown(format!(
                "cannot close the database {}: {}; use --resume, which continues from what it recovers",
                self.path.display(),
                explain(&*error)
            ))
        });
        match problem {
            Some(problem) => Err(problem),
            None => closed.map(|()| summary.exit()),
        }
    }

    fn durable(&self) -> String {
        durable_through(self.place.position, self.place.line)
    }

    /// Reads records and submits them until the input ends or something stops it.
    fn feed(
        &mut self,
        stream: &mut Stream,
        shape: &Shape,
        pair: &Pair,
        progress: &mut Progress,
    ) -> Result<End, Problem> {
        let window = self.options.in_flight as usize;
        let mut record = Record::default();
        let mut place = self.place;
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
                    let job = match shape.format {
                        Format::Csv => Job::new(stream.number, stream.checksum(), &record, shape),
                        _ => Job::unparsed(stream.number, stream.checksum(), &record),
                    };
                    self.settle(window - 1, progress)?;
                    place = self.submit(place, &job, pair);
                }
                Next::Idle => self.settle_resolved(progress)?,
                Next::End => return Ok(End::Input),
            }
            if next == Next::Idle || stream.number.is_multiple_of(TICK_RECORDS) {
                let (done, rejected) = (self.committed + self.rejected, self.rejected);
                if progress.tick(|| self.database.statistics(), done, rejected)
                    && let Some(rejects) = &mut self.rejects
                {
                    rejects.flush()?;
                }
            }
        }
    }

    /// Submits a record that follows `before`, and returns the place that it makes.
    fn submit(&mut self, before: Place, job: &Job, pair: &Pair) -> Place {
        let made = match &job.work {
            Work::Verdict(reason) => Err(reason.to_string()),
            _ => pair.of(job),
        };
        let place = Place {
            position: job.record,
            line: job.line,
            checksum: job.checksum,
            rejected: before.rejected + u64::from(made.is_err()),
            finished: false,
        };
        let reject = made.as_ref().err().map(|reason| Reject {
            record: job.record,
            line: job.line,
            reason: reason.clone(),
            content: job.raw().to_owned(),
        });
        let (ledger, kept) = (self.ledger.clone(), reject.clone());
        let bytes = made.as_ref().map_or(job.raw().len(), |(key, value)| key.len() + value.len());
        let transaction = move |tx: &mut Transaction<'_, S>| {
            ledger.advance(tx, before, place)?;
            match (&made, &kept) {
                (Ok((key, value)), _) => ledger.put_record(tx, key, value),
                (Err(_), Some(reject)) => ledger.put_reject(tx, reject),
                (Err(_), None) => Ok(()),
            }
        };
        let ticket = self.database.submit_with(Terms { bytes, ..Terms::default() }, transaction);
        self.in_flight.push_back(InFlight { place, reject, ticket });
        place
    }

    /// Waits until no more than `most` records are in flight.
    fn settle(&mut self, most: usize, progress: &Progress) -> Result<(), Problem> {
        self.settle_resolved(progress)?;
        while self.in_flight.len() > most {
            self.settle_first(progress)?;
        }
        Ok(())
    }

    fn settle_resolved(&mut self, progress: &Progress) -> Result<(), Problem> {
        while self.in_flight.front().is_some_and(|first| first.ticket.is_resolved()) {
            self.settle_first(progress)?;
        }
        Ok(())
    }

    fn settle_first(&mut self, progress: &Progress) -> Result<(), Problem> {
        let Some(InFlight { place, reject, ticket }) = self.in_flight.pop_front() else {
            return Ok(());
        };
        ticket.wait().map_err(|failure| self.stop(place.position, &failure))?;
        self.place = place;
        let Some(reject) = reject else {
            self.committed += 1;
            return Ok(());
        };
        self.rejected += 1;
        match &mut self.rejects {
            Some(file) => file.add(&reject)?,
            None => progress.note(&format!(
                "record {} (line {}) rejected: {}",
                reject.record, reject.line, reject.reason
            )),
        }
        Ok(())
    }

    /// Why no more records are submitted.
    fn stop(&self, record: u64, failure: &Failure<Refusal<S::Error>>) -> Problem {
        let (path, durable) = (self.path.display(), self.durable());
        match failure {
            Failure::Unknown(unknown) => Problem::unknown(format!(
                "the outcome of the records from {record} on is unknown ({}); {durable}; check the disk, then use \
                 --resume, which continues from what {path} recovers",
                explain(unknown.cause().as_ref())
            )),
            Failure::Rejected(Rejected::Caller(Refusal::OutOfStep)) => {
                Problem::environment(format!(
                    "another ingest has moved the position of this one in {path}; {durable}; let it finish, then use --resume"
                ))
            }
            other => Problem::environment(format!(
                "cannot write record {record} to {path} ({}); {durable}; correct that, then use --resume",
                explain(other)
            )),
        }
    }

    /// Notes durably that the end of the input was reached.
    fn finish(&mut self, already: bool) -> Result<(), Problem> {
        if already && self.committed + self.rejected == 0 {
            return Ok(());
        }
        let (ledger, before) = (self.ledger.clone(), self.place);
        let place = Place { finished: true, ..before };
        self.database
            .transact_with(Terms::default(), move |tx| ledger.advance(tx, before, place))
            .map_err(|failure| self.stop(before.position, &failure))
    }
}

impl Encoding {
    /// The word for it, as on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Msgpack => "msgpack",
        }
    }
}
