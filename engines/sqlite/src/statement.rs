//! Transactions as plain data: statements with parameters, and what they return.
//!
//! A value is bound in the storage class of its own: [`Value::Bool`] as 1 or 0, which is read back
//! as an integer.

use groupcommit_statement::{Statement, StatementResult, Value};
use rusqlite::{
    Connection, ToSql,
    types::{FromSql, FromSqlResult, ToSqlOutput, ValueRef},
};

use crate::Transaction;

/// Runs one statement in the transaction.
pub(crate) fn run(
    statement: &Statement,
    tx: &Transaction<'_>,
) -> rusqlite::Result<StatementResult> {
    let changes_before = tx.total_changes();
    let mut result = tx.with_statement(statement.sql(), |prepared| collect(prepared, statement))?;
    if tx.total_changes() != changes_before {
        result.rows_affected = tx.changes();
    }
    let rowid = tx.connection().last_insert_rowid();
    result.last_insert_id = (rowid != 0).then_some(rowid);
    Ok(result)
}

/// Runs one statement as plain data on a connection that a read or an exclusive was lent.
///
/// # Errors
///
/// What SQLite says.
pub fn run_statement(
    connection: &Connection,
    statement: &Statement,
) -> rusqlite::Result<StatementResult> {
    let changes_before = connection.total_changes();
    let mut result = collect(&mut *connection.prepare_cached(statement.sql())?, statement)?;
    if connection.total_changes() != changes_before {
        result.rows_affected = connection.changes();
    }
    let rowid = connection.last_insert_rowid();
    result.last_insert_id = (rowid != 0).then_some(rowid);
    Ok(result)
}

/// The parameters of a statement that is about to run.
#[derive(Debug)]
pub struct Parameters<'a, 'c>(&'a mut rusqlite::Statement<'c>);

impl Parameters<'_, '_> {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.parameter_count()
    }

    /// The name of one, counted from 1, with the sign before it.
    #[must_use]
    pub fn name(&self, index: usize) -> Option<&str> {
        self.0.parameter_name(index)
    }

    /// Sets one, counted from 1.
    ///
    /// # Errors
    ///
    /// What SQLite says.
    pub fn bind(&mut self, index: usize, value: impl ToSql) -> rusqlite::Result<()> {
        self.0.raw_bind_parameter(index, value)
    }
}

/// As [`Transaction::step`], on a connection that a read or an exclusive was lent.
///
/// # Errors
///
/// What SQLite, `bind` or `each` says.
pub fn step_on<X: From<rusqlite::Error>>(
    connection: &Connection,
    sql: &str,
    bind: impl FnOnce(&mut Parameters<'_, '_>) -> Result<(), X>,
    each: impl FnMut(&rusqlite::Statement<'_>, Option<&rusqlite::Row<'_>>) -> Result<(), X>,
) -> Result<(), X> {
    step(&mut *connection.prepare_cached(sql)?, bind, each)?
}

/// See [`Transaction::step`]; an error of SQLite is the outer one.
pub(crate) fn step<X>(
    prepared: &mut rusqlite::Statement<'_>,
    bind: impl FnOnce(&mut Parameters<'_, '_>) -> Result<(), X>,
    mut each: impl FnMut(&rusqlite::Statement<'_>, Option<&rusqlite::Row<'_>>) -> Result<(), X>,
) -> rusqlite::Result<Result<(), X>> {
    if let Err(stop) = bind(&mut Parameters(prepared)) {
        return Ok(Err(stop));
    }
    let mut rows = prepared.raw_query();
    while let Some(row) = rows.next()? {
        if let Err(stop) = each(row.as_ref(), Some(row)) {
            return Ok(Err(stop));
        }
    }
    drop(rows);
    Ok(each(prepared, None))
}

/// Reads on a connection that a read was lent: tells `each` the names of the columns, and then each
/// row, until it returns `false`.
///
/// # Errors
///
/// What SQLite says.
pub fn read_each(
    connection: &Connection,
    statement: &Statement,
    mut each: impl FnMut(Part) -> bool,
) -> rusqlite::Result<()> {
    let mut prepared = connection.prepare_cached(statement.sql())?;
    tell(&mut prepared, statement, &mut each)
}

/// A part of what a statement returns.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// The names of the columns: once, before the rows.
    Columns(Vec<String>),
    /// A row.
    Row(Vec<Value>),
}

fn tell(
    prepared: &mut rusqlite::Statement<'_>,
    statement: &Statement,
    each: &mut dyn FnMut(Part) -> bool,
) -> rusqlite::Result<()> {
    let mut is_first = true;
    each_row(prepared, statement, &mut |row| {
        // Looked at only now: the first step prepares the statement again if the schema has
        // changed since, and `*` may then stand for other columns.
        let columns = row.as_ref();
        if std::mem::take(&mut is_first) && !each(Part::Columns(names_of(columns))) {
            return Ok(false);
        }
        let values = (0..columns.column_count()).map(|column| row.get(column));
        let row = values.map(|value| value.map(|Column(value)| value));
        Ok(each(Part::Row(row.collect::<rusqlite::Result<_>>()?)))
    })?;
    if is_first && prepared.column_count() > 0 {
        each(Part::Columns(names_of(prepared)));
    }
    Ok(())
}

/// Binds the parameters and gives each row to `each`, until that returns `false`.
pub(crate) fn each_row(
    prepared: &mut rusqlite::Statement<'_>,
    statement: &Statement,
    each: &mut dyn FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<bool>,
) -> rusqlite::Result<()> {
    bind(prepared, statement)?;
    if prepared.column_count() == 0 {
        return prepared.raw_execute().map(|_| ());
    }
    let mut cursor = prepared.raw_query();
    while let Some(row) = cursor.next()? {
        if !each(row)? {
            break;
        }
    }
    Ok(())
}

fn bind(prepared: &mut rusqlite::Statement<'_>, statement: &Statement) -> rusqlite::Result<()> {
    let count = prepared.parameter_count();
    let Some(named) = statement.named_params() else {
        let params = statement.params();
        if params.len() != count {
            return Err(rusqlite::Error::InvalidParameterCount(params.len(), count));
        }
        let mut params = (1..).zip(params);
        return params
            .try_for_each(|(index, value)| prepared.raw_bind_parameter(index, Bound(value)));
    };
    for index in 1..=count {
        let name = prepared.parameter_name(index).unwrap_or("?");
        let Some((_, value)) = named.iter().find(|(given, _)| name.get(1..) == Some(given)) else {
            return Err(rusqlite::Error::InvalidParameterName(name.to_owned()));
        };
        prepared.raw_bind_parameter(index, Bound(value))?;
    }
    Ok(())
}

fn names_of(prepared: &rusqlite::Statement<'_>) -> Vec<String> {
    prepared.column_names().map(str::to_owned).collect()
}

fn collect(
    prepared: &mut rusqlite::Statement<'_>,
    statement: &Statement,
) -> rusqlite::Result<StatementResult> {
    let mut result = StatementResult::default();
    tell(prepared, statement, &mut |part| {
        match part {
            Part::Columns(names) => result.columns = names,
            Part::Row(row) => result.rows.push(row),
        }
        true
    })?;
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
