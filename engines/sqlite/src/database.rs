//! The database as a caller sees it.

use std::{
    convert::Infallible,
    fmt,
    ops::Deref,
    path::Path,
    sync::{Arc, OnceLock, Weak},
    thread,
};

use groupcommit_bridge::{Bridge, Connect, Failure as BridgeFailure, Limits};
use groupcommit_core::{Failure, NotRun, Pipeline, Rejected, Submit, Submitter, Terms, Ticket};
use rusqlite::Connection;

use crate::{
    Error, Options, Statement, StatementResult, Warning,
    engine::Writer,
    guard::Guard,
    readers::{NoReader, Readers},
    statement::each_row,
    wal::Log,
};

/// An SQLite database whose transactions share their flushes. Cheap to clone; clones are the same
/// database.
///
/// A closure given to it **may run more than once** (when a neighbour made SQLite roll the group
/// back); its effect on the database lands exactly once. What it does besides, to the world
/// outside the database, it should do after the ticket has resolved.
///
/// Dropping the last clone stops admission and lets what was admitted finish in the background;
/// [`close`](Self::close) waits for it.
///
/// # Durability
///
/// A ticket resolves to `Ok` only after the write-ahead log was flushed (`fdatasync`), by a flush
/// that began after the transaction's commit had returned.
///
/// # Examples
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("app.db");
/// let db = groupcommit_sqlite::Database::open(path)?;
/// db.exclusive(|conn| conn.execute_batch("CREATE TABLE t (id INTEGER, name TEXT)"))?;
/// let ticket = db.submit(|tx| tx.execute("INSERT INTO t VALUES (?1, ?2)", (1, "a")));
/// let rows = ticket.wait()?; // or `.await`
/// assert_eq!(rows, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    /// Before the pipeline, so that the writing connection is the last to be closed: only it can
    /// empty the log.
    pub(crate) readers: Readers,
    /// Made by the first read that does not block.
    pub(crate) reads: OnceLock<Bridge<Reads>>,
    pub(crate) pipeline: Pipeline<Writer>,
    pub(crate) log: Arc<Log>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) warnings: Vec<Warning>,
}

/// What a thread of the bridge reads with; it does not keep the database open.
pub(crate) struct Reads(Weak<Inner>);

impl Connect for Reads {
    type Connection = Weak<Inner>;
    type Error = Infallible;

    fn connect(&self) -> Result<Weak<Inner>, Infallible> {
        Ok(self.0.clone())
    }
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

    /// Opens the database at `path`, creating it if it is missing; see [`Options::open`].
    ///
    /// # Errors
    ///
    /// What keeps the database from being used so that every promise holds.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Options::default().open(path)
    }

    /// How to open a database otherwise than [`Database::open`] does.
    #[must_use]
    pub fn options() -> Options {
        Options::default()
    }

    /// Reasons to doubt what a flush promises where this database lies; none on an ordinary disk.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.inner.warnings
    }

    /// Submits a transaction as plain data: its statements run in turn, all or none.
    pub fn submit_statements(
        &self,
        statements: Vec<Statement>,
    ) -> Ticket<Vec<StatementResult>, rusqlite::Error> {
        let bytes = statements.iter().map(Statement::bytes).sum();
        self.with(Terms::new().bytes(bytes)).submit(move |tx| tx.run(&statements))
    }

    /// Gives `run` a connection of its own, between groups and outside any transaction, for what
    /// cannot share one: `PRAGMA`, `VACUUM`, `ATTACH`, or a transaction of its own. Schema changes
    /// work in ordinary transactions too. The connection is closed afterwards: what was set on it or
    /// attached, and what is temporary, ends with it. What durability rests on (`synchronous`,
    /// `journal_mode`, `locking_mode`, `wal_autocheckpoint`) cannot be set.
    ///
    /// # Durability
    ///
    /// When it returns `Ok`, everything that it committed is durable.
    ///
    /// # Errors
    ///
    /// The [`Failure`] it came to. What it had committed by itself before it failed stays. After an
    /// input or output error in it, whether it returned that or not, the database refuses everything
    /// until it is opened again: it may have been one of a checkpoint. A full disk is none.
    pub fn exclusive<T, E, F>(&self, run: F) -> Result<T, Failure<E>>
    where
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self.inner.pipeline.exclusive(move |connection: &mut Connection| run(connection))
    }

    /// Runs `read` in a snapshot, on the caller's thread, on a read-only connection.
    ///
    /// Sees every transaction whose ticket resolved before the call, and possibly some that are
    /// committed and not yet flushed; [`read_durable`](Self::read_durable) sees only what is
    /// durable when it returns. Waits while every reading connection is lent, but not inside another
    /// read or a transaction, where that could be a wait for itself: there it opens one more.
    /// `ATTACH` and temporary tables are refused. A connection on which the closure set something (a
    /// `PRAGMA`, a switch, a limit) is closed and not lent again; we cannot detect functions and
    /// collations that it registers, which stay on that connection.
    ///
    /// # Errors
    ///
    /// The closure's own error as [`Rejected::Caller`], SQLite's as [`Rejected::Engine`], or
    /// [`NotRun::Closed`].
    pub fn read<T, E>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, Failure<E>> {
        of_reader(self.inner.readers.read(read))
    }

    /// Runs one statement that only reads, as plain data, and gives each row to `each` until that
    /// returns `false`. It sees what [`read`](Self::read) sees, and takes less time: a statement is a
    /// snapshot by itself.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_statement(
        &self,
        read: &Statement,
        mut each: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<bool>,
    ) -> Result<(), Failure<rusqlite::Error>> {
        let run = |prepared: &mut rusqlite::Statement<'_>| each_row(prepared, read, &mut each);
        of_reader(self.inner.readers.read_statement(read.sql(), run))
    }

    /// As [`read`](Self::read), on another thread, without blocking this one. No runtime is needed.
    /// As many run at once as there are cores; others wait without a thread.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read); a panic of the closure is [`Rejected::Panicked`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future discards the result; a read that has not begun is not run.
    pub async fn read_async<T, E>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Failure<E>>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let inner = &self.inner;
        let reads = inner.reads.get_or_init(|| {
            let connections = thread::available_parallelism().map_or(1, std::num::NonZero::get);
            Bridge::new(Reads(Arc::downgrade(inner)), Limits { connections, ..Limits::default() })
        });
        let call = move |inner: &mut Weak<Inner>| match inner.upgrade() {
            Some(inner) => Database { inner }.read(read),
            None => Err(NotRun::Closed.into()),
        };
        reads.call(call).await.unwrap_or_else(|failure| {
            Err(match failure {
                BridgeFailure::Closed => NotRun::Closed.into(),
                BridgeFailure::Panicked(message) => Failure::Rejected(Rejected::Panicked(message)),
                other => NotRun::Unavailable(Arc::new(other)).into(),
            })
        })
    }

    /// As [`read`](Self::read), and flushes before it returns: no power cut can take back what it
    /// returned, whoever wrote it.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read); and [`Failure::Unknown`] or [`NotRun::Failed`] when that flush, or
    /// an earlier one, failed.
    pub fn read_durable<T, E: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, Failure<E>> {
        let value = self.read(read)?;
        self.inner.pipeline.flush_others()?;
        Ok(value)
    }

    /// Stops admission, waits until everything admitted is resolved and every callback has returned,
    /// and closes the database. Inside a callback it does not wait for callbacks.
    /// Other clones then refuse everything.
    ///
    /// A statement that a closure leaked (`mem::forget`) keeps its connection, and so the files, open
    /// until the process ends; without a lock.
    ///
    /// # Errors
    ///
    /// [`Error::Close`] when a flush or a commit had failed, or when the database was deleted, moved or
    /// replaced while it was open.
    pub fn close(&self) -> Result<(), Error> {
        // The writing connection must be the last: only it can empty the log.
        self.inner.reads.get().map(Bridge::stop);
        self.inner.readers.close();
        self.inner.pipeline.close().map_err(|source| Error::Close { source })
    }

    /// The write-ahead log now.
    #[must_use]
    pub fn wal(&self) -> WalStats {
        WalStats { frames: self.inner.guard.wal_frames(), bytes: self.inner.log.bytes() }
    }

    #[cfg(test)]
    pub(crate) fn log(&self) -> &Log {
        &self.inner.log
    }
}

/// The length of the write-ahead log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WalStats {
    /// Pages in it that are not started anew yet.
    pub frames: u64,
    /// Size of its file in bytes; it is reused, not shrunk.
    pub bytes: u64,
}

fn of_reader<T, E>(read: Result<Result<T, E>, NoReader>) -> Result<T, Failure<E>> {
    match read {
        Ok(result) => result.map_err(|error| Failure::Rejected(Rejected::Caller(error))),
        Err(NoReader::Closed) => Err(NotRun::Closed.into()),
        Err(NoReader::Gone(cause)) => Err(NotRun::Unavailable(cause).into()),
        Err(NoReader::Sqlite(error)) => Err(Failure::Rejected(Rejected::Engine(Arc::new(error)))),
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
