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

/// Reads all rows, or the first alone, and puts their values into `values`, one after the other. Returns
/// the names of the columns, where they are not `known` and there is a row, or the number of rows. Or an
/// array with nothing but the description of a failure.
pub(crate) fn now(
    database: &Database,
    statement: &Statement,
    first_alone: bool,
    known: &RefCell<Vec<String>>,
    mut values: Array,
    make: Maker,
) -> Result<Handle> {
    if let Some(sqlite) = database.as_sqlite() {
        return now_in_sqlite(sqlite, statement, first_alone, known, values, make);
    }
    let read = if first_alone { first_row(database, statement) } else { database.read(statement) };
    let result = match read {
        Ok(result) => result,
        Err(failure) => return make.only(failure.tell(make)?),
    };
    result.rows.iter().flatten().try_for_each(|value| values.push(make.value(value)?))?;
    if result.rows.is_empty() { make.double(0.0) } else { make.texts(&result.columns) }
}

fn now_in_sqlite(
    sqlite: &sqlite::Database,
    statement: &Statement,
    first_alone: bool,
    known: &RefCell<Vec<String>>,
    mut values: Array,
    make: Maker,
) -> Result<Handle> {
    let (mut rows, mut names) = (0_u32, None);
    let read = sqlite.read_statement(statement, |row| {
        let count = row.as_ref().column_count();
        if rows == 0 {
            names = unknown_names(row, count, known, make)?;
        }
        for column in 0..count {
            push(&mut values, row, column, make)?;
        }
        rows += 1;
        Ok(!first_alone)
    });
    match (read, names) {
        (Ok(()), Some(names)) => Ok(names),
        (Ok(()), None) => make.double(rows.into()),
        (Err(failure), _) => {
            // JavaScript is not told them.
            known.borrow_mut().clear();
            make.only(failure.map_caller(|error| Error::of(Arc::new(error))).tell(make)?)
        }
    }
}

/// The names of the columns, unless they are those that are `known`.
fn unknown_names(
    row: &Row<'_>,
    count: usize,
    known: &RefCell<Vec<String>>,
    make: Maker,
) -> rusqlite::Result<Option<Handle>> {
    let columns = row.as_ref();
    let mut known = known.borrow_mut();
    let are_known = known.len() == count
        && (0..count).all(|column| columns.column_name(column).is_ok_and(|it| it == known[column]));
    if are_known {
        return Ok(None);
    }
    *known = columns.column_names().map(str::to_owned).collect();
    make.texts(&known).map(Some).map_err(of_node)
}

fn push(values: &mut Array, row: &Row<'_>, column: usize, make: Maker) -> rusqlite::Result<()> {
    let value = match row.get_ref(column)? {
        ValueRef::Null => make.null(),
        ValueRef::Integer(value) => make.integer(value),
        ValueRef::Real(value) => make.double(value),
        ValueRef::Blob(value) => make.bytes(value),
        ValueRef::Text(value) => make.text(
            str::from_utf8(value).map_err(|error| rusqlite::Error::Utf8Error(column, error))?,
        ),
    };
    value.and_then(|value| values.push(value)).map_err(of_node)
}

/// An error of Node's, where one of the database's is expected.
#[expect(clippy::needless_pass_by_value, reason = "what a result is mapped with")]
fn of_node(error: napi::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(error.reason.clone().into())
}
