//! The tokens of transactions that take effect once: a table in the database itself.
//!
//! Rows are numbered in the order of their insertion and removed from the lowest number on, so the
//! numbers say how many there are, and the oldest are found without an index.

use std::sync::Arc;

use groupcommit_core::{Cause, KeepTokens, Token, TokenRecord};
use rusqlite::{OptionalExtension as _, params};

use crate::{Transaction, engine::Writer};

impl KeepTokens for Writer {
    fn create_tokens(tx: &mut Transaction<'_>) -> Result<bool, Cause> {
        let sql = "CREATE TABLE IF NOT EXISTS main._groupcommit_tokens (
            number INTEGER PRIMARY KEY,
            id BLOB NOT NULL UNIQUE,
            fingerprint BLOB NOT NULL,
            result BLOB NOT NULL,
            created_unix_s INTEGER NOT NULL
        )";
        tx.execute(sql, ()).map(|_| true).map_err(cause)
    }

    fn find_token(tx: &mut Transaction<'_>, id: &[u8]) -> Result<Option<TokenRecord>, Cause> {
        let sql = "SELECT fingerprint, result, created_unix_s
            FROM main._groupcommit_tokens WHERE id = ?1";
        let found = tx.query_row(sql, [id], |row| {
            Ok(TokenRecord {
                token: Token::new(id, row.get::<_, Vec<u8>>(0)?),
                result: row.get(1)?,
                created_unix_s: row.get::<_, i64>(2)?.unsigned_abs(),
            })
        });
        found.optional().map_err(cause)
    }

    fn keep_token(
        tx: &mut Transaction<'_>,
        record: &TokenRecord,
        tokens_max: u64,
    ) -> Result<bool, Cause> {
        let sql = "INSERT INTO main._groupcommit_tokens (id, fingerprint, result, created_unix_s)
            SELECT ?1, ?2, ?3, ?4 WHERE ?5 > coalesce(
                (SELECT max(number) FROM main._groupcommit_tokens)
                    - (SELECT min(number) FROM main._groupcommit_tokens) + 1,
                0)";
        let (id, fingerprint) = (record.token.id(), record.token.fingerprint());
        let (created, max) = (integer(record.created_unix_s), integer(tokens_max));
        let row = params![id, fingerprint, record.result, created, max];
        tx.execute(sql, row).map(|rows| rows > 0).map_err(cause)
    }

    fn forget_tokens(
        tx: &mut Transaction<'_>,
        until_unix_s: u64,
        at_most: u64,
    ) -> Result<(), Cause> {
        // The first that is young ends it, so that what is left has no holes.
        let sql = "DELETE FROM main._groupcommit_tokens WHERE number < coalesce(
            (SELECT number FROM
                (SELECT number, created_unix_s FROM main._groupcommit_tokens
                    ORDER BY number LIMIT ?2)
                WHERE created_unix_s > ?1 ORDER BY number LIMIT 1),
            (SELECT min(number) FROM main._groupcommit_tokens) + ?2)";
        tx.execute(sql, [integer(until_unix_s), integer(at_most)]).map(drop).map_err(cause)
    }
}

/// SQLite has no larger integers.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn cause(error: rusqlite::Error) -> Cause {
    Arc::new(error)
}
