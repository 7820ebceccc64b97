//! Tokens, by which a pipeline knows a transaction again, and how long it keeps them.

use std::{sync::Arc, time::Duration};

use crate::sync::atomic::AtomicU64;

/// What tells a transaction from all others, chosen by the caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Token {
    id: Arc<[u8]>,
    fingerprint: Arc<[u8]>,
}

impl Token {
    /// A token whose `id` belongs to one transaction alone, such as a random number of 128 bits.
    /// `fingerprint` is what the caller asks of the transaction, or a hash of it: under the same id,
    /// another fingerprint is an error instead of a repetition.
    pub fn new(id: impl Into<Arc<[u8]>>, fingerprint: impl Into<Arc<[u8]>>) -> Self {
        Self { id: id.into(), fingerprint: fingerprint.into() }
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> &[u8] {
        &self.id
    }

    /// What was asked under it.
    #[must_use]
    pub fn fingerprint(&self) -> &[u8] {
        &self.fingerprint
    }
}

/// What a transaction left with its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// Its token.
    pub token: Token,
    /// What its closure returned.
    pub result: Vec<u8>,
    /// When it ran, in seconds since 1970.
    pub created_unix_s: u64,
}

/// How long tokens are kept, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenLimits {
    /// For how long a repetition is recognised, at least.
    pub lifetime: Duration,
    /// The most tokens that are kept.
    pub tokens: u64,
}

impl Default for TokenLimits {
    /// 24 hours, and 10,000,000 tokens.
    fn default() -> Self {
        Self { lifetime: Duration::from_hours(24), tokens: 10_000_000 }
    }
}

impl TokenLimits {
    pub(crate) fn expired_unix_s(self, now_unix_s: u64) -> u64 {
        now_unix_s.saturating_sub(self.lifetime.as_secs())
    }
}

/// What a pipeline knows of its tokens.
#[derive(Debug)]
pub(crate) struct Tokens {
    pub(crate) limits: TokenLimits,
    pub(crate) submitted: AtomicU64,
}

impl Tokens {
    pub(crate) fn new(limits: TokenLimits) -> Self {
        Self { limits, submitted: AtomicU64::new(0) }
    }
}
