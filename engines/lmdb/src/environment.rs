//! The environment as its writing side uses it: beginning and committing, and growing its map.

use std::{io, path::PathBuf, sync::Arc};

use groupcommit_core::Cause;
use heed::{Env, MdbError, RwTxn, WithoutTls};

use crate::{Error, Table, ffi, gate::Gate, transaction::Transaction};

/// A transaction that broke in a map with so much room left was not short of room.
const ROOM_ENOUGH_BYTES: usize = 64 << 30;

/// The least by which a map grows.
const GROWTH_BYTES_MIN: usize = 64 << 20;

/// The writing side of an environment. Held by whoever has the execute role.
pub(crate) struct Environment {
    pub(crate) env: Env<WithoutTls>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) path: PathBuf,
    pub(crate) map_bytes_max: usize,
    pub(crate) main_table: Table,
    pub(crate) token_table: Option<Table>,
}

/// What a commit came to, when it did not happen but is certain not to have.
#[derive(Debug)]
pub(crate) enum Undone {
    /// The map is full, or LMDB gave the transaction up before.
    Broken,
    /// The disk is full.
    Refused(heed::Error),
}

impl Environment {
    pub(crate) fn fatal(&self, doing: &'static str, source: heed::Error) -> Cause {
        Arc::new(self.error(doing, source))
    }

    pub(crate) fn error(&self, doing: &'static str, source: heed::Error) -> Error {
        Error::Lmdb { doing, path: self.path.clone(), source }
    }

    fn transaction<'t>(&self, txn: RwTxn<'t>) -> Transaction<'t> {
        Transaction::new(txn, self.main_table, self.token_table)
    }

    /// Begins the write transaction; waits while another process has it.
    pub(crate) fn begin(&self) -> Result<Transaction<'_>, Error> {
        let began = match self.env.write_txn() {
            Err(heed::Error::Mdb(MdbError::MapResized)) => {
                self.adopt_map_size()?;
                self.env.write_txn()
            }
            other => other,
        };
        began
            .map(|txn| self.transaction(txn))
            .map_err(|error| self.error("begin a transaction on", error))
    }

    /// A transaction inside `parent`, to be kept or undone by itself.
    pub(crate) fn begin_nested<'p>(
        &'p self,
        parent: &'p mut Transaction<'_>,
    ) -> Result<Transaction<'p>, Undone> {
        let nested = self.env.nested_write_txn(parent.txn_mut());
        nested.map(|txn| self.transaction(txn)).map_err(|error| match error {
            heed::Error::Mdb(_) => Undone::Broken,
            other => Undone::Refused(other),
        })
    }

    /// Commits: the transaction's pages are on disk when it returns, its meta page is written.
    ///
    /// # Errors
    ///
    /// When it cannot be told whether the commit happened. LMDB writes the meta page last, so
    /// nothing is committed where it says that there was no room.
    pub(crate) fn commit(&self, txn: RwTxn<'_>) -> Result<Result<(), Undone>, Cause> {
        match txn.commit() {
            Ok(()) => Ok(Ok(())),
            Err(heed::Error::Mdb(MdbError::MapFull | MdbError::BadTxn | MdbError::TxnFull)) => {
                Ok(Err(Undone::Broken))
            }
            Err(heed::Error::Io(error)) if error.kind() == io::ErrorKind::StorageFull => {
                Ok(Err(Undone::Refused(heed::Error::Io(error))))
            }
            Err(error) => Err(self.fatal("confirm a commit of", error)),
        }
    }

    /// Bytes of the map that no page in use has.
    fn room_bytes(&self) -> usize {
        let info = self.env.info();
        let page_bytes = self.env.unnamed_database_stat().page_size as usize;
        info.map_size.saturating_sub((info.last_page_number + 1).saturating_mul(page_bytes))
    }

    /// Gives a transaction that broke more room: doubles the map.
    ///
    /// REQUIRES: no write transaction is open.
    ///
    /// # Errors
    ///
    /// `Ok(false)` when it was not short of room; [`Error::MapFull`] at the limit.
    pub(crate) fn grow(&self) -> Result<bool, Error> {
        // A reader that died keeps pages from being used again, and is the likeliest reason.
        let cleared = self.env.clear_stale_readers().unwrap_or(0);
        if cleared > 0 {
            tracing::info!(readers = cleared, "cleared the readers of processes that are gone");
        }
        if self.room_bytes() >= ROOM_ENOUGH_BYTES {
            return Ok(false);
        }
        let map_bytes = self.env.info().map_size;
        let wanted = map_bytes.saturating_mul(2).max(map_bytes.saturating_add(GROWTH_BYTES_MIN));
        let wanted = wanted.min(self.map_bytes_max);
        if wanted <= map_bytes {
            return Err(Error::MapFull { path: self.path.clone(), bytes_max: self.map_bytes_max });
        }
        tracing::debug!(bytes = wanted, "the map grows");
        self.gate
            .alone(|| ffi::resize(&self.env, wanted))
            .map_err(|error| self.error("enlarge the map of", error))?;
        Ok(true)
    }

    /// Takes over the size that another process gave the map.
    pub(crate) fn adopt_map_size(&self) -> Result<(), Error> {
        self.gate
            .alone(|| ffi::resize(&self.env, 0))
            .map_err(|error| self.error("enlarge the map of", error))
    }
}
