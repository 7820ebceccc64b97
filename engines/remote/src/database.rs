//! The database as a caller sees it.

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use groupcommit_core::{
    Failure, Pipeline, Rejected, Settled, Submit, Submitter, Terms, Ticket, Unknown,
};
use groupcommit_statement::{Statement, StatementResult};

use crate::{Error, Exclusive, Options, Protocol, Readers as _, Rows, engine::Writer, runtime};

/// A database on a server, whose transactions share their commits. Cheap to clone; clones are the
/// same database.
///
/// A transaction is best given as plain data ([`submit_statements`](Self::submit_statements)): its
/// group then travels without waiting for answers in between. A closure works too, and waits for the
/// server at each call that it makes. A closure **may run more than once**; its effect on the database
/// lands exactly once. Effects outside the database belong after the ticket has resolved.
///
/// Transactions of one database share a connection, and with it what belongs to a connection: session
/// locks, variables, `currval` and `LAST_INSERT_ID()`. Temporary tables last for one transaction. In
/// MySQL tables must use an engine that can roll back, such as `InnoDB`.
///
/// Dropping the last clone stops admission and lets what was admitted finish in the background;
/// [`close`](Self::close) waits for it.
///
/// # Durability
///
/// A ticket resolves to `Ok` only after the server has acknowledged the commit: its log is flushed,
/// and as many replicas, or all nodes of a Galera cluster, have it as the server is set to wait for.
#[derive(Clone)]
pub struct Database<P: Protocol> {
    inner: Arc<Inner<P>>,
}

pub(crate) struct Inner<P: Protocol> {
    pub(crate) readers: P::Readers,
    pub(crate) pipeline: Pipeline<Writer<P>>,
    pub(crate) protocol: P,
    pub(crate) settle_timeout: Duration,
    pub(crate) has_barrier: bool,
    pub(crate) warnings: Vec<P::Warning>,
}

impl<P: Protocol> fmt::Debug for Database<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}

impl<P: Protocol> Database<P> {
    pub(crate) fn new(inner: Inner<P>) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// Connects to the server at `url`; see [`Options::open`].
    ///
    /// # Errors
    ///
    /// [`Error`] says why the promises could not be kept on this server.
    pub fn open(url: &str) -> Result<Self, Error<P>> {
        Options::default().open(url)
    }

    /// Options for opening a database.
    #[must_use]
    pub fn options() -> Options<P> {
        Options::default()
    }

    /// Reasons to doubt what a commit promises on this server; none with its default settings.
    #[must_use]
    pub fn warnings(&self) -> &[P::Warning] {
        &self.inner.warnings
    }

    /// Submits a transaction as plain data: its statements run in turn, all or none.
    pub fn submit_statements(
        &self,
        statements: Vec<Statement>,
    ) -> Ticket<Vec<StatementResult>, Error<P>> {
        let bytes = statements.iter().map(Statement::bytes).sum();
        let plan: Arc<[Statement]> = statements.into();
        self.with(Terms::new().bytes(bytes)).submit(move |tx| tx.plan(&plan))
    }

    /// As [`submit_statements`](Self::submit_statements), waiting for admission without blocking.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready submits nothing.
    pub async fn submit_statements_async(
        &self,
        statements: Vec<Statement>,
    ) -> Ticket<Vec<StatementResult>, Error<P>> {
        let bytes = statements.iter().map(Statement::bytes).sum();
        let plan: Arc<[Statement]> = statements.into();
        self.with(Terms::new().bytes(bytes)).submit_async(move |tx| tx.plan(&plan)).await
    }

    /// Gives `run` a connection between groups and outside any transaction.
    ///
    /// # Durability
    ///
    /// When it returns `Ok`, everything that it committed is durable.
    ///
    /// # Errors
    ///
    /// The [`Failure`]. Statements that had committed by themselves before it stay committed. When
    /// the connection is lost, its effects are unknown, and the database accepts nothing more.
    pub fn exclusive<T, E, F>(&self, run: F) -> Result<T, Failure<E>>
    where
        F: FnOnce(&mut Exclusive<P>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self.inner.pipeline.exclusive(run)
    }

    /// Runs one statement that only reads, in a snapshot by itself, and blocks until its rows are
    /// here.
    ///
    /// Sees every transaction whose ticket resolved before the call. It may also see transactions of
    /// other clients that are not durable yet; use [`read_durable`](Self::read_durable) to wait for
    /// them.
    ///
    /// # Errors
    ///
    /// The server's error, as [`Rejected::Caller`].
    pub fn read(&self, statement: &Statement) -> Result<StatementResult, Failure<Error<P>>> {
        runtime::block_on(self.read_async(statement))
    }

    /// As [`read`](Self::read), without blocking.
    ///
    /// # Errors
    ///
    /// See [`read`](Self::read).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future discards the rows. The server is told to end the statement; in PostgreSQL
    /// once all other reads on the same connection have ended or are dropped. A future that is kept
    /// and not polled keeps its connection, or its place in the queue for one.
    pub async fn read_async(
        &self,
        statement: &Statement,
    ) -> Result<StatementResult, Failure<Error<P>>> {
        self.inner.readers.whole(statement).await.map_err(failure)
    }

    /// As [`read`](Self::read), and hands out the rows as they arrive.
    ///
    /// # Errors
    ///
    /// See [`read`](Self::read).
    ///
    /// # Cancel safety
    ///
    /// See [`read_async`](Self::read_async).
    pub async fn read_rows(&self, statement: &Statement) -> Result<Rows<P>, Failure<Error<P>>> {
        self.inner.readers.stream(statement).await.map(Rows).map_err(failure)
    }

    /// As [`read`](Self::read), and returns once everything that it saw is durable.
    ///
    /// # Errors
    ///
    /// See [`read`](Self::read). [`Error::NoRecord`] when MySQL lacks the table that the wait needs.
    /// [`Failure::Unknown`] or [`NotRun::Failed`](groupcommit_core::NotRun::Failed) when the server
    /// could not be asked to flush.
    pub fn read_durable(
        &self,
        statement: &Statement,
    ) -> Result<StatementResult, Failure<Error<P>>> {
        if !self.inner.has_barrier {
            return Err(failure(Error::NoRecord));
        }
        let result = self.read(statement)?;
        self.inner.pipeline.flush_others()?;
        Ok(result)
    }

    /// Settles an outcome that was [unknown](Failure::Unknown), here or before the database was opened
    /// again, from the record on the server. `None` when it is not the outcome of a lost commit.
    ///
    /// # Errors
    ///
    /// [`Error::Unsettled`] when the server cannot tell, or does not answer within
    /// [`Options::settle_timeout`].
    pub fn resolve(&self, unknown: &Unknown) -> Result<Option<Settled>, Error<P>> {
        let cause = unknown.cause().downcast_ref::<Error<P>>();
        let Some(Error::Unsettled(open)) = cause else { return Ok(None) };
        let settled = self.inner.protocol.settle(&open.commit, self.inner.settle_timeout);
        settled.map(Some).map_err(Error::Unsettled)
    }

    /// Stops admission, waits until everything admitted is resolved and every callback has returned,
    /// and closes the connections. Inside a callback it does not wait for callbacks.
    /// Other clones then refuse everything.
    ///
    /// # Errors
    ///
    /// [`Error::Close`] when a commit had failed.
    pub fn close(&self) -> Result<(), Error<P>> {
        self.inner.readers.close();
        self.inner.pipeline.close().map_err(|source| Error::Close { source })
    }
}

fn failure<P: Protocol>(error: Error<P>) -> Failure<Error<P>> {
    match error {
        Error::NotRun(reason) => Failure::NotRun(reason),
        error => Failure::Rejected(Rejected::Caller(error)),
    }
}

impl<P: Protocol> Deref for Database<P> {
    type Target = Submitter<Writer<P>>;

    fn deref(&self) -> &Submitter<Writer<P>> {
        &self.inner.pipeline
    }
}

impl<P: Protocol> Submit for Database<P> {
    type Engine = Writer<P>;

    fn close_any(&self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.close()?)
    }
}
