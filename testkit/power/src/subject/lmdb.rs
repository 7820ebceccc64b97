//! LMDB as the harness drives it.

use std::{
    path::Path,
    sync::{Arc, PoisonError, RwLock},
};

use anyhow::{Context, Result, ensure};
use groupcommit_core::Failure;
use groupcommit_lmdb::{Database, Exclusive, Table as Entries, Transaction, heed};

use super::{
    Came, Failing, Subject, Waiting,
    keyed::{self, Rows, TABLES, Table},
};
use crate::plan::{Found, Planned};

/// The environment's folder.
const FOLDER: &str = "app";

#[derive(Debug, Clone)]
pub(crate) struct Lmdb {
    db: Database,
    tables: Tables,
    /// Of exclusives; the transactions do not touch it.
    upkeep: Entries,
    /// Held while reading: one that runs keeps the environment open after a close, and it could
    /// not be opened again.
    reading: Arc<RwLock<()>>,
}

type Tables = [Entries; TABLES.len()];

struct Inside<'a, 'g>(&'a mut Transaction<'g>, Tables);

impl Rows for Inside<'_, '_> {
    type Error = heed::Error;

    fn get(&mut self, table: Table, key: &[u8]) -> heed::Result<Option<Vec<u8>>> {
        Ok(self.1[table as usize].get(self.0, key)?.map(<[u8]>::to_vec))
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> heed::Result<()> {
        self.1[table as usize].put(self.0, key, value)
    }
}

fn fail(tx: &mut Transaction<'_>, tables: Tables, failing: Failing) -> heed::Result<()> {
    keyed::apply_failing(&mut Inside(tx, tables))?;
    match failing {
        // LMDB refuses a key without a byte.
        Failing::Error => tables[0].put(tx, b"", b""),
        Failing::Panic => panic!("a transaction that panics on purpose"),
    }
}

impl Lmdb {
    fn apply(
        &self,
        planned: Planned,
    ) -> impl FnMut(&mut Transaction<'_>) -> heed::Result<()> + use<> {
        let tables = self.tables;
        move |tx| keyed::apply(&mut Inside(tx, tables), planned)
    }
}

impl Subject for Lmdb {
    const FILES: &'static [(&'static str, &'static str)] = &[("data.mdb", "data file")];
    // To LMDB a write that was cut short is an input or output error, and after a meta page that could
    // not be written it refuses to begin.
    const OUTLIVES_FULL_DISKS: bool = false;
    const IS_MAPPED: bool = true;

    fn open(folder: &Path) -> Result<Self> {
        let db = Database::open(folder.join(FOLDER))?;
        let mut tables = [db.main_table(); TABLES.len()];
        for table in TABLES {
            tables[table as usize] = db.table(table.name())?;
        }
        let upkeep = db.table("upkeep")?;
        Ok(Self { db, tables, upkeep, reading: Arc::default() })
    }

    fn submit(&self, planned: Planned) -> Waiting {
        let ticket = self.db.submit(self.apply(planned));
        Box::new(move || Came::of(&ticket.wait()))
    }

    fn submit_then(&self, planned: Planned, then: Box<dyn FnOnce(Came) + Send>) {
        self.db.submit_then(
            self.apply(planned),
            move |result: Result<(), Failure<heed::Error>>| {
                then(Came::of(&result));
            },
        );
    }

    fn transact(&self, planned: Planned) -> Came {
        Came::of(&self.db.transact(self.apply(planned)))
    }

    fn submit_failing(&self, failing: Failing) -> Waiting {
        let tables = self.tables;
        let ticket = self.db.submit(move |tx| fail(tx, tables, failing));
        Box::new(move || Came::of(&ticket.wait()))
    }

    fn read_durable(&self) -> Option<u64> {
        let _reading = self.reading.read().unwrap_or_else(PoisonError::into_inner);
        let read = |tx: &heed::RoTxn<'_>| -> heed::Result<u64> {
            let table = self.tables[Table::Head as usize];
            let mut failed = None;
            let head = keyed::head(|key| match table.get(tx, key) {
                Ok(value) => value.map(<[u8]>::to_vec),
                Err(error) => {
                    failed = Some(error);
                    None
                }
            });
            failed.map_or(Ok(head), Err)
        };
        self.db.read_durable(read).ok()
    }

    fn tidy(&self, choice: u64) {
        let upkeep = self.upkeep;
        // It may come to nothing, where the disk has just failed: that shows elsewhere.
        let _done = self.db.exclusive(move |env: &mut Exclusive| {
            let _freed = env.clear_stale_readers();
            env.transact(|tx| upkeep.put(tx, &(choice % 64).to_be_bytes(), &choice.to_be_bytes()))
        });
    }

    fn close(&self) -> Result<()> {
        let _nobody_reads = self.reading.write().unwrap_or_else(PoisonError::into_inner);
        Ok(self.db.close()?)
    }

    fn look(&self) -> Result<Found> {
        let mut found = Found::default();
        let mut damaged = Ok(());
        self.db.read(|tx| -> heed::Result<()> {
            for table in TABLES {
                for entry in self.tables[table as usize].iter(tx)? {
                    let (key, value) = entry?;
                    let taken = keyed::take(&mut found, table, key, value);
                    damaged = std::mem::replace(&mut damaged, Ok(())).and(taken);
                }
            }
            Ok(())
        })?;
        damaged.map(|()| found)
    }

    /// LMDB has no check of its own. So every entry is walked over and counted, the reader table is
    /// checked, and the environment is copied compacted, which fails when a page of it belongs
    /// neither to a table nor to the free list.
    fn check_integrity(&self) -> Result<()> {
        self.db.read(|tx| -> heed::Result<()> {
            for table in self.tables.iter().chain([&self.upkeep]) {
                let mut count = 0;
                let mut last: Option<&[u8]> = None;
                for entry in table.iter(tx)? {
                    let (key, _) = entry?;
                    if last.is_some_and(|last| last >= key) {
                        return Err(heed::Error::Mdb(heed::MdbError::Corrupted));
                    }
                    (last, count) = (Some(key), count + 1);
                }
                if count != table.len(tx)? {
                    return Err(heed::Error::Mdb(heed::MdbError::Corrupted));
                }
            }
            Ok(())
        })?;
        let folder = tempfile::tempdir()?;
        let copy = folder.path().join("data.mdb");
        let stale = self.db.exclusive(move |env: &mut Exclusive| {
            env.copy_to(&copy, true)?;
            env.clear_stale_readers()
        });
        let stale = stale.context("a compacted copy, and the reader table")?;
        ensure!(stale == 0, "{stale} readers are left over after opening");
        Ok(())
    }
}
