//! The tokens of transactions that take effect once: in a column family of their own.

use std::sync::Arc;

use groupcommit_core::{Cause, KeepTokens, TokenMap, TokenRecord};

use crate::{Error, Transaction, engine::Writer};

/// The column family's name.
pub(crate) const TOKENS: &str = "_groupcommit_tokens";

impl KeepTokens for Writer {
    /// Opening the database did that, or was not asked to.
    fn create_tokens(_: &mut Transaction<'_>) -> Result<bool, Cause> {
        Ok(false)
    }

    fn find_token(tx: &mut Transaction<'_>, id: &[u8]) -> Result<Option<TokenRecord>, Cause> {
        TokenMap::find_token(tx, id)
    }

    fn keep_token(
        tx: &mut Transaction<'_>,
        record: &TokenRecord,
        tokens_max: u64,
    ) -> Result<bool, Cause> {
        TokenMap::keep_token(tx, record, tokens_max)
    }

    fn forget_tokens(
        tx: &mut Transaction<'_>,
        until_unix_s: u64,
        at_most: u64,
    ) -> Result<(), Cause> {
        TokenMap::forget_tokens(tx, until_unix_s, at_most)
    }
}

fn cause(error: Error) -> Cause {
    match error {
        Error::NoColumnFamily(_) => Arc::new(Error::NoTokens),
        other => Arc::new(other),
    }
}

impl TokenMap for Transaction<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Cause> {
        self.get_cf(TOKENS, key).map_err(cause)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Cause> {
        self.put_cf(TOKENS, key, value).map_err(cause)
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), Cause> {
        self.delete_cf(TOKENS, key).map_err(cause)
    }
}
