//! `groupcommit ingest`: every record of an input its own durable transaction.
//!
//! ```text
//! input ──► record ──► job ──► flight ──► store
//! bytes     lines      values  in order   row or verdict, and the place in the input,
//!                                         in one transaction
//! ```
//!
//! 1. A record is decided exactly once: its row, or the verdict that it is rejected, is committed
//!    together with its place, across any number of interruptions.
//! 2. No value is stored altered; what a column cannot keep is a rejected record.
//! 3. The main thread reads, parses and submits; the database's own threads execute and flush.
//! 4. The opening and the course are the same for every database; a [`store::Store`] is what differs.

mod course;
mod csv;
mod decode;
mod flight;
#[cfg(test)]
mod fuzz;
mod infer;
mod input;
mod interrupt;
mod job;
#[cfg(feature = "keyed")]
mod keyed;
mod ledger;
mod opening;
mod options;
mod progress;
mod record;
mod rejects;
mod server;
mod sql_ledger;
mod sqlite;
mod statements;
mod store;
mod stream;
mod summary;
mod table;
mod value;

use groupcommit::sql::Engine;

pub(crate) use options::Options;

use crate::exit::{Exit, Problem};
use opening::Target;
use options::Destination;
use stream::Stream;

/// Runs the subcommand.
///
/// # Errors
/// A [`Problem`] with its exit code and sentence.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    let destination = options.destination()?;
    match &destination {
        Destination::Server(engine, _) if !engine.is_built_in() => {
            return Err(not_built_in(engine.title(), engine.name()));
        }
        Destination::Keyed(engine, _) if !engine.is_built_in() => {
            return Err(not_built_in(engine.title(), engine.name()));
        }
        _ => {}
    }
    interrupt::install()?;
    let input = input::open(options)?;
    let layout = options.layout(&destination, &input.head)?;
    let mut stream = Stream::open(input, layout, options)?;
    match destination {
        Destination::Sqlite(path) => {
            let target = Target::of_rows(Engine::Sqlite);
            opening::ingest(options, &mut stream, &target, || sqlite::open(options, path))
        }
        Destination::Server(engine, url) => {
            let target = Target::of_rows(engine);
            opening::ingest(options, &mut stream, &target, || server::open(options, &url))
        }
        #[cfg(feature = "keyed")]
        Destination::Keyed(engine, path) => keyed::run(options, &mut stream, engine, &path),
        #[cfg(not(feature = "keyed"))]
        Destination::Keyed(engine, _) => Err(not_built_in(engine.title(), engine.name())),
    }
}

/// The problem of an engine that this program was built without.
fn not_built_in(engine: &str, feature: &str) -> Problem {
    Problem::environment(format!(
        "this program was built without {engine}; build it with `cargo build --release --features {feature}`"
    ))
}
