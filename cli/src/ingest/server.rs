//! Records as rows on a server, by transactions that are plain data.
//!
//! ```text
//! record N ──► one transaction: its row, and N in `_groupcommit_decided`
//!         its row is refused ──► another: its verdict, and N in `_groupcommit_decided`
//! every 4,096 records ──► another: the position moves over them, and they leave that table
//! ```
//!
//! 1. A record is decided exactly once: its number is inserted under a key, together with its row or
//!    its verdict.
//! 2. Records commit in order, except that the verdict of a refused one follows later. After an
//!    interruption there may be gaps, and `--resume` fills them.
//! 3. A failure of the server or the network is never a verdict on a record.

mod table;

use std::collections::HashMap;
use std::sync::Arc;

use groupcommit::sql::{
    self, Engine, Error, Kind, Statement, StatementResult, StatementsFailure, StatementsTicket,
    Value, without_password,
};
use groupcommit::{Failure, Limits, Stats};

use crate::exit::{Problem, explain};
use crate::ingest::job::{Column, Job, Shape, Work};
use crate::ingest::ledger::{Entry, Place};
use crate::ingest::options::{Format, Options};
use crate::ingest::sql_ledger::{
    Database, REJECT, checksum, integer, number, numbered, reject_params,
};
use crate::ingest::store::{CORRECT, Ledger, Store, Trouble};
use crate::ingest::table::{Existing, insert_statement};
use crate::ingest::value::{Cell, Kind as Keeps};

/// Number of records after which the position in the ledger moves past them.
const ADVANCE_RECORDS: u64 = 4_096;

/// A database on a server.
pub(crate) struct Server {
    name: String,
    database: sql::Database,
    ledger: Database,
    id: i64,
    decide: Arc<str>,
    reject: Arc<str>,
    /// The INSERT statement; empty for SQL statements.
    insert: Arc<str>,
    columns: Vec<Column>,
    /// Decided by an earlier run, beyond the ledger's position: the checksums.
    decided: HashMap<u64, u32>,
    advancing: Option<StatementsTicket>,
    /// Where the ledger's position is.
    advanced: u64,
}

/// Connects to the server at `url`.
///
/// # Errors
/// A [`Problem`] that names what keeps it from being used.
pub(crate) fn open(options: &Options, url: &str) -> Result<Server, Problem> {
    let name = without_password(url);
    let mut limits = Limits::default();
    limits.transactions = limits.transactions.max(options.in_flight as usize);
    let database = sql::Database::options().limits(limits).connect(url).map_err(|error| {
        Problem::environment(format!("cannot open the database {name}: {}", explain(&error)))
    })?;
    let decide =
        "INSERT INTO _groupcommit_decided (ingest, record, line, checksum) VALUES (?, ?, ?, ?)";
    let engine = database.engine();
    Ok(Server {
        name,
        ledger: Database::Server(database.clone()),
        database,
        id: 0,
        decide: numbered(engine, decide).into(),
        reject: numbered(engine, REJECT).into(),
        insert: "".into(),
        columns: Vec::new(),
        decided: HashMap::new(),
        advancing: None,
        advanced: 0,
    })
}

impl Store for Server {
    type Output = Vec<StatementResult>;
    type Error = Error;

    fn name(&self) -> String {
        self.name.clone()
    }

    fn warnings(&self) -> Vec<String> {
        self.database.warnings()
    }

    fn stats(&self) -> Stats {
        self.database.stats()
    }

    fn describe(&self, table: &str) -> Result<Option<Existing>, Trouble> {
        table::describe(&self.database, table).map_err(|failure| Trouble::of(&failure))
    }

    fn ledger(&self) -> &impl Ledger {
        &self.ledger
    }

    fn engine(&self) -> Option<Engine> {
        Some(self.database.engine())
    }

    fn prepare(
        &mut self,
        entry: &Entry,
        shape: &Shape,
        _existing: Option<&Existing>,
    ) -> Result<(), Trouble> {
        if shape.format != Format::Sql {
            let engine = self.database.engine();
            self.insert = insert_statement(engine, &entry.target, &shape.columns).into();
        }
        self.columns.clone_from(&shape.columns);
        (self.id, self.advanced) = (entry.id, entry.place.position);
        let decided = self.ledger.read(&self.ledger.statement(
            "SELECT record, checksum FROM _groupcommit_decided WHERE ingest = ?",
            [entry.id.into()],
        ))?;
        let place = |row: Vec<Value>| Some((number(row.first()?), checksum(row.get(1)?)));
        self.decided = decided.into_iter().filter_map(place).collect();
        Ok(())
    }

    fn is_decided(&mut self, job: &Job) -> Result<bool, Trouble> {
        match self.decided.remove(&job.place.position) {
            None => Ok(false),
            Some(checksum) if checksum == job.place.checksum => Ok(true),
            Some(_) => Err(Trouble::Failed(
                "another record of this number is there".to_owned(),
                "give the same input, or --restart to insert all of this one",
            )),
        }
    }

    fn submit(&mut self, job: &Arc<Job>) -> StatementsTicket {
        self.database.submit(self.transaction(job))
    }

    fn judge(&self, job: &Job, failure: &StatementsFailure) -> Trouble {
        let error = Error::of_failure(failure).filter(|_| !matches!(failure, Failure::Unknown(_)));
        let Some(error) = error else { return Trouble::of(failure) };
        let kind = error.kind();
        let is_about_the_record = match job.work {
            Work::Insert(_) => is_about_the_row(kind),
            Work::Statement => is_about_the_statement(kind),
            Work::Verdict(_) => false,
        };
        match failure {
            Failure::Rejected(_) if is_about_the_record => Trouble::Record(reason_of(&error)),
            // Of a verdict: only another ingest writes there.
            Failure::Rejected(_) if kind == Kind::Unique => Trouble::OutOfStep,
            _ => Trouble::Failed(format!("{error}: {}", reason_of(&error)), CORRECT),
        }
    }

    /// Moves the ledger's position from time to time.
    fn settled(&mut self, place: Place) -> Result<(), Trouble> {
        if place.position < self.advanced + ADVANCE_RECORDS {
            return Ok(());
        }
        self.wait_for_advance()?;
        let plan = self.ledger.advance(self.id, place, false);
        self.advancing = Some(self.database.submit(plan));
        self.advanced = place.position;
        Ok(())
    }

    fn finish(&mut self, place: Place) -> Result<(), Trouble> {
        self.wait_for_advance()?;
        self.ledger.transact(self.ledger.advance(self.id, place, true))
    }

    fn close(&self) -> Result<(), String> {
        self.database.close().map_err(|error| explain(&error))
    }
}

impl Server {
    /// The transaction of a record. One that is to be rejected leaves its verdict.
    fn transaction(&self, job: &Job) -> Vec<Statement> {
        let does = match &job.work {
            Work::Verdict(reason) => {
                let params = reject_params(self.id, &job.reject(&**reason));
                Statement::new(self.reject.clone(), params)
            }
            Work::Statement => {
                Statement::new(job.raw().trim_end().trim_end_matches(';').to_owned(), [])
            }
            Work::Insert(cells) => {
                let values = cells.iter().zip(&self.columns);
                let values = values.map(|(&cell, column)| value_of(cell, column.kind, job));
                Statement::new(self.insert.clone(), values.collect::<Vec<_>>())
            }
        };
        let Place { position, line, checksum } = job.place;
        let decided = [self.id.into(), integer(position), integer(line), checksum.into()];
        vec![Statement::new(self.decide.clone(), decided), does]
    }

    fn wait_for_advance(&mut self) -> Result<(), Trouble> {
        let Some(ticket) = self.advancing.take() else { return Ok(()) };
        ticket.wait().map(drop).map_err(|failure| Trouble::of(&failure))
    }
}

fn value_of(cell: Cell, kind: Keeps, job: &Job) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Integer(integer @ (0 | 1)) if kind == Keeps::Boolean => Value::Bool(integer == 1),
        // For the server to refuse.
        Cell::Integer(integer) if kind == Keeps::Boolean => Value::Text(integer.to_string()),
        Cell::Integer(integer) => Value::Int(integer),
        Cell::Real(real) => Value::Float(real),
        Cell::Text(from, to) => Value::Text(job.text(from, to).to_owned()),
    }
}

fn is_about_the_row(kind: Kind) -> bool {
    kind.is_constraint() || kind == Kind::Value
}

fn is_about_the_statement(kind: Kind) -> bool {
    is_about_the_row(kind)
        || matches!(kind, Kind::Statement | Kind::Forbidden | Kind::Parameters | Kind::Column)
}

/// What the database itself said, which is the last in the chain of causes.
fn reason_of(error: &Error) -> String {
    let mut said: &(dyn std::error::Error + 'static) = error;
    while let Some(cause) = said.source() {
        said = cause;
    }
    said.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_record_did_is_a_verdict_on_it() {
        for kind in [Kind::Unique, Kind::Check, Kind::Raised, Kind::Value] {
            assert!(is_about_the_row(kind) && is_about_the_statement(kind), "{kind:?}");
        }
        for kind in [Kind::Statement, Kind::Forbidden] {
            assert!(!is_about_the_row(kind) && is_about_the_statement(kind), "{kind:?}");
        }
        for kind in [Kind::Lost, Kind::Resources, Kind::Privilege, Kind::Conflict, Kind::Storage] {
            assert!(!is_about_the_row(kind) && !is_about_the_statement(kind), "{kind:?}");
        }
    }
}
