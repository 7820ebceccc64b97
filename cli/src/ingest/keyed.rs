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

use groupcommit::{Failure, Rejected, Stats, Submit, Terms, Ticket};

use crate::exit::{Exit, Problem, explain};
use crate::ingest::begin::{Beginning, previous};
use crate::ingest::course::{self, Destination, Reached};
use crate::ingest::job::{Job, Shape, Work};
use crate::ingest::ledger::Reject;
#[cfg(not(all(feature = "lmdb", feature = "rocksdb")))]
use crate::ingest::not_built_in;
use crate::ingest::options::{Encoding, Format, KeyedEngine, Layout, Options};
use crate::ingest::progress::Progress;
use crate::ingest::record::Record;
use crate::ingest::rejects::RejectsFile;
use crate::ingest::stream::Stream;
use crate::ingest::{input, interrupt, skip};
use ledger::{Ledger, Place, Refusal};
use record::Pair;
use store::{Store, Transaction};

/// The table that records go into unless one is named.
const TABLE: &str = "records";

/// Runs the subcommand for a key-value engine.
///
/// # Errors
/// A [`Problem`] with its exit code and sentence.
pub(crate) fn run(options: &Options, engine: KeyedEngine, path: &Path) -> Result<Exit, Problem> {
    match engine {
        #[cfg(feature = "lmdb")]
        KeyedEngine::Lmdb => ingest_into::<lmdb::Lmdb>(options, path),
        #[cfg(feature = "rocksdb")]
        KeyedEngine::Rocksdb => ingest_into::<rocksdb::Rocksdb>(options, path),
        #[cfg(not(all(feature = "lmdb", feature = "rocksdb")))]
        missing => Err(not_built_in(missing.title(), missing.name())),
    }
}

/// Everything that stays the same from record to record.
struct Ingest<'a, S: Store> {
    options: &'a Options,
    path: &'a Path,
    database: S::Database,
    ledger: Arc<Ledger<S>>,
    in_flight: VecDeque<InFlight<S>>,
    pair: Pair,
    reached: Reached,
    /// Where the records that are decided lead to, and those that are submitted.
    decided: Place,
    submitted: Place,
}

/// A record that is submitted and not known to be durable.
struct InFlight<S: Store> {
    place: Place,
    reject: Option<Reject>,
    ticket: Ticket<(), Refusal<S::Error>>,
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
            .transact(move |tx| ledger.begin(tx, &source, &reading))
            .map_err(|failure| cannot("begin the ingest in", &failure))?
    };
    skip(&mut stream, &table, &entry)?;
    let rejects = RejectsFile::restore(options, Some(path), |after, at_most| {
        let batch = ledger.rejects(&database, after, at_most as usize);
        batch.map_err(|error| cannot("read the rejected records in", &error))
    })?;
    let place = Place::of(&entry);
    let ingest = Ingest {
        options,
        path,
        database,
        ledger,
        in_flight: VecDeque::new(),
        pair,
        reached: Reached::behind(&entry, rejects),
        decided: place,
        submitted: place,
    };
    let beginning = Beginning { target: table, entry, resumed, shape, note: None };
    course::run(options, &mut stream, ingest, beginning)
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

impl<S: Store> Destination for Ingest<'_, S> {
    fn reached(&self) -> &Reached {
        &self.reached
    }

    fn reached_mut(&mut self) -> &mut Reached {
        &mut self.reached
    }

    fn warnings(&self) -> Vec<String> {
        S::warnings(&self.database)
    }

    fn stats(&self) -> Stats {
        self.database.stats()
    }

    fn job(&self, stream: &Stream, record: &Record, shape: &Shape) -> Job {
        let (number, checksum) = (stream.number, stream.checksum());
        match shape.format {
            Format::Csv => Job::new(number, checksum, record, shape),
            _ => Job::unparsed(number, checksum, record),
        }
    }

    fn take(&mut self, job: Job, progress: &Progress) -> Result<(), Problem> {
        self.settle(self.options.in_flight as usize - 1, progress)?;
        self.submit(&job);
        Ok(())
    }

    fn has_resolved(&self) -> bool {
        self.in_flight.front().is_some_and(|first| first.ticket.is_resolved())
    }

    fn settle_first(&mut self, progress: &Progress) -> Result<(), Problem> {
        let Some(InFlight { place, reject, ticket }) = self.in_flight.pop_front() else {
            return Ok(());
        };
        ticket.wait().map_err(|failure| self.stop(place.position, &failure))?;
        self.decided = place;
        self.reached.move_to(place.position, place.line);
        let Some(reject) = reject else {
            self.reached.committed += 1;
            return Ok(());
        };
        self.reached.reject(&reject, progress)
    }

    fn drain(&mut self, progress: &Progress) -> Result<(), Problem> {
        self.settle(0, progress)
    }

    fn abandon(&mut self) {
        for waiting in self.in_flight.drain(..) {
            // Behind a stop nothing can have been decided.
            drop(waiting.ticket.wait());
        }
    }

    fn finish(&mut self, already: bool) -> Result<(), Problem> {
        let before = self.decided;
        if already && self.reached.records() == 0 {
            return Ok(());
        }
        let (ledger, place) = (self.ledger.clone(), Place { finished: true, ..before });
        self.database
            .transact(move |tx| ledger.advance(tx, before, place))
            .map_err(|failure| self.stop(before.position, &failure))
    }

    fn close(&mut self) -> Result<(), Problem> {
        self.database.close_any().map_err(|error| {
            Problem::unknown(format!(
                "cannot close the database {}: {}; use --resume, which continues from what it recovers",
                self.path.display(),
                explain(&*error)
            ))
        })
    }
}

impl<S: Store> Ingest<'_, S> {
    /// Submits a record, which leads from one place to the next.
    fn submit(&mut self, job: &Job) {
        let before = self.submitted;
        let made = match &job.work {
            Work::Verdict(reason) => Err(reason.to_string()),
            _ => self.pair.of(job),
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
        let ticket = self.database.with(Terms::new().bytes(bytes)).submit(transaction);
        self.in_flight.push_back(InFlight { place, reject, ticket });
        self.submitted = place;
    }

    /// Waits until no more than `most` records are in flight.
    fn settle(&mut self, most: usize, progress: &Progress) -> Result<(), Problem> {
        self.settle_resolved(progress)?;
        while self.in_flight.len() > most {
            self.settle_first(progress)?;
        }
        Ok(())
    }

    /// Why no more records are submitted.
    fn stop(&self, record: u64, failure: &Failure<Refusal<S::Error>>) -> Problem {
        let (path, durable) = (self.path.display(), self.reached.durable());
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
