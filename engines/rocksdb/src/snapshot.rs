//! Reading: a snapshot of the database.

use std::{ops::Deref, sync::Arc};

use rocksdb::{BoundColumnFamily, DB, SnapshotWithThreadMode};

use crate::Error;

/// The database as it was when the read began: RocksDB's own snapshot, by reference, and the
/// column families to read it by.
pub struct Snapshot<'a> {
    db: &'a DB,
    snapshot: SnapshotWithThreadMode<'a, DB>,
}

impl std::fmt::Debug for Snapshot<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

impl<'a> Snapshot<'a> {
    pub(crate) fn new(db: &'a DB) -> Self {
        Self { db, snapshot: db.snapshot() }
    }

    /// The column family called `name`, for the methods that end in `_cf`.
    ///
    /// # Errors
    ///
    /// [`Error::NoColumnFamily`].
    pub fn column_family(&self, name: &str) -> Result<Arc<BoundColumnFamily<'a>>, Error> {
        self.db.cf_handle(name).ok_or_else(|| Error::NoColumnFamily(name.to_owned()))
    }
}

impl<'a> Deref for Snapshot<'a> {
    type Target = SnapshotWithThreadMode<'a, DB>;

    fn deref(&self) -> &Self::Target {
        &self.snapshot
    }
}
