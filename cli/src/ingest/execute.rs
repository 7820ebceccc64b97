//! What one record does inside its transaction.
//!
//! 1. The position advances first: out of order, nothing else is touched.
//! 2. A record that violates a constraint leaves its verdict instead of its row, in the same
//!    transaction. That is only done where the failed statement provably left nothing behind.
//! 3. A failure of the environment (a full disk, an I/O error) is never a verdict on a record.
//!
//! The functions run again if their group does; they only look at their arguments.

use groupcommit::sqlite::Transaction;
use groupcommit::sqlite::rusqlite::types::{ToSqlOutput, ValueRef};
use groupcommit::sqlite::rusqlite::{Error, ErrorCode, ToSql};

use crate::ingest::job::{Job, Work};
use crate::ingest::ledger;
use crate::ingest::value::Cell;

/// What all records of an ingest have in common.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The ingest's number in the ledger.
    pub(crate) id: i64,
    /// The INSERT statement; empty for SQL lines.
    pub(crate) insert: String,
    /// Whether a failing INSERT needs a savepoint of its own to leave nothing behind.
    pub(crate) guarded: bool,
}

/// What became of a record; either way its transaction is to be committed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its row is in the table.
    Committed,
    /// It is in the rejects, for this reason.
    Rejected(Box<str>),
}

/// Why a record's transaction must not be committed.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The record before this one has not been decided.
    OutOfStep,
    /// The record is to be rejected, but its statement ended the transaction.
    Record(String),
    /// The environment failed.
    Environment(Error),
}

/// Executes `job`.
pub(crate) fn execute(
    transaction: &Transaction,
    plan: &Plan,
    job: &Job,
) -> Result<Verdict, Refusal> {
    if !ledger::advance(transaction, plan.id, job).map_err(Refusal::Environment)? {
        return Err(Refusal::OutOfStep);
    }
    let reason: Box<str> = match &job.work {
        Work::Verdict(reason) => reason.clone(),
        Work::Insert(cells) => {
            let inserted = if plan.guarded {
                transaction.savepoint(|transaction| insert(transaction, plan, job, cells))
            } else {
                insert(transaction, plan, job, cells)
            };
            match inserted {
                Ok(()) => return Ok(Verdict::Committed),
                Err(error) => judge(transaction, error, is_about_the_row)?,
            }
        }
        Work::Statement => {
            match transaction.savepoint(|transaction| transaction.execute_batch(job.raw())) {
                Ok(()) => return Ok(Verdict::Committed),
                Err(error) => judge(transaction, error, is_about_the_statement)?,
            }
        }
    };
    ledger::reject(transaction, plan.id, job, &reason).map_err(Refusal::Environment)?;
    Ok(Verdict::Rejected(reason))
}

fn insert(transaction: &Transaction, plan: &Plan, job: &Job, cells: &[Cell]) -> Result<(), Error> {
    let mut statement = transaction.prepare_cached(&plan.insert)?;
    for (index, cell) in cells.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, Bound { cell: *cell, job })?;
    }
    statement.raw_execute()?;
    Ok(())
}

/// A cell with the record it points into.
struct Bound<'a> {
    cell: Cell,
    job: &'a Job,
}

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>, Error> {
        Ok(ToSqlOutput::Borrowed(match self.cell {
            Cell::Null => ValueRef::Null,
            Cell::Integer(integer) => ValueRef::Integer(integer),
            Cell::Real(real) => ValueRef::Real(real),
            Cell::Text(from, to) => ValueRef::Text(self.job.text(from, to).as_bytes()),
        }))
    }
}

/// The reason for the record's rejection, unless the error is of another sort.
fn judge(
    transaction: &Transaction,
    error: Error,
    is_verdict: fn(ErrorCode) -> bool,
) -> Result<Box<str>, Refusal> {
    if code_of(&error).is_some_and(is_verdict) {
        let reason = reason_of(&error);
        // ON CONFLICT ROLLBACK and RAISE(ROLLBACK) end the transaction of the whole group: a verdict
        // written now would be committed on the spot, outside of it.
        if transaction.is_autocommit() { Err(Refusal::Record(reason)) } else { Ok(reason.into()) }
    } else {
        Err(Refusal::Environment(error))
    }
}

/// SQLite's code in `error`.
pub(crate) fn code_of(error: &Error) -> Option<ErrorCode> {
    match error {
        Error::SqliteFailure(failure, _) | Error::SqlInputError { error: failure, .. } => {
            Some(failure.code)
        }
        _ => None,
    }
}

/// SQLite's message, without the statement, which the rejects hold anyway.
fn reason_of(error: &Error) -> String {
    match error {
        Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}

/// Whether the engine refused a finished transaction for what the record itself did.
pub(crate) fn is_about_the_transaction(
    cause: &(dyn std::error::Error + Send + Sync + 'static),
) -> bool {
    use groupcommit::sqlite::Error as EngineError;
    match cause.downcast_ref::<EngineError>() {
        Some(error) => matches!(
            error,
            EngineError::ForeignKey | EngineError::RolledBack | EngineError::ConfigurationChanged
        ),
        None => cause.downcast_ref::<Error>().and_then(code_of).is_some_and(is_about_the_row),
    }
}

/// Errors of a prepared INSERT that are the row's own fault.
pub(crate) fn is_about_the_row(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig)
}

/// Errors of an SQL line that are its own fault.
pub(crate) fn is_about_the_statement(code: ErrorCode) -> bool {
    is_about_the_row(code)
        || matches!(
            code,
            ErrorCode::Unknown
                | ErrorCode::AuthorizationForStatementDenied
                | ErrorCode::ParameterOutOfRange
        )
}

#[cfg(test)]
mod tests {
    use groupcommit::sqlite::rusqlite::Connection;

    use super::*;

    fn code(sql: &str) -> ErrorCode {
        let connection = Connection::open_in_memory().expect("opens");
        connection
            .execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b CHECK (b > 0))")
            .expect("creates");
        code_of(&connection.execute_batch(sql).expect_err("fails")).expect("has a code")
    }

    #[test]
    fn faults_of_a_record_are_told_from_faults_of_the_environment() {
        assert!(is_about_the_row(code("INSERT INTO t VALUES (1, 0)")));
        assert!(is_about_the_row(code("INSERT INTO t VALUES ('x', 1)")));
        for sql in ["INSERT INTO nowhere VALUES (1)", "INSERT INTO t VALUE (1)"] {
            assert!(is_about_the_statement(code(sql)) && !is_about_the_row(code(sql)), "{sql}");
        }
        for code in [
            ErrorCode::DiskFull,
            ErrorCode::SystemIoFailure,
            ErrorCode::DatabaseBusy,
            ErrorCode::ReadOnly,
        ] {
            assert!(!is_about_the_statement(code) && !is_about_the_row(code), "{code:?}");
        }
    }
}
