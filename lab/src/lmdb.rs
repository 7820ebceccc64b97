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
use std::path::Path;

use groupcommit::lmdb::heed::{
    self, CommitOrAbort, Env, EnvOpenOptions, RoTxn, RwTxn, WithoutTls, types::Bytes,
};
use groupcommit::lmdb::{Database, Table, Transaction};

use crate::adapter::{Adapter, Plain, Tuning};
use crate::error::Cause;
use crate::setting::Setting;
use crate::workload::Batch;

/// Address space of every environment of an experiment; no condition has to enlarge it.
const MAP_BYTES: usize = 64 << 30;

fn write(table: Table, txn: &mut RwTxn<'_>, batch: &Batch) -> heed::Result<()> {
    batch.rows().try_for_each(|(key, value)| table.put(txn, &key.to_be_bytes(), value.as_bytes()))
}

fn read(table: Table, txn: &RoTxn<'_>, key: i64) -> heed::Result<()> {
    // As with the other engines, the value is copied for the caller.
    let value = table.get(txn, &key.to_be_bytes())?.map(<[u8]>::to_vec);
    std::hint::black_box(value);
    Ok(())
}

/// The environment, used directly.
#[derive(Debug)]
pub(crate) struct PlainLmdb {
    env: Env<WithoutTls>,
    table: Table,
}

fn open(path: &Path) -> heed::Result<PlainLmdb> {
    if !path.exists() {
        fs::create_dir(path)?;
    }
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(MAP_BYTES).max_readers(512);
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
    fn open(path: &Path, _: &Setting) -> Result<Self, Cause> {
        Ok(open(path)?)
    }

    fn write(&self, _: usize, batch: &Batch) -> Result<(), Cause> {
        let mut txn = self.env.write_txn()?;
        write(self.table, &mut txn, batch)?;
        Ok(txn.commit()?)
    }

    fn read(&self, key: i64) -> Result<(), Cause> {
        Ok(read(self.table, &*self.env.read_txn()?, key)?)
    }

    fn close(self) -> Result<(), Cause> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

/// LMDB.
#[derive(Debug)]
pub(crate) enum Lmdb {}

impl Adapter for Lmdb {
    type Plain = PlainLmdb;
    type Database = Database;
    type Error = heed::Error;

    fn open(path: &Path, tuning: Tuning) -> Result<Database, Cause> {
        Ok(tuning.apply(Database::options().map_bytes(MAP_BYTES)).open(path)?)
    }

    fn write(tx: &mut Transaction<'_>, batch: &Batch) -> heed::Result<()> {
        write(tx.main_table(), tx, batch)
    }

    fn read(database: &Database, key: i64) -> Result<(), Cause> {
        Ok(database.read(|txn| read(database.main_table(), txn, key))?)
    }

    fn for_each_row(path: &Path, each: &mut dyn FnMut(i64, &str)) -> Result<(), Cause> {
        let PlainLmdb { env, table } = open(path)?;
        let txn = env.read_txn()?;
        for row in table.iter(&txn)? {
            let (key, value) = row?;
            each(i64::from_be_bytes(key.try_into()?), str::from_utf8(value)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::adapter::{Counted, Grouped, Subject as _};
    use crate::condition::Condition;
    use crate::setting::Task;
    use crate::workload::Workload;

    #[test]
    fn both_ways_write_the_same_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lab.db");
        let workload = Arc::new(Workload::generate(30, 1, 36));
        let setting = |condition| Setting::of(Task::Write, condition, 1, 1, 1);
        let plain = <PlainLmdb as Plain>::open(&path, &setting(Condition::Sync)).expect("creates");
        Plain::write(&plain, 0, &workload.batch(0..1)).expect("one row");
        Plain::write(&plain, 1, &workload.batch(1..10)).expect("a batch");
        plain.close().expect("closes");
        for (condition, rows) in
            [(Condition::GroupcommitBlocking, 10..20), (Condition::GroupcommitAsync, 20..30)]
        {
            let grouped = Grouped::<Lmdb>::open(&path, &setting(condition)).expect("opens");
            let ticket = grouped.write(0, workload.batch(rows)).expect("submits");
            assert_eq!(ticket.is_some(), condition.is_async());
            ticket.map_or(Ok(()), |ticket| grouped.wait(ticket)).expect("commits");
            grouped.close().expect("closes");
        }
        let counted = Lmdb::count_rows(&path).expect("counts");
        assert_eq!(counted, Counted { rows: 30, key_sum: Workload::key_sum(30) });
        let mut values = Vec::new();
        Lmdb::for_each_row(&path, &mut |_, value| values.push(value.to_owned())).expect("looks");
        assert!((0..30).all(|index| values[index] == workload.value(index)));
    }
}
