//! The database as a caller sees it.

use std::{fmt, ops::Deref, path::Path, sync::Arc};

use groupcommit_core::{Failure, NotRun, Pipeline, Rejected, Submit, Submitter, Terms, Ticket};
use groupcommit_medium::Warning;
use heed::{MdbError, RoTxn};

use crate::{
    Error, Exclusive, Operation, OperationResult, Options, Table, engine::Writer, ffi,
    file::DataFile, gate::Gate,
};

/// An LMDB environment whose transactions share their flushes. Cheap to clone; clones are the same
/// database.
///
/// A closure given to it **may run more than once** (when a neighbour fails, or the map grows); its
/// effect on the database lands exactly once. What it does besides, to the world outside the
/// database, it should do after the ticket has resolved.
///
/// Dropping the last clone stops admission and lets what was admitted finish in the background;
/// [`close`](Self::close) waits for it.
///
/// # Durability
///
/// A ticket resolves to `Ok` only after the data file was flushed (`fdatasync`), by a flush that
/// began after the transaction's commit had returned.
///
/// # Examples
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("app");
/// use groupcommit_lmdb::heed::types::Bytes;
///
/// let db = groupcommit_lmdb::Database::open(path)?;
/// let names = db.table::<Bytes, Bytes>("names")?;
/// let ticket = db.submit(move |tx| names.put(tx, b"1", b"a"));
/// ticket.wait()?; // or `.await`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) gate: Arc<Gate>,
    pub(crate) pipeline: Pipeline<Writer>,
    /// Held by the pipeline too; here for what a test asks of it.
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests ask for it"))]
    pub(crate) data: Arc<DataFile>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) main_table: Table,
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

    /// The table of this name, created if it is missing, with heed's codecs for its keys and values.
    ///
    /// # Errors
    ///
    /// The [`Failure`] it came to; [`NotRun::Reentrant`] inside a transaction.
    pub fn table<KC: Send + 'static, DC: Send + 'static>(
        &self,
        name: &str,
    ) -> Result<heed::Database<'static, KC, DC>, Failure<Error>> {
        let name = name.to_owned();
        self.exclusive(move |env| env.table(Some(&name)))
    }

    /// The unnamed table, in which LMDB also keeps the names of the others; inside a transaction it
    /// is [`Transaction::main_table`](crate::Transaction::main_table) as well.
    #[must_use]
    pub fn main_table(&self) -> Table {
        self.inner.main_table
    }

    /// Submits a transaction as plain data: its operations run in turn, all or none.
    pub fn submit_operations(
        &self,
        operations: Vec<Operation>,
    ) -> Ticket<Vec<OperationResult>, heed::Error> {
        let bytes = operations.iter().map(Operation::bytes).sum();
        self.with(Terms::new().bytes(bytes)).submit(move |tx| tx.run(&operations))
    }

    /// Gives `run` the environment alone, between groups and outside any transaction: to create
    /// tables, to copy it, or for a transaction of its own.
    ///
    /// # Durability
    ///
    /// When it returns `Ok`, everything that it committed is durable.
    ///
    /// # Errors
    ///
    /// The [`Failure`] it came to. What it had committed by itself before it failed stays.
    pub fn exclusive<T, E, F>(&self, run: F) -> Result<T, Failure<E>>
    where
        F: FnOnce(&mut Exclusive) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self.inner.pipeline.exclusive(run)
    }

    /// Runs `read` in a snapshot, on the caller's thread.
    ///
    /// Sees every transaction whose ticket resolved before the call, and possibly some that are
    /// committed and not yet flushed; [`read_durable`](Self::read_durable) sees only what is durable
    /// when it returns. Waits while the map grows or every reader slot is taken; and a long one keeps
    /// LMDB from using pages again, and the file grows.
    ///
    /// A transaction may have to wait until no read is live, for the map to grow. A read must
    /// therefore not wait for a transaction of the same database: that is [`NotRun::Reentrant`].
    ///
    /// # Errors
    ///
    /// The closure's own error as [`Rejected::Caller`], LMDB's as [`Rejected::Engine`], or
    /// [`NotRun::Closed`].
    pub fn read<T, E>(
        &self,
        read: impl FnOnce(&RoTxn<'_>) -> Result<T, E>,
    ) -> Result<T, Failure<E>> {
        let mut attempts_left = 3_u8;
        loop {
            let pass = self.inner.gate.enter().ok_or(NotRun::Closed)?;
            let error = match pass.env().read_txn() {
                Ok(txn) => {
                    let result = self.inner.pipeline.holding(|| read(&txn));
                    return result.map_err(|error| Failure::Rejected(Rejected::Caller(error)));
                }
                Err(error) => error,
            };
            let failed = |error| Failure::Rejected(Rejected::Engine(Arc::new(error)));
            attempts_left -= 1;
            match error {
                heed::Error::Mdb(MdbError::ReadersFull) if attempts_left > 0 => {
                    // The slots of processes that died are free again once somebody looks.
                    pass.env().clear_stale_readers().map_err(failed)?;
                }
                heed::Error::Mdb(MdbError::MapResized) if attempts_left > 0 => {
                    let env = pass.env().clone();
                    drop(pass);
                    self.inner.gate.alone(|| ffi::resize(&env, 0)).map_err(failed)?;
                }
                error => return Err(failed(error)),
            }
        }
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
        read: impl FnOnce(&RoTxn<'_>) -> Result<T, E>,
    ) -> Result<T, Failure<E>> {
        let value = self.read(read)?;
        self.inner.pipeline.flush_others()?;
        Ok(value)
    }

    /// Stops admission, waits until everything admitted is resolved and every callback has returned,
    /// and closes the database. Inside a callback it does not wait for callbacks.
    /// Other clones then refuse everything. A read that still runs keeps the environment open until
    /// it ends.
    ///
    /// # Errors
    ///
    /// [`Error::Close`] when a flush or a commit had failed, or when the data file or its locks were
    /// deleted, moved or replaced while the database was open.
    pub fn close(&self) -> Result<(), Error> {
        self.inner.gate.close();
        self.inner.pipeline.close().map_err(|source| Error::Close { source })
    }

    #[cfg(test)]
    pub(crate) fn data_file(&self) -> &DataFile {
        &self.inner.data
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
