//! What one record does inside its transaction.
//!
//! 1. The place advances first: out of order, nothing else is touched.
//! 2. A record that SQLite refuses leaves its verdict instead of its row, in the same transaction.
//!    That is only done where the failed statement left nothing behind.
//! 3. Every record runs the same INSERT, so a failure to prepare it is no record's fault, and a failure
//!    to run it is, unless the machine or another process is the cause ([`is_environment`]).
//!
//! The functions may run more than once; they only look at their arguments.

use groupcommit::sqlite::Transaction;
use groupcommit::sqlite::rusqlite::types::{ToSqlOutput, ValueRef};
use groupcommit::sqlite::rusqlite::{Error, ErrorCode, Statement, ToSql, params};

use crate::ingest::job::{Job, Work};
use crate::ingest::ledger::Place;
use crate::ingest::sql_ledger::{REJECT, reject_params};
use crate::ingest::store::CORRECT;
use crate::ingest::value::Cell;

const ADVANCE: &str = "UPDATE _groupcommit_ingest SET position = ?2, line = ?3, checksum = ?4 \
                       WHERE id = ?1 AND position = ?2 - 1";

/// What all records of an ingest have in common.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The ingest's number in the ledger.
    pub(crate) id: i64,
    /// The INSERT statement; empty for SQL statements.
    pub(crate) insert: String,
    /// Whether a failing INSERT needs a savepoint to leave nothing behind.
    pub(crate) guarded: bool,
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

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OutOfStep => formatter.write_str("the record before it has not been decided"),
            Self::Record(reason) => formatter.write_str(reason),
            Self::Environment(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Environment(error)
    }
}

/// Executes `job`, and returns why it is rejected, if it is; either way its transaction is to be
/// committed.
pub(crate) fn execute(
    transaction: &Transaction,
    plan: &Plan,
    job: &Job,
) -> Result<Option<Box<str>>, Refusal> {
    let Place { position, line, checksum } = job.place;
    let place = params![plan.id, position.cast_signed(), line.cast_signed(), checksum];
    if transaction.prepare_cached(ADVANCE)?.execute(place)? != 1 {
        return Err(Refusal::OutOfStep);
    }
    let reason: Box<str> = match &job.work {
        Work::Verdict(reason) => reason.clone(),
        Work::Insert(cells) => {
            let mut statement = transaction.prepare_cached(&plan.insert)?;
            let inserted = if plan.guarded {
                transaction.savepoint(|_| insert(&mut statement, job, cells))
            } else {
                insert(&mut statement, job, cells)
            };
            match inserted {
                Ok(()) => return Ok(None),
                Err(error) => judge(transaction, error)?,
            }
        }
        Work::Statement => {
            match transaction.savepoint(|transaction| transaction.execute_batch(job.raw())) {
                Ok(()) => return Ok(None),
                Err(error) => judge(transaction, error)?,
            }
        }
    };
    let reject = reject_params(plan.id, &job.reject(&*reason));
    let mut statement = transaction.prepare_cached(REJECT)?;
    for (index, value) in reject.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, Kept(value))?;
    }
    statement.raw_execute()?;
    Ok(Some(reason))
}

fn insert(statement: &mut Statement<'_>, job: &Job, cells: &[Cell]) -> Result<(), Error> {
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
fn judge(transaction: &Transaction, error: Error) -> Result<Box<str>, Refusal> {
    if code_of(&error).is_none_or(is_environment) {
        return Err(Refusal::Environment(error));
    }
    let reason = reason_of(&error);
    // ON CONFLICT ROLLBACK and RAISE(ROLLBACK) end the transaction of the whole group: a verdict
    // written now would be committed on the spot, outside of it.
    if transaction.is_autocommit() { Err(Refusal::Record(reason)) } else { Ok(reason.into()) }
}

/// A parameter of the statement that keeps a rejected record.
struct Kept<'a>(&'a groupcommit::sql::Value);

impl ToSql for Kept<'_> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>, Error> {
        use groupcommit::sql::Value;
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Int(integer) => ValueRef::Integer(*integer),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
            _ => ValueRef::Null,
        }))
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
        None => cause
            .downcast_ref::<Error>()
            .and_then(code_of)
            .is_some_and(|code| !is_environment(code)),
    }
}

/// The codes with which SQLite blames the machine or another process. Every other one is about the
/// statement and its values.
pub(crate) fn is_environment(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::InternalMalfunction
            | ErrorCode::PermissionDenied
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::OutOfMemory
            | ErrorCode::ReadOnly
            | ErrorCode::OperationInterrupted
            | ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::DiskFull
            | ErrorCode::CannotOpen
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::SchemaChanged
            | ErrorCode::NoLargeFileSupport
            | ErrorCode::NotADatabase
    )
}

/// What to do about an error of the environment.
pub(crate) fn advice(error: &Error) -> &'static str {
    match code_of(error) {
        Some(ErrorCode::DiskFull) => "free space on the disk, then use --resume",
        Some(ErrorCode::ReadOnly) => "make it writable, then use --resume",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "let the other process finish, then use --resume"
        }
        _ => CORRECT,
    }
}

#[cfg(test)]
mod tests {
    use groupcommit::sqlite::rusqlite::Connection;

    use super::*;

    #[test]
    fn faults_of_a_record_are_told_from_faults_of_the_environment() {
        let connection = Connection::open_in_memory().expect("opens");
        connection
            .execute_batch(
                "CREATE TABLE t (a INTEGER PRIMARY KEY, b CHECK (b > 0)); \
                 CREATE TABLE j (a); CREATE INDEX i ON j (json_extract(a, '$.x'))",
            )
            .expect("creates");
        for sql in [
            "INSERT INTO t VALUES (1, 0)",
            "INSERT INTO t VALUES ('x', 1)",
            "INSERT INTO j VALUES ('{')",
            "INSERT INTO nowhere VALUES (1)",
        ] {
            let error = connection.execute_batch(sql).expect_err(sql);
            assert!(!is_environment(code_of(&error).expect("a code")), "{sql}");
        }
        for code in [
            ErrorCode::DiskFull,
            ErrorCode::SystemIoFailure,
            ErrorCode::DatabaseBusy,
            ErrorCode::ReadOnly,
        ] {
            assert!(is_environment(code), "{code:?}");
        }
    }
}
