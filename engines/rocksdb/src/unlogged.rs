//! A database without a write-ahead log, which says so in its type and in every result.

use std::path::Path;

use groupcommit_core::{Failure, NotRun, Stats, Terms, Ticket};

use crate::{Database, Error, Exclusive, Options, Snapshot, Transaction, Write, WriteResult};

/// The value of a transaction that is committed and **not durable**: the end of the process takes
/// it away as a power cut does, unless [`UnloggedDatabase::flush`] has succeeded after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[must_use = "the transaction is not durable; flush before telling anybody that it is"]
pub struct NotDurable<T>(pub T);

/// A RocksDB database without a write-ahead log: nothing in it is durable until
/// [`flush`](Self::flush) has returned. Cheap to clone; clones are the same database.
///
/// It is for what can be made again: a bulk load, an index, a cache. Transactions are formed into
/// groups and isolated from each other as in a [`Database`], and their results come as
/// [`NotDurable`].
#[derive(Debug, Clone)]
pub struct UnloggedDatabase {
    database: Database,
}

impl UnloggedDatabase {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }

    /// Opens the database in the folder `path`, creating it if it is missing; see
    /// [`Options::open_unlogged`].
    ///
    /// # Errors
    ///
    /// As [`Database::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Options::default().open_unlogged(path)
    }

    /// As [`Submitter::submit`](groupcommit_core::Submitter::submit), without durability.
    pub fn submit<T, E, F>(&self, mut transaction: F) -> Ticket<NotDurable<T>, E>
    where
        F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self.database.submit(move |tx| transaction(tx).map(NotDurable))
    }

    /// As [`Submitter::submit_async`](groupcommit_core::Submitter::submit_async), without durability.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready submits nothing.
    pub async fn submit_async<T, E, F>(&self, mut transaction: F) -> Ticket<NotDurable<T>, E>
    where
        F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self.database.submit_async(move |tx| transaction(tx).map(NotDurable)).await
    }

    /// As [`Submitter::try_submit`](groupcommit_core::Submitter::try_submit), without durability.
    ///
    /// # Errors
    ///
    /// Why it was not admitted.
    pub fn try_submit<T, E, F>(
        &self,
        mut transaction: F,
    ) -> Result<Ticket<NotDurable<T>, E>, NotRun>
    where
        F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let submitted = self
            .database
            .try_submit(move |tx: &mut Transaction<'_>| transaction(tx).map(NotDurable));
        submitted.map_err(|refused| refused.reason)
    }

    /// As [`Submitter::transact`](groupcommit_core::Submitter::transact), without durability.
    ///
    /// # Errors
    ///
    /// See [`Submitter::transact`](groupcommit_core::Submitter::transact).
    pub fn transact<T, E, F>(&self, mut transaction: F) -> Result<NotDurable<T>, Failure<E>>
    where
        F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self.database.transact(move |tx| transaction(tx).map(NotDurable))
    }

    /// As [`Submitter::submit_then`](groupcommit_core::Submitter::submit_then), without durability.
    pub fn submit_then<T, E, F>(
        &self,
        mut transaction: F,
        callback: impl FnOnce(Result<NotDurable<T>, Failure<E>>) + Send + 'static,
    ) where
        F: FnMut(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self.database.submit_then(move |tx| transaction(tx).map(NotDurable), callback);
    }

    /// As [`Database::submit_writes`], without durability.
    pub fn submit_writes(&self, writes: Vec<Write>) -> Ticket<NotDurable<Vec<WriteResult>>, Error> {
        let bytes = writes.iter().map(Write::bytes).sum();
        self.database
            .with(Terms::new().bytes(bytes))
            .submit(move |tx| tx.run(&writes).map(NotDurable))
    }

    /// See [`Database::exclusive`].
    ///
    /// # Errors
    ///
    /// See [`Database::exclusive`].
    pub fn exclusive<T, E, F>(&self, run: F) -> Result<T, Failure<E>>
    where
        F: FnOnce(&mut Exclusive) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self.database.exclusive(run)
    }

    /// See [`Database::read`].
    ///
    /// # Errors
    ///
    /// See [`Database::exclusive`].
    pub fn read<T, E>(
        &self,
        read: impl FnOnce(&Snapshot<'_>) -> Result<T, E>,
    ) -> Result<T, Failure<E>> {
        self.database.read(read)
    }

    /// Makes durable everything submitted before this call: runs it, writes the memtables of all
    /// column families into table files together, and syncs those.
    ///
    /// # Errors
    ///
    /// [`Failure::Unknown`] or [`NotRun::Failed`] when a flush failed, now
    /// or before.
    pub fn flush(&self) -> Result<(), Failure<Error>> {
        self.database.pipeline().flush_others()
    }

    /// Makes everything durable, and closes the database; see [`Database::close`].
    ///
    /// # Errors
    ///
    /// [`Error::Close`] when a flush or a commit had failed.
    pub fn close(&self) -> Result<(), Error> {
        let flushed = self.flush();
        self.database.close()?;
        flushed.map_err(|failure| Error::Close { source: std::sync::Arc::new(failure) })
    }

    /// See [`Submitter::stats`](groupcommit_core::Submitter::stats).
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.database.stats()
    }
}
