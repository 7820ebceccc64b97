//! Transactions as plain data: statements with parameters, and what they return.
//!
//! A value is bound in the storage class of its own: [`Value::Bool`] as 1 or 0, which is read back
//! as an integer.

use groupcommit_statement::{Statement, StatementResult, Value};
use rusqlite::{
    ToSql,
    types::{FromSql, FromSqlResult, ToSqlOutput, ValueRef},
};

use crate::Transaction;

/// Runs one statement in the transaction.
pub(crate) fn run(
    statement: &Statement,
    tx: &Transaction<'_>,
) -> rusqlite::Result<StatementResult> {
    let params = rusqlite::params_from_iter(statement.params().iter().map(Bound));
    let changes_before = tx.total_changes();
    let mut result = tx.with_statement(statement.sql(), |prepared| {
        if prepared.column_count() == 0 {
            prepared.execute(params)?;
            return Ok(StatementResult::default());
        }
        collect(prepared, params)
    })?;
    if tx.total_changes() != changes_before {
        result.rows_affected = tx.changes();
    }
    let rowid = tx.connection().last_insert_rowid();
    result.last_insert_id = (rowid != 0).then_some(rowid);
    Ok(result)
}

/// Runs a statement that returns rows, and takes them all.
pub(crate) fn collect(
    prepared: &mut rusqlite::Statement<'_>,
    params: impl rusqlite::Params,
) -> rusqlite::Result<StatementResult> {
    let mut result = StatementResult::default();
    let mut cursor = prepared.query(params)?;
    while let Some(row) = cursor.next()? {
        // Counted only now: the first step prepares the statement again if the schema has
        // changed since, and `*` may then stand for other columns.
        let columns = 0..row.as_ref().column_count();
        let values = columns.map(|column| row.get(column).map(|Column(value)| value));
        result.rows.push(values.collect::<rusqlite::Result<_>>()?);
    }
    drop(cursor);
    result.columns = prepared.column_names().map(str::to_owned).collect();
    Ok(result)
}

/// Binds a value by reference.
pub(crate) struct Bound<'a>(pub(crate) &'a Value);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Bool(value) => ValueRef::Integer(i64::from(*value)),
            Value::Int(value) => ValueRef::Integer(*value),
            Value::Float(value) => ValueRef::Real(*value),
            Value::Text(value) => ValueRef::Text(value.as_bytes()),
            Value::Bytes(value) => ValueRef::Blob(value),
            other => {
                let what = format!("SQLite has no place for {other:?}");
                return Err(rusqlite::Error::ToSqlConversionFailure(what.into()));
            }
        }))
    }
}

/// A value as it stands in a row.
struct Column(Value);

impl FromSql for Column {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(match value {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(value) => Value::Int(value),
            ValueRef::Real(value) => Value::Float(value),
            ValueRef::Text(_) => Value::Text(value.as_str()?.to_owned()),
            ValueRef::Blob(value) => Value::Bytes(value.to_vec()),
        }))
    }
}
