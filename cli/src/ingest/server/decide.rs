//! What one record does on a server, and what a failure of it means.

use std::sync::Arc;

use groupcommit::Failure;
use groupcommit::sql::{Error, Kind, Statement, StatementsFailure, Value};

use crate::ingest::job::{Column, Job, Work};
use crate::ingest::ledger::Reject;
use crate::ingest::server::ledger::Ledger;
use crate::ingest::value::{Cell, Kind as Keeps};

/// What all records of an ingest have in common.
#[derive(Debug)]
pub(super) struct Plan {
    /// The ingest's number in the ledger.
    pub(super) id: i64,
    /// The INSERT statement; empty for SQL lines.
    pub(super) insert: Arc<str>,
    /// The columns that it inserts into.
    pub(super) columns: Vec<Column>,
    pub(super) ledger: Ledger,
}

impl Plan {
    /// The transaction of a record. One that is to be rejected leaves its verdict.
    pub(super) fn transaction(&self, job: &Job) -> Vec<Statement> {
        let does = match &job.work {
            Work::Verdict(reason) => self.ledger.reject(self.id, &reject_of(job, reason)),
            Work::Statement => {
                Statement::new(job.raw().trim_end().trim_end_matches(';').to_owned(), [])
            }
            Work::Insert(cells) => {
                let values = cells.iter().zip(&self.columns);
                let values = values.map(|(&cell, column)| value_of(cell, column.kind, job));
                Statement::new(self.insert.clone(), values.collect::<Vec<_>>())
            }
        };
        vec![self.ledger.decide(self.id, job), does]
    }
}

/// The verdict on a record.
pub(super) fn reject_of(job: &Job, reason: &str) -> Reject {
    Reject {
        record: job.record,
        line: job.line,
        reason: without_nul(reason),
        content: without_nul(job.raw()),
    }
}

/// Text of a server cannot keep NUL, which a record that is rejected may have.
fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
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

/// Why a record is to be rejected whose transaction was not committed; `None` where that says
/// nothing about the record.
pub(super) fn verdict(job: &Job, failure: &StatementsFailure) -> Option<String> {
    let Failure::Rejected(_) = failure else { return None };
    let error = Error::of_failure(failure)?;
    let is_about_the_record = match job.work {
        Work::Insert(_) => is_about_the_row(error.kind()),
        Work::Statement => is_about_the_statement(error.kind()),
        Work::Verdict(_) => false,
    };
    is_about_the_record.then(|| reason_of(&error))
}

fn is_about_the_row(kind: Kind) -> bool {
    kind.is_constraint() || kind == Kind::Value
}

fn is_about_the_statement(kind: Kind) -> bool {
    is_about_the_row(kind)
        || matches!(kind, Kind::Statement | Kind::Forbidden | Kind::Parameters | Kind::Column)
}

/// What the database itself said, which is the last in the chain of causes.
pub(super) fn reason_of(error: &Error) -> String {
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
