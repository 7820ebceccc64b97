//! The database as a caller sees it.

use std::{fmt, ops::Deref, path::Path, sync::Arc};

use groupcommit_core::{Failure, NotRun, Pipeline, Rejected, Submit, Submitter, Terms, Ticket};

use groupcommit_medium::Warning;

use crate::{
    Error, Exclusive, Options, Snapshot, Write, WriteResult, engine::Writer, store::Store,
};

/// A RocksDB database whose transactions share their flushes. Cheap to clone; clones are the same
/// database.
///
/// A closure given to it **may run more than once**; its effect on the database lands exactly once.
/// What it does besides, to the world outside the database, it should do after the ticket has
/// resolved.
///
/// Dropping the last clone stops admission and lets what was admitted finish in the background;
/// [`close`](Self::close) waits for it.
///
/// # Durability
///
/// A ticket resolves to `Ok` only after the write-ahead log was synced, by a sync that began after
/// the transaction's write had returned. RocksDB may mend a failed log by itself; a database of
/// this crate refuses everything after such a failure, until it is opened again.
///
/// # Examples
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("store");
/// let db = groupcommit_rocksdb::Database::open(path)?;
/// let ticket = db.submit(|tx| {
///     let seen = tx.get("visits")?.map_or(0, |bytes| bytes[0]);
///     tx.put("visits", [seen + 1])
/// });
/// ticket.wait()?; // or `.await`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) pipeline: Pipeline<Writer>,
    pub(crate) store: Arc<Store>,
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

    pub(crate) fn pipeline(&self) -> &Pipeline<Writer> {
        &self.inner.pipeline
    }

    /// Opens the database in the folder `path`, creating it if it is missing; see
    /// [`Options::open`].
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

    /// Submits a transaction as plain data: its writes run in turn, all or none.
    pub fn submit_writes(&self, writes: Vec<Write>) -> Ticket<Vec<WriteResult>, Error> {
        let bytes = writes.iter().map(Write::bytes).sum();
        self.with(Terms::new().bytes(bytes)).submit(move |tx| tx.run(&writes))
    }

    /// Gives `run` the database alone, between groups, for what is no transaction: column families,
    /// compaction, table files, checkpoints.
    ///
    /// # Durability
    ///
    /// When it returns `Ok`, everything that it did is durable.
    ///
    /// # Errors
    ///
    /// The [`Failure`] it came to. What it had done before it failed stays.
    pub fn exclusive<T, E, F>(&self, run: F) -> Result<T, Failure<E>>
    where
        F: FnOnce(&mut Exclusive) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self.inner.pipeline.exclusive(move |exclusive: &mut Exclusive| run(exclusive))
    }

    /// Runs `read` on a snapshot, on the caller's thread.
    ///
    /// Sees every transaction whose ticket resolved before the call, and possibly some that are
    /// committed and not yet flushed; [`read_durable`](Self::read_durable) sees only what is
    /// durable when it returns.
    ///
    /// # Errors
    ///
    /// The closure's own error as [`Rejected::Caller`], or [`NotRun::Closed`].
    pub fn read<T, E>(
        &self,
        read: impl FnOnce(&Snapshot<'_>) -> Result<T, E>,
    ) -> Result<T, Failure<E>> {
        let Some(db) = self.inner.store.db() else { return Err(NotRun::Closed.into()) };
        let result = read(&Snapshot::new(&db));
        result.map_err(|error| Failure::Rejected(Rejected::Caller(error)))
    }

    /// As [`read`](Self::read), and flushes before it returns: no power cut can take back what it
    /// returned.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read); and [`Failure::Unknown`] or [`NotRun::Failed`] when that flush, or
    /// an earlier one, failed.
    pub fn read_durable<T, E: Send + 'static>(
        &self,
        read: impl FnOnce(&Snapshot<'_>) -> Result<T, E>,
    ) -> Result<T, Failure<E>> {
        let value = self.read(read)?;
        self.inner.pipeline.flush_others()?;
        Ok(value)
    }

    /// The time that RocksDB spent writing its log, where it is counted.
    #[cfg(feature = "experiments")]
    #[must_use]
    pub fn log_write_time(&self) -> Option<std::time::Duration> {
        self.inner.store.log_write_time()
    }

    /// Stops admission, waits until everything admitted is resolved and every callback has returned
    /// (but for callbacks not inside one of them), and closes the database; a
    /// read that still runs keeps RocksDB open until it ends. Other clones then refuse everything.
    ///
    /// # Errors
    ///
    /// [`Error::Close`] when a flush or a commit had failed.
    pub fn close(&self) -> Result<(), Error> {
        self.inner.pipeline.close().map_err(|source| Error::Close { source })
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
