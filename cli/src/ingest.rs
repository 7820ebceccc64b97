//! `groupcommit ingest`: every record of an input its own durable transaction.
//!
//! ```text
//! input ──► record ──► job ──► pipeline ──► execute ──► ledger
//! bytes     lines      values  in flight    one         position and verdicts,
//!                                           transaction in the same transaction
//! ```
//!
//! Drawn is SQLite; records under keys (`keyed`) and on servers (`server`) take the same `course`.
//!
//! 1. A record is decided exactly once: its row, or the verdict that it is rejected, is committed
//!    together with its position, across any number of interruptions.
//! 2. No value is stored altered; what a column cannot keep is a rejected record.
//! 3. The main thread reads, parses and submits; the database's own threads execute and flush.

mod begin;
mod course;
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

use groupcommit::sqlite::{Database, Error};

pub(crate) use options::Options;

use crate::exit::{Exit, Problem, explain};
use course::Reached;
use ledger::Entry;
use pipeline::Pipeline;
use record::{Next, Record};
use rejects::RejectsFile;
use stream::Stream;
use summary::counted;

/// Runs the subcommand.
///
/// # Errors
/// A [`Problem`] with its exit code and sentence.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    if let Some((engine, path)) = options.keyed_target() {
        #[cfg(feature = "keyed")]
        return keyed::run(options, engine, &path);
        #[cfg(not(feature = "keyed"))]
        drop(path);
        #[cfg(not(feature = "keyed"))]
        return Err(not_built_in(engine.title(), engine.name()));
    }
    options.check_without_key()?;
    if let Some((engine, url)) = options.server_target() {
        if !engine.is_built_in() {
            return Err(not_built_in(engine.title(), engine.name()));
        }
        return server::run(options, engine, url);
    }
    let options = &options.with_sqlite_path()?;
    let layout = options.layout()?;
    interrupt::install()?;
    let mut stream = Stream::open(input::open(options)?, layout)?;
    let database = open_database(options)?;
    let (beginning, plan) = begin::decide(options, layout, &mut stream, &database)?;
    skip(&mut stream, &beginning.target, &beginning.entry)?;
    let path = &options.database;
    let rejects = RejectsFile::restore(options, Some(path), |after, at_most| {
        let batch =
            database.read(|connection| ledger::rejects(connection, plan.id, after, at_most));
        batch.map_err(|failure| {
            let (path, why) = (path.display(), explain(&failure));
            Problem::environment(format!("cannot read the rejected records in {path}: {why}"))
        })
    })?;
    let reached = Reached::behind(&beginning.entry, rejects);
    let pipeline = Pipeline::new(database, path.clone(), plan, options.in_flight, reached);
    course::run(options, &mut stream, pipeline, beginning)
}

/// The problem of an engine that this program was built without.
fn not_built_in(engine: &str, feature: &str) -> Problem {
    Problem::environment(format!(
        "this program was built without {engine}; build it with `cargo build --release --features {feature}`"
    ))
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
