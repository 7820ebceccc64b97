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

    pub(crate) fn run(&self, tx: &Transaction<'_>) -> rusqlite::Result<StatementResult> {
        let params = rusqlite::params_from_iter(self.params.iter().map(Bound));
        let changes_before = tx.total_changes();
        let mut result = tx.with_statement(&self.sql, |statement| {
            let mut result = StatementResult::default();
            if statement.column_count() == 0 {
                statement.execute(params)?;
                return Ok(result);
            }
            let mut cursor = statement.query(params)?;
            while let Some(row) = cursor.next()? {
                // Counted only now: the first step prepares the statement again if the schema has
                // changed since, and `*` may then stand for other columns.
                let values = (0..row.as_ref().column_count()).map(|column| row.get(column));
                result.rows.push(values.collect::<rusqlite::Result<Vec<Value>>>()?);
            }
            drop(cursor);
            let columns = statement.column_names();
            result.columns = columns.into_iter().map(str::to_owned).collect();
            Ok(result)
        })?;
        if tx.total_changes() != changes_before {
            result.rows_changed = tx.changes();
        }
        result.last_insert_rowid = tx.connection().last_insert_rowid();
        Ok(result)
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
pub(crate) struct Bound<'a>(pub(crate) &'a Value);

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
