//! Executing a group: notes, one batch, one write.
//!
//! Invariants:
//! 1. Between groups nothing is noted.
//! 2. What is written is the notes of members that completed, in the group's order.
//! 3. A batch that RocksDB would find fault with after it is in the log is never made.
//! 4. Of a group that RocksDB had stopped taking before it began, nothing is run.

use std::sync::Arc;

use groupcommit_core::{Cause, Clock, Engine, ExclusiveEnd, Executed, Group, NotRun, Ran};
use rocksdb::{ErrorKind, WriteBatch};

use crate::{
    Error, Exclusive, Transaction,
    families::Family,
    log::{Kind, Log, Mark},
    store::{Flusher, Store, Wal},
    view::Ground,
};

/// Notes beyond this size are written before the group goes on.
const LOG_BYTES_MAX: usize = 16 << 20;

/// Bytes that RocksDB's batch adds to an operation, at most.
const BATCH_OVERHEAD_BYTES: usize = 16;

/// The engine of one database.
pub struct Writer {
    pub(crate) store: Arc<Store>,
    pub(crate) families: Vec<Family>,
    pub(crate) log: Log,
    pub(crate) clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl Engine for Writer {
    type Transaction<'g> = Transaction<'g>;
    type Exclusive = Exclusive;
    type Flusher = Flusher;

    fn flusher(&self) -> Flusher {
        Flusher(self.store.clone())
    }

    fn execute(&mut self, group: &mut Group<Self>) -> Result<Executed, Cause> {
        let db = self.store.db().ok_or(Error::Closed).map_err(cause)?;
        if let Err(stopped) = self.store.expect_to_write(&db) {
            let stopped = cause(stopped);
            while let Some(member) = group.next_member() {
                group.refuse(member, NotRun::Unavailable(stopped.clone()));
            }
            return Ok(Executed { commits: 0 });
        }
        self.log.clear();
        let ground = Ground::new(&db, &self.families);
        let tx = Transaction::new(ground, &mut self.log, &*self.clock);
        let mut execution = Execution { tx, store: &self.store, commits: 0 };
        let executed = execution.execute_all(group);
        let commits = execution.commits;
        drop(execution);
        self.log.clear();
        executed?;
        // Without a log there is nothing to flush for a ticket, which then promises nothing.
        let commits = if self.store.wal() == Wal::On { commits } else { 0 };
        Ok(Executed { commits })
    }

    fn exclusive(
        &mut self,
        run: &mut dyn FnMut(&mut Exclusive) -> Ran,
    ) -> Result<ExclusiveEnd, Cause> {
        let db = self.store.db().ok_or(Error::Closed).map_err(cause)?;
        let families = self.families.clone();
        let mut exclusive = Exclusive::new(db, self.store.clone(), families, self.clock.clone());
        run(&mut exclusive);
        self.families = exclusive.end().map_err(cause)?;
        Ok(ExclusiveEnd::Kept)
    }

    fn close(&mut self) -> Result<(), Cause> {
        self.store.close().map_err(cause)
    }
}

/// The execution of one group.
struct Execution<'g> {
    tx: Transaction<'g>,
    store: &'g Store,
    commits: u64,
}

impl Execution<'_> {
    fn execute_all(&mut self, group: &mut Group<Writer>) -> Result<(), Cause> {
        while let Some(member) = group.next_member() {
            let start = self.tx.begin_member(group.deadline_ns(member));
            let ran = group.run(member, &mut self.tx);
            let is_late = self.tx.end_member();
            if ran != Ran::Completed || is_late {
                self.tx.cut(start);
                if is_late || group.passed_deadline(member) {
                    group.refuse(member, NotRun::DeadlinePassed);
                }
                continue;
            }
            if self.tx.log().has_range_after(start) {
                self.commit_apart(group, member, start)?;
            } else if self.tx.log().bytes() > LOG_BYTES_MAX {
                self.commit()?;
            }
        }
        self.commit()
    }

    /// Commits a member that deleted a range apart from those before it, because RocksDB may
    /// refuse it for a setting that cannot be seen from here (a row cache); and so that those after
    /// it need not go through the range to read.
    fn commit_apart(
        &mut self,
        group: &mut Group<Writer>,
        member: usize,
        start: Mark,
    ) -> Result<(), Cause> {
        let end = self.tx.log().end();
        self.write(Mark::default(), start).map_err(cause)?;
        match self.write(start, end) {
            Ok(()) => {}
            Err(Error::Rocksdb { source, .. }) if source.kind() == ErrorKind::NotSupported => {
                group.reject(member, Arc::new(source));
            }
            Err(error) => return Err(cause(error)),
        }
        self.tx.clear();
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Cause> {
        let end = self.tx.log().end();
        self.write(Mark::default(), end).map_err(cause)?;
        self.tx.clear();
        Ok(())
    }

    fn write(&mut self, from: Mark, to: Mark) -> Result<(), Error> {
        self.commits += write(self.store, &mut self.tx, from, to)?;
        Ok(())
    }
}

/// Writes what was noted between two marks as one batch, and says how many batches that took: one,
/// or none if nothing was noted. An error leaves open whether it will be there after recovery,
/// except that RocksDB refuses what it does not support beforehand.
pub(crate) fn write(
    store: &Store,
    tx: &mut Transaction<'_>,
    from: Mark,
    to: Mark,
) -> Result<u64, Error> {
    let noted = Log::count(from, to);
    if noted == 0 {
        return Ok(0);
    }
    let (log, ground) = tx.noted();
    let capacity = Log::bytes_between(from, to) + BATCH_OVERHEAD_BYTES * noted;
    let mut batch = WriteBatch::with_capacity_bytes(capacity);
    for operation in log.between(from, to) {
        let (key, value) = (operation.key, operation.value);
        if operation.family == 0 {
            match operation.kind {
                Kind::Put => batch.put(key, value),
                Kind::Delete => batch.delete(key),
                Kind::Merge => batch.merge(key, value),
                Kind::DeleteRange => batch.delete_range(key, value),
            }
            continue;
        }
        let family = ground.handle(operation.family)?;
        match operation.kind {
            Kind::Put => batch.put_cf(&family, key, value),
            Kind::Delete => batch.delete_cf(&family, key),
            Kind::Merge => batch.merge_cf(&family, key, value),
            Kind::DeleteRange => batch.delete_range_cf(&family, key, value),
        }
    }
    // The interface in C says nothing when an operation could not be added.
    if batch.len() != noted {
        return Err(Error::BatchIncomplete { taken: batch.len(), noted });
    }
    store.write(ground.db, batch)?;
    Ok(1)
}

fn cause(error: Error) -> Cause {
    Arc::new(error)
}
