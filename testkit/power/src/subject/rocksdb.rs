//! RocksDB as the harness drives it: each table a column family, all with small memtables, so that
//! logs, table files and compactions come and go while the power is cut.

use std::{
    path::Path,
    sync::{Arc, PoisonError, RwLock},
};

use anyhow::Result;
use groupcommit_core::Failure;
use groupcommit_rocksdb::{Database, Error, Exclusive, Snapshot, Transaction, rocksdb};
use rocksdb::{IteratorMode, Options, ReadOptions};

use super::{
    Came, Failing, Subject, Waiting,
    keyed::{self, Rows, TABLES, Table},
};
use crate::plan::{Found, Planned};

/// The database's folder.
const FOLDER: &str = "app";

/// Memtables of this size are written into table files: smaller ones in some families than in
/// others, so that each is written at times of its own.
const MEMTABLE_BYTES_MIN: usize = 64 << 10;

#[derive(Debug, Clone)]
pub(crate) struct Rocksdb {
    db: Database,
    /// Held while reading: one that runs keeps RocksDB open after a close, and it could not be
    /// opened again.
    reading: Arc<RwLock<()>>,
}

struct Inside<'a, 'g>(&'a mut Transaction<'g>);

impl Rows for Inside<'_, '_> {
    type Error = Error;

    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.0.get_cf(table.name(), key)
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.0.put_cf(table.name(), key, value)
    }
}

fn apply(tx: &mut Transaction<'_>, planned: Planned) -> Result<(), Error> {
    keyed::apply(&mut Inside(tx), planned)
}

fn fail(tx: &mut Transaction<'_>, failing: Failing) -> Result<(), Error> {
    keyed::apply_failing(&mut Inside(tx))?;
    match failing {
        Failing::Error => tx.put_cf("no such family", b"", b""),
        Failing::Panic => panic!("a transaction that panics on purpose"),
    }
}

fn options(memtable_bytes: usize) -> Options {
    let mut options = Options::default();
    options.set_paranoid_checks(true);
    options.set_write_buffer_size(memtable_bytes);
    // Else every opening would leave a file.
    options.set_keep_log_file_num(2);
    options
}

/// How everything is read: from the files, and verified.
fn reading() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_verify_checksums(true);
    options.fill_cache(false);
    options
}

/// Hands every entry to `each`.
fn look_at(
    snapshot: &Snapshot<'_>,
    mut each: impl FnMut(Table, &[u8], &[u8]),
) -> Result<(), Error> {
    let failed = |source| Error::Rocksdb { doing: "read", path: FOLDER.into(), source };
    for table in TABLES {
        let family = snapshot.column_family(table.name())?;
        for entry in snapshot.iterator_cf_opt(&family, reading(), IteratorMode::Start) {
            let (key, value) = entry.map_err(failed)?;
            each(table, &key, &value);
        }
    }
    Ok(())
}

impl Subject for Rocksdb {
    const FILES: &'static [(&'static str, &'static str)] =
        &[(".log", "log"), (".sst", "table files, when memtables are written out")];
    // A memtable that could not be written out stops all writing.
    const OUTLIVES_FULL_DISKS: bool = false;
    const IS_MAPPED: bool = false;

    fn open(folder: &Path) -> Result<Self> {
        let mut opening = Database::options().rocksdb(options(MEMTABLE_BYTES_MIN));
        for table in TABLES {
            let bytes = MEMTABLE_BYTES_MIN << table as usize;
            opening = opening.column_family(table.name(), options(bytes));
        }
        let db = opening.open(folder.join(FOLDER))?;
        Ok(Self { db, reading: Arc::default() })
    }

    fn submit(&self, planned: Planned) -> Waiting {
        let ticket = self.db.submit(move |tx| apply(tx, planned));
        Box::new(move || Came::of(&ticket.wait()))
    }

    fn submit_then(&self, planned: Planned, then: Box<dyn FnOnce(Came) + Send>) {
        self.db.submit_then(
            move |tx| apply(tx, planned),
            move |result: Result<(), Failure<Error>>| {
                then(Came::of(&result));
            },
        );
    }

    fn transact(&self, planned: Planned) -> Came {
        Came::of(&self.db.transact(move |tx| apply(tx, planned)))
    }

    fn submit_failing(&self, failing: Failing) -> Waiting {
        let ticket = self.db.submit(move |tx| fail(tx, failing));
        Box::new(move || Came::of(&ticket.wait()))
    }

    fn read_durable(&self) -> Option<u64> {
        let _reading = self.reading.read().unwrap_or_else(PoisonError::into_inner);
        let read = |snapshot: &Snapshot<'_>| -> Result<u64, Error> {
            let family = snapshot.column_family(Table::Head.name())?;
            let mut failed = None;
            let head = keyed::head(|key| {
                let value = snapshot.get_cf(&family, key);
                value.map_err(|error| failed = Some(error)).ok().flatten()
            });
            let failed =
                failed.map(|source| Error::Rocksdb { doing: "read", path: FOLDER.into(), source });
            failed.map_or(Ok(head), Err)
        };
        self.db.read_durable(read).ok()
    }

    fn tidy(&self, choice: u64) {
        let table = TABLES[usize::try_from(choice >> 8).unwrap_or(0) % TABLES.len()];
        // It may come to nothing, where the disk has just failed: that shows elsewhere.
        let _done = self.db.exclusive(move |exclusive: &mut Exclusive| match choice % 4 {
            0 => exclusive.flush_memtables(),
            1 => exclusive.compact(table.name()),
            2 => exclusive.wait_for_compaction(),
            _ => exclusive.flush_memtables().and_then(|()| exclusive.compact(table.name())),
        });
    }

    fn close(&self) -> Result<()> {
        let _nobody_reads = self.reading.write().unwrap_or_else(PoisonError::into_inner);
        Ok(self.db.close()?)
    }

    fn look(&self) -> Result<Found> {
        let mut found = Found::default();
        let mut damaged = Ok(());
        self.db.read(|snapshot| {
            look_at(snapshot, |table, key, value| {
                let taken = keyed::take(&mut found, table, key, value);
                damaged = std::mem::replace(&mut damaged, Ok(())).and(taken);
            })
        })?;
        damaged.map(|()| found)
    }

    /// It was opened with paranoid checks; all blocks of all table files are read once more, and
    /// their checksums verified, after everything in memory has been written into such files.
    fn check_integrity(&self) -> Result<()> {
        self.db.exclusive(Exclusive::flush_memtables)?;
        self.db.read(|snapshot| look_at(snapshot, |_, _, _| {}))?;
        Ok(())
    }
}
