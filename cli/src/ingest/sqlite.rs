//! Records as rows of SQLite. A record's place is moved by its own transaction, which fails where
//! the place is another: records take effect in order, each exactly once.

mod execute;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use groupcommit::sql::Engine;
use groupcommit::sqlite::{Database, Error};
use groupcommit::{Failure, Rejected, Stats, Terms, Ticket};

use crate::exit::{Problem, explain};
use crate::ingest::job::{Job, Shape, Work};
use crate::ingest::ledger::{Entry, Place};
use crate::ingest::options::{Format, Options};
use crate::ingest::sql_ledger;
use crate::ingest::store::{Ledger, Store, Trouble};
use crate::ingest::table::{self, Existing};
use execute::{Plan, Refusal, execute, is_about_the_transaction};

/// What every SQLite database begins with.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// An SQLite database.
#[derive(Debug)]
pub(crate) struct Sqlite {
    path: PathBuf,
    database: Database,
    ledger: sql_ledger::Database,
    plan: Arc<Plan>,
}

/// Opens the database at `path`.
///
/// # Errors
/// A [`Problem`] that names what keeps it from being used.
pub(crate) fn open(options: &Options, path: PathBuf) -> Result<Sqlite, Problem> {
    let cannot = |why: String| {
        Problem::environment(format!("cannot open the database {}: {why}", path.display()))
    };
    if is_something_else(&path) {
        return Err(cannot("it is not an SQLite database; give another path".to_owned()));
    }
    let database = Database::options()
        .create(true)
        .convert_to_wal(options.convert_to_wal)
        .busy_timeout(options.busy_timeout)
        .open(&path)
        .map_err(|error| {
            cannot(match &error {
                Error::RollbackJournal { .. } => {
                    "it is in rollback-journal mode; --convert-to-wal converts it to write-ahead logging, for every \
                     program that uses it"
                        .to_owned()
                }
                error => explain(error),
            })
        })?;
    let ledger = sql_ledger::Database::Sqlite(database.clone());
    Ok(Sqlite { path, database, ledger, plan: Arc::default() })
}

/// Whether a file has content that is no database. SQLite itself takes one of a few bytes for an empty
/// database, and would overwrite it. The file is not open yet, so no lock on it is lost here.
fn is_something_else(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(16).read_to_end(&mut head));
    read.is_ok() && !head.is_empty() && head != MAGIC
}

impl Store for Sqlite {
    type Output = Option<Box<str>>;
    type Error = Refusal;

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn warnings(&self) -> Vec<String> {
        self.database.warnings().iter().map(ToString::to_string).collect()
    }

    fn stats(&self) -> Stats {
        self.database.stats()
    }

    fn describe(&self, table: &str) -> Result<Option<Existing>, Trouble> {
        let described = self.database.read(|connection| table::describe(connection, table));
        described.map_err(|failure| Trouble::of(&failure))
    }

    fn ledger(&self) -> &impl Ledger {
        &self.ledger
    }

    fn is_same_table(&self, one: &str, other: &str) -> bool {
        one.eq_ignore_ascii_case(other)
    }

    fn engine(&self) -> Option<Engine> {
        Some(Engine::Sqlite)
    }

    fn prepare(
        &mut self,
        entry: &Entry,
        shape: &Shape,
        existing: Option<&Existing>,
    ) -> Result<(), Trouble> {
        let insert = match shape.format {
            Format::Sql => String::new(),
            _ => table::insert_statement(Engine::Sqlite, &entry.target, &shape.columns),
        };
        let guarded = existing.is_some_and(|existing| existing.fragile);
        self.plan = Arc::new(Plan { id: entry.id, insert, guarded });
        Ok(())
    }

    fn submit(&mut self, job: &Arc<Job>) -> Ticket<Self::Output, Refusal> {
        let (plan, shared) = (Arc::clone(&self.plan), Arc::clone(job));
        self.database
            .with(Terms::new().bytes(job.size_bytes()))
            .submit(move |transaction| execute(transaction, &plan, &shared))
    }

    fn rejection(output: Self::Output) -> Option<Box<str>> {
        output
    }

    fn judge(&self, job: &Job, failure: &Failure<Refusal>) -> Trouble {
        let is_open = !matches!(job.work, Work::Verdict(_));
        match failure {
            Failure::Rejected(Rejected::Caller(Refusal::Record(reason))) if is_open => {
                Trouble::Record(reason.clone())
            }
            Failure::Rejected(Rejected::Engine(cause))
                if is_open && is_about_the_transaction(cause.as_ref()) =>
            {
                Trouble::Record(cause.to_string())
            }
            Failure::Rejected(Rejected::Caller(Refusal::OutOfStep)) => Trouble::OutOfStep,
            Failure::Rejected(Rejected::Caller(Refusal::Environment(error))) => {
                Trouble::Failed(error.to_string(), execute::advice(error))
            }
            Failure::Rejected(Rejected::Engine(cause)) => Trouble::Failed(
                explain(cause.as_ref()),
                cause.downcast_ref().map_or(crate::ingest::store::CORRECT, execute::advice),
            ),
            failure => Trouble::of(failure),
        }
    }

    fn finish(&mut self, place: Place) -> Result<(), Trouble> {
        self.ledger.transact(self.ledger.advance(self.plan.id, place, true))
    }

    fn close(&self) -> Result<(), String> {
        self.database.close().map_err(|error| explain(&error))
    }
}
