//! The open database, as long as it is open, and how it is flushed.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use groupcommit_core::{Cause, Flush};
use rocksdb::{
    DB, FlushOptions, WriteBatch, WriteOptions,
    perf::{PerfContext, PerfMetric, PerfStatsLevel, set_perf_stats},
};

use crate::{Error, families, place::Handle};

/// Whether a database keeps a write-ahead log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wal {
    On,
    Off,
}

/// RocksDB's handle, shared by whoever uses it.
#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    wal: Wal,
    /// Nanoseconds spent writing the log, where they are counted.
    log_write_ns: Option<AtomicU64>,
    /// How many failures in the background RocksDB has gone on after.
    failures_survived: AtomicU64,
    /// `None` once it is closed.
    db: RwLock<Option<Arc<Handle>>>,
}

/// The property that counts failures to write memtables out and to compact.
const BACKGROUND_ERRORS: &str = "rocksdb.background-errors";

impl Store {
    pub(crate) fn new(path: &Path, db: Handle, wal: Wal, times_log: bool) -> Self {
        Self {
            path: path.to_owned(),
            wal,
            log_write_ns: times_log.then(AtomicU64::default),
            failures_survived: AtomicU64::default(),
            db: RwLock::new(Some(Arc::new(db))),
        }
    }

    /// Looks whether RocksDB still takes writes. When it could not write a memtable out, or compact,
    /// it takes no more, or goes on by itself, as with a disk that was full for a while. Asked before
    /// a group is written, so that a group which it will not take is known not to be there.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`] if it does not.
    pub(crate) fn expect_to_write(&self, db: &DB) -> Result<(), Error> {
        let failures = db.property_int_value(BACKGROUND_ERRORS).ok().flatten().unwrap_or(0);
        if failures == self.failures_survived.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut options = WriteOptions::default();
        options.disable_wal(self.wal == Wal::Off);
        // Refused like any other, and where it is not, nothing has changed.
        db.write_opt(WriteBatch::default(), &options)
            .map_err(|source| Error::Stopped { path: self.path.clone(), source })?;
        self.failures_survived.store(failures, Ordering::Relaxed);
        Ok(())
    }

    /// Writes a batch, and counts how long the log took where that is asked for.
    pub(crate) fn write(&self, db: &DB, batch: WriteBatch) -> Result<(), Error> {
        let mut options = WriteOptions::default();
        options.disable_wal(self.wal == Wal::Off);
        let write = || db.write_opt(batch, &options).map_err(self.failed("write a group to"));
        let Some(log_write_ns) = &self.log_write_ns else { return write() };
        set_perf_stats(PerfStatsLevel::EnableTime);
        let mut context = PerfContext::default();
        context.reset();
        let written = write();
        log_write_ns.fetch_add(context.metric(PerfMetric::WriteWalTime), Ordering::Relaxed);
        set_perf_stats(PerfStatsLevel::Disable);
        written
    }

    /// The time spent writing the log, where it is counted.
    #[cfg(feature = "experiments")]
    pub(crate) fn log_write_time(&self) -> Option<std::time::Duration> {
        let ns = self.log_write_ns.as_ref()?.load(Ordering::Relaxed);
        Some(std::time::Duration::from_nanos(ns))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn wal(&self) -> Wal {
        self.wal
    }

    /// The database, while it is open.
    pub(crate) fn db(&self) -> Option<Arc<Handle>> {
        self.db.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets go of the database: RocksDB closes it when the last who still reads is done.
    ///
    /// # Errors
    ///
    /// When its folder is no longer at its path.
    pub(crate) fn close(&self) -> Result<(), Error> {
        let db = self.db.write().unwrap_or_else(PoisonError::into_inner).take();
        db.map_or(Ok(()), |db| db.check_in_place())
    }

    /// An error of RocksDB's with what it was about.
    pub(crate) fn failed(&self, doing: &'static str) -> impl Fn(rocksdb::Error) -> Error {
        let path = self.path.clone();
        move |source| Error::Rocksdb { doing, path: path.clone(), source }
    }

    /// Writes the memtables of all families into table files, and syncs those.
    pub(crate) fn flush_memtables(&self, db: &DB) -> Result<(), Error> {
        let families = families::families(&self.path)?;
        let handles: Vec<_> =
            families.iter().filter_map(|family| db.cf_handle(&family.name)).collect();
        let references: Vec<_> = handles.iter().collect();
        let mut options = FlushOptions::default();
        options.set_wait(true);
        db.flush_cfs_opt(&references, &options).map_err(self.failed("flush the memtables of"))
    }
}

/// Makes committed groups durable.
#[derive(Debug)]
pub struct Flusher(pub(crate) Arc<Store>);

impl Flush for Flusher {
    fn flush(&self) -> Result<(), Cause> {
        // Closing flushed everything there was.
        let Some(db) = self.0.db() else { return Ok(()) };
        let flushed = match self.0.wal {
            // Syncs every log that is not synced yet, the current one as far as it is written.
            Wal::On => db.flush_wal(true).map_err(self.0.failed("flush the write-ahead log of")),
            Wal::Off => self.0.flush_memtables(&db),
        };
        flushed.and_then(|()| db.check_in_place()).map_err(|error| Arc::new(error) as Cause)
    }
}
