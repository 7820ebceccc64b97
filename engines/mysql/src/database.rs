//! The database as a caller sees it.

use std::{convert::Infallible, fmt, ops::Deref, sync::Arc, time::Duration};

use groupcommit_core::{
    Cause, Failure, Pipeline, Rejected, Submit, Submitter, Terms, Ticket, Unknown,
};
use groupcommit_remote::runtime;

use crate::{
    Error, Exclusive, Options, Rows, Settled, Statement, StatementResult, Unsettled, Warning,
    engine::Writer, readers::Readers, session::Connector, settle,
};

/// A MySQL or MariaDB database whose transactions share their commits. Cheap to clone; clones are the same
/// database.
///
/// A transaction is best given as plain data ([`submit_statements`](Self::submit_statements)): its
/// group then travels without waiting for answers in between. A closure works too, and waits for the
/// server at each call it makes; it **may run more than once**, and its effect on the database lands
/// exactly once. What it does besides, to the world outside the database, it should do after the
/// ticket has resolved.
///
/// Transactions of one database share a connection: what belongs to a connection and not to a
/// transaction (named locks, user variables, `LAST_INSERT_ID()` of whoever inserted before) is shared
/// too. Tables have to be of an engine that rolls back, such as `InnoDB`.
///
/// Dropping the last clone stops admission and lets what was admitted finish in the background;
/// [`close`](Self::close) waits for it.
///
/// # Durability
///
/// A ticket resolves to `Ok` only after the server has acknowledged the commit, which it does when
/// its log is flushed, and in a Galera cluster when all nodes have agreed to it.
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) readers: Readers,
    pub(crate) pipeline: Pipeline<Writer>,
    pub(crate) connector: Connector,
    pub(crate) settle_max: Duration,
    pub(crate) has_record: bool,
    pub(crate) warnings: Vec<Warning>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}

impl Database {
    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// Connects to the server at `url`; see [`Options::open`].
    ///
    /// # Errors
    ///
    /// What keeps the database from being used so that every promise holds.
    pub fn open(url: &str) -> Result<Self, Error> {
        Options::new().open(url)
    }

    /// How to open a database otherwise than [`Database::open`] does.
    #[must_use]
    pub fn options() -> Options {
        Options::new()
    }

    /// Reasons to doubt what a commit promises on this server; none as it is installed.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.inner.warnings
    }

    /// Submits a transaction as plain data: its statements run in turn, all or none.
    pub fn submit_statements(
        &self,
        statements: Vec<Statement>,
    ) -> Ticket<Vec<StatementResult>, Error> {
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
    ) -> Ticket<Vec<StatementResult>, Error> {
        let bytes = statements.iter().map(Statement::bytes).sum();
        let plan: Arc<[Statement]> = statements.into();
        self.with(Terms::new().bytes(bytes)).submit_async(move |tx| tx.plan(&plan)).await
    }

    /// Gives `run` a connection alone, between groups and outside any transaction.
    ///
    /// # Durability
    ///
    /// When it returns `Ok`, everything that it committed is durable.
    ///
    /// # Errors
    ///
    /// The [`Failure`] it came to. What it had committed by itself before it failed stays. When the
    /// connection is lost meanwhile it is unknown what it did, and the database accepts nothing more.
    pub fn exclusive<T, E, F>(&self, run: F) -> Result<T, Failure<E>>
    where
        F: FnOnce(&mut Exclusive) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self.inner.pipeline.exclusive(run)
    }

    /// Runs one statement that only reads, in a snapshot of its own, and blocks until its rows are
    /// here.
    ///
    /// Sees every transaction whose ticket resolved before the call. Of others' transactions it may
    /// see what is being flushed; [`read_durable`](Self::read_durable) does not return before that
    /// is.
    ///
    /// # Errors
    ///
    /// What the server says, as [`Rejected::Caller`].
    pub fn read(&self, statement: &Statement) -> Result<StatementResult, Failure<Error>> {
        runtime::block_on(self.read_async(statement))
    }

    /// As [`read`](Self::read), without blocking.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future discards the rows, and the server is told to end the statement. One that is
    /// kept and not polled keeps its connection, or its place among those who wait for one.
    pub async fn read_async(
        &self,
        statement: &Statement,
    ) -> Result<StatementResult, Failure<Error>> {
        self.inner.readers.whole(statement).await.map_err(failure)
    }

    /// As [`read`](Self::read), and hands out the rows as they arrive.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// As [`read_async`](Self::read_async).
    pub async fn read_rows(&self, statement: &Statement) -> Result<Rows, Failure<Error>> {
        self.inner.readers.stream(statement).await.map_err(failure)
    }

    /// As [`read`](Self::read), and returns when nothing that it saw can be lost any more.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read); [`Error::NoRecord`] where [the table](Options::open) for it is missing;
    /// and [`Failure::Unknown`] or
    /// [`NotRun::Failed`](groupcommit_core::NotRun::Failed) when the server could not be asked to
    /// flush.
    pub fn read_durable(&self, statement: &Statement) -> Result<StatementResult, Failure<Error>> {
        if !self.inner.has_record {
            return Err(failure(Error::NoRecord));
        }
        let result = self.read(statement)?;
        self.inner.pipeline.flush_others()?;
        Ok(result)
    }

    /// Settles an outcome that was [unknown](Failure::Unknown), here or before the database was
    /// opened again, from the record that each group leaves with its commit. `None` when the outcome
    /// is not one of a commit that was lost.
    ///
    /// # Errors
    ///
    /// [`Error::Unsettled`] when there is no record, or no server answers within
    /// [`Options::settle_max`].
    pub fn resolve(&self, unknown: &Unknown) -> Result<Option<Settled>, Error> {
        let cause = unknown.cause().downcast_ref::<Error>();
        let Some(Error::Unsettled(open)) = cause else { return Ok(None) };
        let Unsettled { key: Some(key), .. } = open else {
            return Err(Error::Unsettled(open.clone()));
        };
        settle::settle(&self.inner.connector, None, *key, self.inner.settle_max)
            .map(Some)
            .map_err(Error::Unsettled)
    }

    /// Stops admission, waits until everything admitted is resolved and every callback has returned,
    /// and closes the connections. Inside a callback it does not wait for callbacks.
    /// Other clones then refuse everything.
    ///
    /// # Errors
    ///
    /// [`Error::Close`] when a commit had failed.
    pub fn close(&self) -> Result<(), Error> {
        self.inner.readers.close();
        let closed = self.inner.pipeline.close();
        closed.map_err(|failure| Error::Close { source: cause_of(failure) })
    }
}

fn failure(error: Error) -> Failure<Error> {
    match error {
        Error::NotRun(reason) => Failure::NotRun(reason),
        error => Failure::Rejected(Rejected::Caller(error)),
    }
}

fn cause_of(failure: Failure<Infallible>) -> Cause {
    match failure {
        Failure::Unknown(unknown) => unknown.cause().clone(),
        other => Arc::new(other),
    }
}

impl Deref for Database {
    type Target = Submitter<Writer>;

    fn deref(&self) -> &Submitter<Writer> {
        &self.inner.pipeline
    }
}

impl Submit for Database {
    type Engine = Writer;

    fn close_any(&self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.close()?)
    }
}
