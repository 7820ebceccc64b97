//! Transactions as plain data: SQL statements with parameters, and what they return, the same for
//! every engine that speaks SQL.
//!
//! Each engine binds a [`Value`] in the type that its statement asks for, and says in its own
//! documentation which types of columns become which value; what no variant has a place for (a
//! date, a number of any precision, a UUID) travels as [`Value::Text`].

use std::sync::Arc;

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

impl Value {
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
    params: Vec<Value>,
}

impl Statement {
    /// A statement; `params` are bound to its placeholders in turn. Placeholders are the engine's
    /// own: `?1` in SQLite, `$1` in PostgreSQL, `?` in MySQL and MariaDB.
    pub fn new(sql: impl Into<Arc<str>>, params: impl IntoIterator<Item = Value>) -> Self {
        Self { sql: sql.into(), params: params.into_iter().collect() }
    }

    /// Its text.
    #[must_use]
    pub fn sql(&self) -> &Arc<str> {
        &self.sql
    }

    /// Its parameters, in turn.
    #[must_use]
    pub fn params(&self) -> &[Value] {
        &self.params
    }

    /// Memory that the statement holds, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.sql.len() + self.params.iter().map(Value::bytes).sum::<usize>()
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
