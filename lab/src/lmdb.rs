//! LMDB in the lab: its unnamed table, keys of eight bytes in the order of the numbers.
//!
//! Directly, a call is a write transaction that LMDB syncs as it comes: pages, then the meta page.
//! Threads wait for each other at LMDB's own lock.
#![expect(
    unsafe_code,
    reason = "heed cannot vouch for the mapped file; the call says why it is sound"
)]

use std::convert::Infallible;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use groupcommit::Failure;
use groupcommit::lmdb::heed::{
    self, CommitOrAbort, Env, EnvFlags, EnvOpenOptions, RoTxn, RwTxn, WithoutTls, types::Bytes,
};
use groupcommit::lmdb::{Database, Table, Transaction};
use groupcommit::sqlite::Formation;

use crate::database::Counted;
use crate::engine::{Adapter, Plain};
use crate::error::{Cause, LabError};
use crate::operations::Operations;
use crate::setting::Setting;
use crate::workload::Workload;

/// Address space of every environment of an experiment; no condition has to enlarge it.
const MAP_BYTES: usize = 64 << 30;

/// LMDB.
#[derive(Debug)]
pub(crate) enum Lmdb {}

/// The environment, used directly.
#[derive(Debug)]
pub(crate) struct PlainLmdb {
    env: Env<WithoutTls>,
    table: Table,
}

fn key(key: i64) -> [u8; 8] {
    key.to_be_bytes()
}

fn insert_rows(
    table: Table,
    txn: &mut RwTxn<'_>,
    workload: &Workload,
    rows: Range<usize>,
) -> heed::Result<()> {
    for index in rows {
        table.put(txn, &key(Workload::key(index)), workload.value(index).as_bytes())?;
    }
    Ok(())
}

fn write_row(
    table: Table,
    txn: &mut RwTxn<'_>,
    operations: &Operations,
    number: usize,
) -> heed::Result<()> {
    table.put(txn, &key(operations.key(number)), operations.value(number).as_bytes())
}

fn read_row(
    table: Table,
    txn: &RoTxn<'_>,
    operations: &Operations,
    number: usize,
) -> heed::Result<()> {
    // As with the other engines, the value is copied for the caller.
    let value = table.get(txn, &key(operations.key(number)))?.map(<[u8]>::to_vec);
    std::hint::black_box(value);
    Ok(())
}

fn open(path: &Path, flags: EnvFlags) -> heed::Result<PlainLmdb> {
    if !path.exists() {
        fs::create_dir(path)?;
    }
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(MAP_BYTES).max_readers(512);
    // SAFETY: flags that give up syncing are used only to fill a database that is then copied.
    let options = unsafe { options.flags(flags) };
    // SAFETY: the file lies in a folder of the lab's own, and only LMDB changes it.
    let env = unsafe { options.open(path) }?;
    let txn = env.write_txn()?;
    let opened = env.create_databases_and_commit(txn, |opener, txn| {
        let table = opener.create_database::<Bytes, Bytes>(txn, None)?;
        Ok::<_, heed::Error>(CommitOrAbort::<_, Infallible>::Commit(table))
    })?;
    match opened {
        CommitOrAbort::Commit(table) => Ok(PlainLmdb { env, table }),
        CommitOrAbort::Abort(never) => match never {},
    }
}

impl Plain for PlainLmdb {
    fn open(path: &Path, _: &Setting) -> Result<Self, LabError> {
        open(path, EnvFlags::empty()).map_err(LabError::database("open the database", path))
    }

    fn transact(&self, _: usize, workload: &Workload, rows: Range<usize>) -> Result<(), Cause> {
        let mut txn = self.env.write_txn()?;
        insert_rows(self.table, &mut txn, workload, rows)?;
        Ok(txn.commit()?)
    }

    fn operate(&self, operations: &Operations, number: usize) -> Result<(), Cause> {
        if !Operations::is_write(number) {
            return Ok(read_row(self.table, &*self.env.read_txn()?, operations, number)?);
        }
        let mut txn = self.env.write_txn()?;
        write_row(self.table, &mut txn, operations, number)?;
        Ok(txn.commit()?)
    }

    fn close(self, _: &Path) -> Result<(), LabError> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

impl Adapter for Lmdb {
    type Plain = PlainLmdb;
    type Database = Database;
    type Error = heed::Error;

    fn open(
        path: &Path,
        formation: Formation,
        flush_delay: Duration,
    ) -> Result<Database, LabError> {
        Database::options()
            .map_bytes(MAP_BYTES)
            .formation(formation)
            .flush_delay(flush_delay)
            .open(path)
            .map_err(LabError::database("open the database", path))
    }

    fn insert(
        tx: &mut Transaction<'_>,
        workload: &Workload,
        rows: Range<usize>,
    ) -> heed::Result<()> {
        insert_rows(tx.main_table(), tx, workload, rows)
    }

    fn write(tx: &mut Transaction<'_>, operations: &Operations, number: usize) -> heed::Result<()> {
        write_row(tx.main_table(), tx, operations, number)
    }

    fn read(
        database: &Database,
        operations: &Operations,
        number: usize,
    ) -> Result<(), Failure<heed::Error>> {
        database.read(|txn| read_row(database.main_table(), txn, operations, number))
    }

    fn preload(path: &Path, workload: &Workload) -> Result<(), LabError> {
        let load = || {
            let PlainLmdb { env, table } = open(path, EnvFlags::NO_SYNC)?;
            let mut txn = env.write_txn()?;
            insert_rows(table, &mut txn, workload, 0..workload.rows())?;
            txn.commit()?;
            env.force_sync()
        };
        load().map_err(LabError::database("fill the database", path))
    }

    fn count_rows(path: &Path) -> Result<Counted, LabError> {
        let mut counted = Counted { rows: 0, key_sum: 0 };
        Self::for_each_row(path, &mut |key, _| {
            counted.rows += 1;
            counted.key_sum += i128::from(key);
        })?;
        Ok(counted)
    }

    fn for_each_row(path: &Path, each: &mut dyn FnMut(i64, &str)) -> Result<(), LabError> {
        let mut look = || -> Result<(), Cause> {
            let PlainLmdb { env, table } = open(path, EnvFlags::empty())?;
            let txn = env.read_txn()?;
            for row in table.iter(&txn)? {
                let (key, value) = row?;
                each(i64::from_be_bytes(key.try_into()?), str::from_utf8(value)?);
            }
            Ok(())
        };
        look().map_err(|source| LabError::Database {
            action: "look at the rows of",
            path: path.to_owned(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::condition::Condition;
    use crate::engine::Grouped;
    use crate::setting::Task;

    const SETTING: Setting = Setting {
        task: Task::Write,
        condition: Condition::Sync,
        batch: 1,
        in_flight: 1,
        threads: 1,
        flush_delay: Duration::ZERO,
    };

    #[test]
    fn both_ways_write_the_same_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lab.db");
        let workload = Arc::new(Workload::generate(30, 1));
        let plain = <PlainLmdb as Plain>::open(&path, &SETTING).expect("creates");
        plain.transact(0, &workload, 0..1).expect("one row");
        plain.transact(1, &workload, 1..10).expect("a batch");
        plain.close(&path).expect("closes");
        let grouped = Grouped::<Lmdb>::open(&path, &workload, &SETTING).expect("opens");
        grouped.transact(10..20).expect("commits");
        grouped.submit(20..30).wait().expect("commits");
        grouped.close(&path).expect("closes");
        let counted = Lmdb::count_rows(&path).expect("counts");
        assert_eq!(counted, Counted { rows: 30, key_sum: Workload::key_sum(30) });
        let mut values = Vec::new();
        Lmdb::for_each_row(&path, &mut |_, value| values.push(value.to_owned())).expect("looks");
        assert!((0..30).all(|index| values[index] == workload.value(index)));
    }
}
