//! Transactions as plain data: SQL statements with parameters, and what they return, the same for
//! every engine that speaks SQL.
//!
//! Each engine binds a [`Value`] in the type that its statement asks for, and says in its own
//! documentation which types of columns become which value; what no variant has a place for (a
//! date, a number of any precision, a UUID) travels as [`Value::Text`].

use std::{error::Error, fmt, sync::Arc};

/// One value of a row or a parameter.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// No value.
    Null,
    /// True or false. An engine without the type keeps 1 or 0, and reads an integer back.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number in binary floating point.
    Float(f64),
    /// Text, and as a parameter whatever the engine reads from text.
    Text(String),
    /// Bytes as they are.
    Bytes(Vec<u8>),
}

macro_rules! value_from {
    ($($from:ty => $variant:ident),+ $(,)?) => {
        $(impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        })+
    };
}

value_from!(bool => Bool, i16 => Int, i32 => Int, i64 => Int, u32 => Int, f32 => Float, f64 => Float,
    &str => Text, String => Text, &[u8] => Bytes, Vec<u8> => Bytes);

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

macro_rules! try_from_value {
    ($($to:ty, $name:literal, $($pattern:pat => $value:expr),+;)+) => {
        $(impl TryFrom<Value> for $to {
            type Error = WrongType;

            /// Takes the value out, if it is one of this type.
            fn try_from(value: Value) -> Result<Self, WrongType> {
                match value {
                    $($pattern => Ok($value),)+
                    other => Err(WrongType { expected: $name, found: other.type_name() }),
                }
            }
        })+
    };
}

try_from_value! {
    bool, "a boolean", Value::Bool(it) => it, Value::Int(it @ (0 | 1)) => it == 1;
    i64, "an integer", Value::Int(it) => it;
    f64, "a floating-point number", Value::Float(it) => it;
    String, "text", Value::Text(it) => it;
    Vec<u8>, "bytes", Value::Bytes(it) => it;
}

/// A value is of another type than was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrongType {
    /// What was asked for.
    pub expected: &'static str,
    /// What the value is.
    pub found: &'static str,
}

impl fmt::Display for WrongType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the value is {}, not {}", self.found, self.expected)
    }
}

impl Error for WrongType {}

impl Value {
    /// Whether it is [`Value::Null`].
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The boolean that it is, or stands for as 1 or 0.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(it) => Some(it),
            Self::Int(it @ (0 | 1)) => Some(it == 1),
            _ => None,
        }
    }

    /// The whole number that it is.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        if let Self::Int(it) = *self { Some(it) } else { None }
    }

    /// The floating-point number that it is.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        if let Self::Float(it) = *self { Some(it) } else { None }
    }

    /// The text that it is.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::Text(it) = self { Some(it) } else { None }
    }

    /// The bytes that it is; those of text are not.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        if let Self::Bytes(it) = self { Some(it) } else { None }
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a floating-point number",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytes",
        }
    }

    /// Memory that the value holds, itself included, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let held = match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        size_of::<Self>() + held
    }
}

/// One SQL statement with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    sql: Arc<str>,
    params: Params,
}

#[derive(Debug, Clone, PartialEq)]
enum Params {
    InTurn(Vec<Value>),
    Named(Vec<(String, Value)>),
}

impl Statement {
    /// A statement; `params` are bound to its placeholders in turn. Placeholders are the engine's
    /// own: `?1` in SQLite, `$1` in PostgreSQL, `?` in MySQL and MariaDB.
    pub fn new(sql: impl Into<Arc<str>>, params: impl IntoIterator<Item = Value>) -> Self {
        Self { sql: sql.into(), params: Params::InTurn(params.into_iter().collect()) }
    }

    /// A statement whose `params` are bound by name, which SQLite alone does: `:id`, `@id` or `$id`,
    /// given as `id`. Names that the statement does not have are ignored. Other engines see no
    /// parameters.
    pub fn named(
        sql: impl Into<Arc<str>>,
        params: impl IntoIterator<Item = (String, Value)>,
    ) -> Self {
        Self { sql: sql.into(), params: Params::Named(params.into_iter().collect()) }
    }

    /// Its text.
    #[must_use]
    pub fn sql(&self) -> &Arc<str> {
        &self.sql
    }

    /// Its parameters, in turn; none where they have names.
    #[must_use]
    pub fn params(&self) -> &[Value] {
        match &self.params {
            Params::InTurn(params) => params,
            Params::Named(_) => &[],
        }
    }

    /// Its parameters with their names, where they have any.
    #[must_use]
    pub fn named_params(&self) -> Option<&[(String, Value)]> {
        match &self.params {
            Params::InTurn(_) => None,
            Params::Named(params) => Some(params),
        }
    }

    /// Memory that the statement holds, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let params = match &self.params {
            Params::InTurn(params) => params.iter().map(Value::bytes).sum::<usize>(),
            Params::Named(params) => {
                params.iter().map(|(name, value)| name.len() + value.bytes()).sum()
            }
        };
        self.sql.len() + params
    }
}

/// What one statement came to.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct StatementResult {
    /// Rows that the statement inserted, updated or deleted, as the engine counts them.
    pub rows_affected: u64,
    /// The number that the engine gave to the row inserted last, where it says so: SQLite's rowid,
    /// MySQL's `AUTO_INCREMENT`. PostgreSQL says it by `RETURNING`.
    pub last_insert_id: Option<i64>,
    /// The names of the columns, for a statement that returns rows.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Value>>,
}

impl StatementResult {
    /// The place of the column of this name in each row; the first, where several have it.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The value in the column of this name, in the row of this number.
    #[must_use]
    pub fn value(&self, row: usize, name: &str) -> Option<&Value> {
        self.rows.get(row)?.get(self.column(name)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_taken_as_its_own_type_alone() {
        assert_eq!(i64::try_from(Value::Int(7)), Ok(7));
        assert_eq!(bool::try_from(Value::Int(1)), Ok(true), "as an engine without the type has it");
        assert_eq!(String::try_from(Value::from("a")).as_deref(), Ok("a"));
        let wrong = i64::try_from(Value::from("7")).unwrap_err();
        assert_eq!(wrong.to_string(), "the value is text, not an integer");
        assert!(Value::from(None::<i64>).is_null() && Value::Null.as_i64().is_none());
        assert_eq!((Value::Int(2).as_bool(), Value::Bool(true).as_bool()), (None, Some(true)));
    }

    #[test]
    fn columns_are_found_by_name() {
        let result = StatementResult {
            columns: vec!["id".into(), "name".into()],
            rows: vec![vec![Value::Int(1), Value::from("a")]],
            ..StatementResult::default()
        };
        assert_eq!(result.value(0, "name").and_then(Value::as_str), Some("a"));
        assert_eq!((result.value(1, "name"), result.value(0, "none")), (None, None));
    }
}
