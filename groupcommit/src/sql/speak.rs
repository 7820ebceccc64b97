//! What an engine has to say for itself to be opened by a URL: as little as can be.

use std::{convert::Infallible, future::Future};

use super::{Error, Rows, Settled, Statement, StatementResult};
use crate::{Failure, Once, OnceError, Submit, Terms, Token, TokenRecord, TransactionOf, Unknown};

/// What the statements of a transaction came to.
pub(super) type Results = Vec<StatementResult>;

/// The closure of a transaction that is plain data.
pub(super) trait Plan<S: Speak>:
    FnMut(&mut TransactionOf<'_, S::Submit>) -> Result<Results, Error> + Send + 'static
{
}

impl<S: Speak, F> Plan<S> for F where
    F: FnMut(&mut TransactionOf<'_, S::Submit>) -> Result<Results, Error> + Send + 'static
{
}

/// Why a transaction with a token is not committed.
pub(super) type OnceFailure<E> = Failure<OnceError<E>>;

/// One engine behind [`Database`](super::Database).
pub(super) trait Speak: Clone + Send + Sync + 'static {
    /// Its database.
    type Submit: Submit;

    fn database(&self) -> &Self::Submit;

    /// The closure of a transaction that is plain data.
    fn plan(statements: Vec<Statement>) -> impl Plan<Self>;

    /// A transaction with a token, where the engine keeps them.
    fn transact_once(
        &self,
        terms: Terms,
        token: Token,
        statements: Vec<Statement>,
        encode: impl Fn(&[StatementResult]) -> Vec<u8> + Send + 'static,
    ) -> impl Future<Output = Result<Once, OnceFailure<Error>>> + Send;

    /// What became of the transaction with the token of this id.
    fn outcome_of(
        &self,
        id: &[u8],
    ) -> impl Future<Output = Result<Option<TokenRecord>, OnceFailure<Infallible>>> + Send;

    fn read(&self, read: &Statement) -> Result<StatementResult, Failure<Error>>;

    /// All rows of a read at once.
    fn read_async(
        &self,
        read: &Statement,
    ) -> impl Future<Output = Result<StatementResult, Failure<Error>>> + Send;

    fn read_rows(
        &self,
        read: &Statement,
    ) -> impl Future<Output = Result<Rows, Failure<Error>>> + Send;

    fn read_durable(&self, read: &Statement) -> Result<StatementResult, Failure<Error>>;

    fn exclusive(&self, statements: Vec<Statement>) -> Result<Results, Failure<Error>>;

    fn resolve(&self, unknown: &Unknown) -> Result<Option<Settled>, Error>;

    fn warnings(&self) -> Vec<String>;

    fn flush(&self) -> Result<(), Failure<Error>>;

    fn close(&self) -> Result<(), Error>;
}
