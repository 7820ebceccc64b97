//! Reads as other languages take them: the first row alone, or rows a piece at a time.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use groupcommit::{
    Failure, Rejected,
    sql::{Database, Error, Rows, Statement, StatementResult, StatementsFailure, Value},
    sqlite::{
        self, Part, read_each,
        rusqlite::{Connection, Error as SqliteError, Row, types::ValueRef},
    },
};

/// Rows that are handed over at once, at most.
pub const ROWS_AT_ONCE: usize = 256;

/// Reads the first row alone, blocking; with its columns.
///
/// # Errors
///
/// What the database says.
pub fn first_row(
    database: &Database,
    statement: &Statement,
) -> Result<StatementResult, StatementsFailure> {
    match database.as_sqlite() {
        Some(sqlite) => rows_of(sqlite, statement, false),
        None => database.read(statement),
    }
}

/// Reads all rows, blocking.
///
/// # Errors
///
/// What the database says.
pub fn all_rows(
    database: &Database,
    statement: &Statement,
) -> Result<StatementResult, StatementsFailure> {
    match database.as_sqlite() {
        Some(sqlite) => rows_of(sqlite, statement, true),
        None => database.read(statement),
    }
}

/// As [`first_row`], without blocking.
///
/// # Errors
///
/// See [`first_row`].
///
/// # Cancel safety
///
/// As of [`Database::read_async`].
pub async fn first_row_async(
    database: &Database,
    statement: Statement,
) -> Result<StatementResult, StatementsFailure> {
    match database.as_sqlite() {
        Some(sqlite) => {
            let read = move |connection: &Connection| step_once(connection, &statement);
            sqlite.read_async(read).await.map_err(said)
        }
        None => database.read_async(&statement).await,
    }
}

fn step_once(
    connection: &Connection,
    statement: &Statement,
) -> Result<StatementResult, SqliteError> {
    let mut result = StatementResult::default();
    let mut is_wanted = true;
    read_each(connection, statement, |part| {
        match part {
            Part::Columns(names) => result.columns = names,
            Part::Row(row) => {
                result.rows.push(row);
                is_wanted = false;
            }
        }
        is_wanted
    })?;
    Ok(result)
}

/// On the caller's own thread, and without a transaction round it.
fn rows_of(
    database: &sqlite::Database,
    statement: &Statement,
    goes_on: bool,
) -> Result<StatementResult, StatementsFailure> {
    let mut result = StatementResult::default();
    let each = |row: &Row<'_>| {
        let columns = row.as_ref();
        if result.rows.is_empty() {
            result.columns = columns.column_names().map(str::to_owned).collect();
        }
        let values = (0..columns.column_count()).map(|column| value(row, column));
        result.rows.push(values.collect::<Result<_, SqliteError>>()?);
        Ok(goes_on)
    };
    database.read_statement(statement, each).map_err(said)?;
    Ok(result)
}

fn value(row: &Row<'_>, column: usize) -> Result<Value, SqliteError> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Int(value),
        ValueRef::Real(value) => Value::Float(value),
        ValueRef::Text(_) => Value::Text(row.get(column)?),
        ValueRef::Blob(value) => Value::Bytes(value.to_vec()),
    })
}

fn said(failure: Failure<SqliteError>) -> StatementsFailure {
    match failure {
        Failure::Rejected(Rejected::Caller(error)) => {
            Failure::Rejected(Rejected::Engine(Arc::new(error)))
        }
        other => other.map_caller(|_| unreachable!("the caller's own error is the case before")),
    }
}

/// The rows of a read, a piece at a time. Cheap to clone; clones are the same read.
///
/// Dropped, or [closed](Self::close), it gives its connection back.
#[derive(Debug, Clone)]
pub struct Chunks(Arc<Mutex<State>>);

#[derive(Debug)]
enum State {
    New(Database, Statement),
    Begun(Rows),
    /// Ended, or taken by a call that is under way.
    Gone,
}

impl Chunks {
    /// A read that begins with the first [`next`](Self::next).
    #[must_use]
    pub fn new(database: Database, statement: Statement) -> Self {
        Self(Arc::new(Mutex::new(State::New(database, statement))))
    }

    /// The names of the columns and the next rows: at least one, and as many more as are there,
    /// up to [`ROWS_AT_ONCE`]; none at the end.
    ///
    /// # Errors
    ///
    /// What the database says.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the read.
    pub async fn next(&self) -> Result<(Vec<String>, Vec<Vec<Value>>), StatementsFailure> {
        let mut rows = match self.replace(State::Gone) {
            State::New(database, statement) => database.read_rows(&statement).await?,
            State::Begun(rows) => rows,
            State::Gone => return Ok((Vec::new(), Vec::new())),
        };
        let mut chunk = Vec::new();
        let mut next = Some(rows.next().await.map_err(rejected)?);
        while let Some(Some(row)) = next {
            chunk.push(row);
            next = if chunk.len() < ROWS_AT_ONCE {
                rows.next().now_or_never().transpose().map_err(rejected)?
            } else {
                None
            };
        }
        let columns = rows.columns();
        // Not asked again after its end: PostgreSQL's client would take the connection for lost.
        if next.is_none() {
            self.replace(State::Begun(rows));
        }
        Ok((columns, chunk))
    }

    /// Ends the read.
    pub fn close(&self) {
        self.replace(State::Gone);
    }

    fn replace(&self, state: State) -> State {
        std::mem::replace(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), state)
    }
}

fn rejected(error: Error) -> StatementsFailure {
    Failure::Rejected(Rejected::Caller(error))
}
