//! Exactly once, where asked: a transaction that leaves a token in its own commit.
//!
//! ```text
//! look for the token ──► found: its result, and the closure is not called
//!        └──► not found: the closure, and then token, fingerprint and result beside what it wrote
//! ```
//!
//! Invariants:
//! 1. Token and effect are in the same commit: both are there, or neither.
//! 2. A token is kept for [`TokenLimits::lifetime`] at least. Where there is no room for another, the
//!    transaction is rejected; no younger token is given up for it.

use std::{convert::Infallible, error::Error, fmt, sync::Arc};

use crate::{
    Engine,
    outcome::{Cause, Failure},
    submit::Submitter,
    sync::atomic::Ordering,
    terms::Terms,
    ticket::Ticket,
    tokens::{Token, TokenLimits, TokenRecord},
};

/// Number of transactions with a token between two removals of old tokens; a removal takes up to twice as many.
const CLEANED_EVERY: u64 = 1_024;

/// What a transaction with a token came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    /// What its closure returned, now or when it ran.
    pub result: Vec<u8>,
    /// It had been committed before, and was not run again.
    pub is_repeated: bool,
}

/// Why a transaction with a token was rejected.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum OnceError<X> {
    /// Its closure returned this error.
    Caller(X),
    /// The token belongs to a transaction with another fingerprint.
    Reused,
    /// There are as many tokens as [`TokenLimits::tokens`] allows, none of them old enough to go.
    Full,
    /// The engine could not look for the token or keep it.
    Engine(Cause),
}

impl<X: fmt::Display> fmt::Display for OnceError<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caller(error) => write!(f, "{error:#}"),
            Self::Reused => f.write_str("the token belongs to another transaction"),
            Self::Full => f.write_str(
                "the table of tokens is full; shorten their lifetime or allow more of them",
            ),
            Self::Engine(cause) => write!(f, "the token could not be kept: {cause}"),
        }
    }
}

impl<X: fmt::Debug + fmt::Display> Error for OnceError<X> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Engine(cause) => cause.source(),
            Self::Caller(_) | Self::Reused | Self::Full => None,
        }
    }
}

/// An engine whose transactions can leave tokens; each method works inside one of them.
pub trait KeepTokens: Engine {
    /// Makes room for tokens where there is none yet; `false` where only opening the database can.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn create_tokens(tx: &mut Self::Transaction<'_>) -> Result<bool, Cause>;

    /// What is kept under this id.
    ///
    /// # Errors
    ///
    /// The engine's; also where there is no room for tokens yet.
    fn find_token(tx: &mut Self::Transaction<'_>, id: &[u8]) -> Result<Option<TokenRecord>, Cause>;

    /// Keeps a record whose id is not there; `false` when there are `tokens_max` already.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn keep_token(
        tx: &mut Self::Transaction<'_>,
        record: &TokenRecord,
        tokens_max: u64,
    ) -> Result<bool, Cause>;

    /// Removes the oldest records, up to `at_most`, of those no younger than `until_unix_s`.
    ///
    /// # Errors
    ///
    /// The engine's.
    fn forget_tokens(
        tx: &mut Self::Transaction<'_>,
        until_unix_s: u64,
        at_most: u64,
    ) -> Result<(), Cause>;
}

impl<E: KeepTokens> Submitter<E> {
    /// `transaction`, to be submitted in any of the ways there are, that takes effect once however
    /// often it is submitted under `token`.
    ///
    /// Its token, fingerprint and result are committed with it. When the token is there already, the
    /// closure is not called, and the result is the one that was kept. A transaction that is rejected
    /// leaves no token. So whatever became of a submission (a lost answer, a crash, an unknown
    /// outcome), it can be submitted again, for as long as [`TokenLimits::lifetime`] says; or
    /// [`outcome_of`](Self::outcome_of) says what became of it.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let token = Token::new(request.id, hash(&request.body));
    /// let pay = move |tx: &mut Transaction<'_>| {
    ///     tx.execute("UPDATE accounts SET balance = balance - 10 WHERE id = 7", ())?;
    ///     Ok::<_, rusqlite::Error>(b"paid".to_vec())
    /// };
    /// let once = db.transact(db.once(token, pay))?;
    /// ```
    pub fn once<X, F>(
        &self,
        token: Token,
        mut transaction: F,
    ) -> impl FnMut(&mut E::Transaction<'_>) -> Result<Once, OnceError<X>> + Send + 'static + use<E, X, F>
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<Vec<u8>, X> + Send + 'static,
        X: Send + 'static,
    {
        self.clean_tokens();
        let (limits, clock) = (self.shared.tokens.limits, self.shared.clock.clone());
        move |tx| {
            if let Some(kept) = find::<E>(tx, token.id()).map_err(OnceError::Engine)? {
                let is_same = kept.token.fingerprint() == token.fingerprint();
                let once = Once { result: kept.result, is_repeated: true };
                return if is_same { Ok(once) } else { Err(OnceError::Reused) };
            }
            let result = transaction(tx).map_err(OnceError::Caller)?;
            let record =
                TokenRecord { token: token.clone(), result, created_unix_s: clock.unix_s() };
            if keep::<E>(tx, &record, limits).map_err(OnceError::Engine)? {
                Ok(Once { result: record.result, is_repeated: false })
            } else {
                Err(OnceError::Full)
            }
        }
    }

    /// What became of the transaction with the token of this id: what it left, or `None`, when it is
    /// not committed and only submitting it again can change that.
    ///
    /// Everything submitted before this call is executed first. The ticket resolves when what it says
    /// is durable.
    pub fn outcome_of(
        &self,
        id: impl Into<Arc<[u8]>>,
    ) -> Ticket<Option<TokenRecord>, OnceError<Infallible>> {
        let id = id.into();
        self.submit(move |tx| find::<E>(tx, &id).map_err(OnceError::Engine))
    }

    /// As [`outcome_of`](Self::outcome_of), without blocking.
    ///
    /// # Errors
    ///
    /// The [`Failure`] of looking for it.
    ///
    /// # Cancel safety
    ///
    /// As of [`transact_async`](Self::transact_async).
    pub async fn outcome_of_async(
        &self,
        id: impl Into<Arc<[u8]>>,
    ) -> Result<Option<TokenRecord>, Failure<OnceError<Infallible>>> {
        let id = id.into();
        self.transact_async(move |tx| find::<E>(tx, &id).map_err(OnceError::Engine)).await
    }

    /// Has old tokens removed now and then, by a transaction that nobody waits for.
    fn clean_tokens(&self) {
        let tokens = &self.shared.tokens;
        if tokens.submitted.fetch_add(1, Ordering::Relaxed).is_multiple_of(CLEANED_EVERY) {
            let until = tokens.limits.expired_unix_s(self.shared.clock.unix_s());
            let forget = move |tx: &mut E::Transaction<'_>| {
                E::create_tokens(tx)?;
                E::forget_tokens(tx, until, 2 * CLEANED_EVERY)
            };
            // Where there is no room, the next takes its place.
            drop(self.with(Terms::new()).try_submit(forget));
        }
    }
}

fn find<E: KeepTokens>(
    tx: &mut E::Transaction<'_>,
    id: &[u8],
) -> Result<Option<TokenRecord>, Cause> {
    // The first of all tokens: there may be no room for them.
    E::find_token(tx, id)
        .or_else(|cause| if E::create_tokens(tx)? { E::find_token(tx, id) } else { Err(cause) })
}

fn keep<E: KeepTokens>(
    tx: &mut E::Transaction<'_>,
    record: &TokenRecord,
    limits: TokenLimits,
) -> Result<bool, Cause> {
    if E::keep_token(tx, record, limits.tokens)? {
        return Ok(true);
    }
    E::forget_tokens(tx, limits.expired_unix_s(record.created_unix_s), CLEANED_EVERY)?;
    E::keep_token(tx, record, limits.tokens)
}
