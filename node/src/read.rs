//! Reads on JavaScript's own thread: from the row to JavaScript, with nothing in between.

use std::{cell::RefCell, sync::Arc};

use groupcommit_bindings::{
    first_row,
    groupcommit::{
        sql::{Database, Error, Statement},
        sqlite::{
            self,
            rusqlite::{self, Row, types::ValueRef},
        },
    },
};
use napi::Result;

use crate::{
    delivery::Tell as _,
    node_api::{Array, Handle, Maker},
};

/// Reads all rows, or the first alone. An array of the values of all rows, after an array of the names of
/// the columns where those are not `known`. Or an array with nothing but the description of a failure.
pub(crate) fn now(
    database: &Database,
    statement: &Statement,
    first_alone: bool,
    known: &RefCell<Vec<String>>,
    make: Maker,
) -> Result<Handle> {
    if let Some(sqlite) = database.as_sqlite() {
        return now_in_sqlite(sqlite, statement, first_alone, known, make);
    }
    let read = if first_alone { first_row(database, statement) } else { database.read(statement) };
    let result = match read {
        Ok(result) => result,
        Err(failure) => return make.only(failure.tell(make)?),
    };
    let mut told = make.array(0)?;
    if !result.rows.is_empty() {
        told.push(make.texts(&result.columns)?)?;
        result.rows.iter().flatten().try_for_each(|value| told.push(make.value(value)?))?;
    }
    Ok(told.finish())
}

fn now_in_sqlite(
    sqlite: &sqlite::Database,
    statement: &Statement,
    first_alone: bool,
    known: &RefCell<Vec<String>>,
    make: Maker,
) -> Result<Handle> {
    let mut told = None;
    let read = sqlite.read_statement(statement, |row| {
        let count = row.as_ref().column_count();
        let told = match &mut told {
            Some(told) => told,
            none => none.insert(begin(row, count, known, make)?),
        };
        for column in 0..count {
            push(told, row, column, make)?;
        }
        Ok(!first_alone)
    });
    match (read, told) {
        (Ok(()), Some(told)) => Ok(told.finish()),
        (Ok(()), None) => Ok(make.array(0)?.finish()),
        (Err(failure), _) => {
            make.only(failure.map_caller(|error| Error::of(Arc::new(error))).tell(make)?)
        }
    }
}

/// The array, with its first item.
fn begin(
    row: &Row<'_>,
    count: usize,
    known: &RefCell<Vec<String>>,
    make: Maker,
) -> rusqlite::Result<Array> {
    let columns = row.as_ref();
    let mut known = known.borrow_mut();
    let mut told = make.array(count).map_err(of_node)?;
    let are_known = known.len() == count
        && (0..count).all(|column| columns.column_name(column).is_ok_and(|it| it == known[column]));
    if !are_known {
        *known = columns.column_names().map(str::to_owned).collect();
        make.texts(&known).and_then(|names| told.push(names)).map_err(of_node)?;
    }
    Ok(told)
}

fn push(told: &mut Array, row: &Row<'_>, column: usize, make: Maker) -> rusqlite::Result<()> {
    let value = match row.get_ref(column)? {
        ValueRef::Null => make.null(),
        ValueRef::Integer(value) => make.integer(value),
        ValueRef::Real(value) => make.double(value),
        ValueRef::Blob(value) => make.bytes(value),
        ValueRef::Text(value) => make.text(
            str::from_utf8(value).map_err(|error| rusqlite::Error::Utf8Error(column, error))?,
        ),
    };
    value.and_then(|value| told.push(value)).map_err(of_node)
}

/// An error of Node's, where one of the database's is expected.
#[expect(clippy::needless_pass_by_value, reason = "what a result is mapped with")]
fn of_node(error: napi::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(error.reason.clone().into())
}
