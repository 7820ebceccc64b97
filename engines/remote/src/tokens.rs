//! The tokens of transactions that take effect once: a table of the database itself.
//!
//! Rows are numbered in the order of their insertion and removed from the lowest number on, so the
//! numbers say how many there are at most, and the oldest are found without an index. A number that the
//! server gave to a transaction which was then rolled back counts too.

use std::{io, sync::Arc};

use groupcommit_core::{Cause, KeepTokens, Token, TokenRecord};
use groupcommit_statement::Value;

use crate::{Alone as _, Error, Protocol, Transaction, Writer};

/// The statements of one server's dialect.
#[derive(Debug, Clone, Copy)]
pub struct TokenSql {
    /// Creates the table where it is missing.
    pub create: &'static str,
    /// Fingerprint, result and time of an id.
    pub find: &'static str,
    /// Inserts id, fingerprint, result and time.
    pub keep: &'static str,
    /// Removes the rows up to a number.
    pub forget: &'static str,
}

/// The span of the numbers.
const COUNT: &str = "SELECT coalesce(max(number) - min(number) + 1, 0) FROM _groupcommit_tokens";

/// Longest id, in bytes: what every server keeps in an index.
const ID_BYTES_MAX: usize = 255;

/// Creates the table where it is missing.
pub(crate) fn create<P: Protocol>(writer: &mut Writer<P>) -> Result<(), Error<P>> {
    let mut alone = P::alone(writer)?;
    // The first attempt can fail because another process creates the table at the same moment.
    if alone.batch(P::TOKENS.create).is_err() {
        alone.batch(P::TOKENS.create)?;
    }
    alone.end().map(drop).map_err(|error| Error::Lost(Some(error)))
}

impl<P: Protocol> KeepTokens for Writer<P> {
    /// A server may end a transaction in which a table is created, so opening the database did that.
    fn create_tokens(_: &mut Transaction<'_, P>) -> Result<bool, Cause> {
        Ok(false)
    }

    fn find_token(tx: &mut Transaction<'_, P>, id: &[u8]) -> Result<Option<TokenRecord>, Cause> {
        if id.len() > ID_BYTES_MAX {
            let message =
                format!("a token's id has {} bytes; at most {ID_BYTES_MAX} are kept", id.len());
            return Err(Arc::new(io::Error::new(io::ErrorKind::InvalidInput, message)));
        }
        let rows = tx.query(P::TOKENS.find, [Value::Bytes(id.to_vec())]).map_err(cause)?;
        let Some(row) = rows.into_iter().next() else { return Ok(None) };
        match <[Value; 3]>::try_from(row) {
            Ok([Value::Bytes(fingerprint), Value::Bytes(result), Value::Int(created)]) => {
                let created_unix_s = created.unsigned_abs();
                Ok(Some(TokenRecord { token: Token::new(id, fingerprint), result, created_unix_s }))
            }
            _ => Err(foreign()),
        }
    }

    fn keep_token(
        tx: &mut Transaction<'_, P>,
        record: &TokenRecord,
        tokens_max: u64,
    ) -> Result<bool, Cause> {
        if integer(&tx.query(COUNT, []).map_err(cause)?, 0)? >= tokens_max {
            return Ok(false);
        }
        let created = i64::try_from(record.created_unix_s).unwrap_or(i64::MAX);
        let row = [
            Value::Bytes(record.token.id().to_vec()),
            Value::Bytes(record.token.fingerprint().to_vec()),
            Value::Bytes(record.result.clone()),
            Value::Int(created),
        ];
        tx.execute(P::TOKENS.keep, row).map(|_| true).map_err(cause)
    }

    fn forget_tokens(
        tx: &mut Transaction<'_, P>,
        until_unix_s: u64,
        at_most: u64,
    ) -> Result<(), Cause> {
        let sql = format!(
            "SELECT created_unix_s, number FROM _groupcommit_tokens ORDER BY number LIMIT {at_most}"
        );
        let rows = tx.query(sql, []).map_err(cause)?;
        // The first that is young ends it.
        let is_old = |row: &&Vec<Value>| matches!(row[..], [Value::Int(created), _] if created.unsigned_abs() <= until_unix_s);
        let Some([_, last]) = rows.iter().take_while(is_old).last().map(Vec::as_slice) else {
            return Ok(());
        };
        tx.execute(P::TOKENS.forget, [last.clone()]).map(drop).map_err(cause)
    }
}

/// A number of the first row.
fn integer(rows: &[Vec<Value>], column: usize) -> Result<u64, Cause> {
    match rows.first().and_then(|row| row.get(column)) {
        Some(Value::Int(number)) => Ok(number.unsigned_abs()),
        Some(Value::Text(number)) => number.parse().map_err(|_| foreign()),
        _ => Err(foreign()),
    }
}

fn foreign() -> Cause {
    Arc::new(io::Error::other("the table `_groupcommit_tokens` was not made by groupcommit"))
}

fn cause<P: Protocol>(error: Error<P>) -> Cause {
    Arc::new(error)
}
