//! Transactions as plain data: statements with parameters, and what they return.

use std::sync::Arc;

use rusqlite::{
    ToSql,
    types::{ToSqlOutput, ValueRef},
};

use crate::Transaction;

pub use rusqlite::types::Value;

/// One SQL statement with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    sql: Arc<str>,
    params: Vec<Value>,
}

impl Statement {
    /// A statement; `params` are bound to `?1`, `?2`, ... in turn.
    pub fn new(sql: impl Into<Arc<str>>, params: impl IntoIterator<Item = Value>) -> Self {
        Self { sql: sql.into(), params: params.into_iter().collect() }
    }

    /// Memory that the statement holds, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.sql.len() + self.params.iter().map(value_bytes).sum::<usize>()
    }

    pub(crate) fn run(&self, tx: &Transaction) -> rusqlite::Result<StatementResult> {
        let mut statement = tx.connection.prepare_cached(&self.sql)?;
        let params = rusqlite::params_from_iter(self.params.iter().map(Bound));
        let changes_before = tx.connection.total_changes();
        let columns: Vec<String> =
            statement.column_names().into_iter().map(str::to_owned).collect();
        let mut rows = Vec::new();
        if columns.is_empty() {
            statement.execute(params)?;
        } else {
            let mut cursor = statement.query(params)?;
            while let Some(row) = cursor.next()? {
                let values = (0..columns.len()).map(|column| row.get(column));
                rows.push(values.collect::<rusqlite::Result<Vec<Value>>>()?);
            }
        }
        let changed = tx.connection.total_changes() != changes_before;
        Ok(StatementResult {
            rows_changed: if changed { tx.connection.changes() } else { 0 },
            last_insert_rowid: tx.connection.last_insert_rowid(),
            columns,
            rows,
        })
    }
}

/// What one statement came to.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct StatementResult {
    /// Rows inserted, updated or deleted by the statement itself, without its triggers.
    pub rows_changed: u64,
    /// The rowid of the transaction's latest insert so far; 0 before the first.
    pub last_insert_rowid: i64,
    /// The names of the columns, for a statement that returns rows.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Value>>,
}

/// Binds a value by reference.
struct Bound<'a>(&'a Value);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::from(self.0)))
    }
}

/// Memory that a value holds, in bytes.
pub(crate) fn value_bytes(value: &Value) -> usize {
    let held = match value {
        Value::Text(text) => text.len(),
        Value::Blob(blob) => blob.len(),
        _ => 0,
    };
    size_of::<Value>() + held
}
