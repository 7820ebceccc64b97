//! Results that are kept with a token, and what a token stands for.

use groupcommit::{
    Failure, Once, OnceError, Token, TokenRecord,
    sql::{Database, Error, Statement, StatementResult, Value},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// What a transaction with a token came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Repeatable {
    /// Its results, now or when it ran.
    pub results: Vec<StatementResult>,
    /// It had been committed before, and was not run again.
    pub is_repeated: bool,
}

impl Repeatable {
    /// Runs `statements` once, however often they are submitted under the token with this name.
    ///
    /// # Errors
    ///
    /// The [`Failure`] that the transaction came to.
    ///
    /// # Cancel safety
    ///
    /// As of [`Database::transact_once`].
    pub async fn run(
        database: &Database,
        name: &[u8],
        statements: Vec<Statement>,
    ) -> Result<Self, Failure<OnceError<Error>>> {
        let token = token(name, &statements);
        let Once { result, is_repeated } =
            database.transact_once(token, statements, encode).await?;
        Ok(Self { results: decode(&result), is_repeated })
    }
}

/// The results that a transaction left with its token.
#[must_use]
pub fn kept_results(record: &TokenRecord) -> Vec<StatementResult> {
    decode(&record.result)
}

/// The token with this name; its fingerprint is a hash of the statements.
#[must_use]
pub fn token(name: &[u8], statements: &[Statement]) -> Token {
    let mut hash = Sha256::new();
    for statement in statements {
        let in_turn: Vec<Cell> = statement.params().iter().map(Cell::of).collect();
        let named = statement.named_params().unwrap_or_default();
        let named: Vec<_> = named.iter().map(|(name, value)| (name, Cell::of(value))).collect();
        let written = rmp_serde::to_vec(&(&**statement.sql(), in_turn, named));
        hash.update(written.unwrap_or_default());
    }
    Token::new(name.to_vec(), hash.finalize().to_vec())
}

/// A value as it is kept.
#[derive(Serialize, Deserialize)]
enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Cell {
    fn of(value: &Value) -> Self {
        match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Float(value) => Self::Float(*value),
            Value::Text(value) => Self::Text(value.clone()),
            Value::Bytes(value) => Self::Bytes(value.clone()),
            _ => Self::Null,
        }
    }

    fn into_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::Int(value),
            Self::Float(value) => Value::Float(value),
            Self::Text(value) => Value::Text(value),
            Self::Bytes(value) => Value::Bytes(value),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Kept {
    rows_affected: u64,
    last_insert_id: Option<i64>,
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

fn encode(results: &[StatementResult]) -> Vec<u8> {
    let kept = results.iter().map(|result| Kept {
        rows_affected: result.rows_affected,
        last_insert_id: result.last_insert_id,
        columns: result.columns.clone(),
        rows: result.rows.iter().map(|row| row.iter().map(Cell::of).collect()).collect(),
    });
    // Writing to memory does not fail.
    rmp_serde::to_vec(&kept.collect::<Vec<_>>()).unwrap_or_default()
}

/// None where something else than this module wrote them.
fn decode(bytes: &[u8]) -> Vec<StatementResult> {
    let kept: Vec<Kept> = rmp_serde::from_slice(bytes).unwrap_or_default();
    let results = kept.into_iter().map(|kept| {
        let mut result = StatementResult::default();
        result.rows_affected = kept.rows_affected;
        result.last_insert_id = kept.last_insert_id;
        result.columns = kept.columns;
        let rows = kept.rows.into_iter();
        result.rows = rows.map(|row| row.into_iter().map(Cell::into_value).collect()).collect();
        result
    });
    results.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_kept_as_they_are() {
        let mut result = StatementResult::default();
        result.rows_affected = 2;
        result.last_insert_id = Some(-7);
        result.columns = vec!["a".into(), "b".into()];
        result.rows = vec![
            vec![Value::Null, Value::Int(i64::MIN)],
            vec![Value::Float(0.1), Value::Text("ä\0".into())],
            vec![Value::Bytes(vec![0, 255]), Value::Bool(true)],
        ];
        let results = vec![result, StatementResult::default()];
        assert_eq!(decode(&encode(&results)), results);
    }

    #[test]
    fn a_fingerprint_tells_statements_apart() {
        let of = |sql: &str, value: Value| token(b"a", &[Statement::new(sql, [value])]);
        assert_eq!(of("a", 1.into()), of("a", 1.into()));
        assert_ne!(of("a", 1.into()), of("a", "1".into()));
        assert_ne!(of("a", 1.into()), of("b", 1.into()));
        let named = Statement::named("a", [("x".to_owned(), 1.into())]);
        assert_ne!(of("a", 1.into()), token(b"a", &[named]));
    }
}
