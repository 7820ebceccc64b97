//! Columns as they come: as text, whose type says which value it becomes.
//!
//! A date, a time and a decimal number stay text, as the server writes them; `FLOAT` comes with the
//! digits that the server prints, which are fewer than it keeps. An unsigned number too large for
//! [`Value::Int`] stays text.

use groupcommit_statement::Value;
use mysql_async::{Column, Value as Raw, consts::ColumnType};

/// The number of the character set of what is no text.
const BINARY: u16 = 63;

/// The value of a column; what is not as its type says is handed out as it came.
pub(crate) fn decode(column: &Column, raw: Raw) -> Value {
    let bytes = match raw {
        Raw::NULL => return Value::Null,
        Raw::Bytes(bytes) => bytes,
        // Only the text protocol is used.
        other => return Value::Text(other.as_sql(true)),
    };
    let number = match column.column_type() {
        ColumnType::MYSQL_TYPE_TINY
        | ColumnType::MYSQL_TYPE_SHORT
        | ColumnType::MYSQL_TYPE_INT24
        | ColumnType::MYSQL_TYPE_LONG
        | ColumnType::MYSQL_TYPE_LONGLONG
        | ColumnType::MYSQL_TYPE_YEAR => parsed(&bytes).map(Value::Int),
        ColumnType::MYSQL_TYPE_FLOAT | ColumnType::MYSQL_TYPE_DOUBLE => {
            parsed(&bytes).map(Value::Float)
        }
        ColumnType::MYSQL_TYPE_BIT | ColumnType::MYSQL_TYPE_GEOMETRY => return Value::Bytes(bytes),
        ColumnType::MYSQL_TYPE_TINY_BLOB
        | ColumnType::MYSQL_TYPE_MEDIUM_BLOB
        | ColumnType::MYSQL_TYPE_LONG_BLOB
        | ColumnType::MYSQL_TYPE_BLOB
        | ColumnType::MYSQL_TYPE_VAR_STRING
        | ColumnType::MYSQL_TYPE_VARCHAR
        | ColumnType::MYSQL_TYPE_STRING
            if column.character_set() == BINARY =>
        {
            return Value::Bytes(bytes);
        }
        _ => None,
    };
    number.unwrap_or_else(|| match String::from_utf8(bytes) {
        Ok(text) => Value::Text(text),
        Err(error) => Value::Bytes(error.into_bytes()),
    })
}

fn parsed<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}
