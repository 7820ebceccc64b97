//! RocksDB in the lab: its default column family, keys of eight bytes in the order of the numbers.
//!
//! Directly, a call is a write that RocksDB syncs (or not, as the condition says); the writes of
//! threads that wait at the same time RocksDB merges by itself.

use std::path::Path;

use groupcommit::rocksdb::rocksdb::{DB, IteratorMode, Options, WriteBatch, WriteOptions};
use groupcommit::rocksdb::{Database, Error, Snapshot, Transaction};

use crate::adapter::{Adapter, Plain, Tuning};
use crate::condition::Condition;
use crate::error::Cause;
use crate::setting::Setting;
use crate::workload::Batch;

/// How the condition writes.
pub(crate) fn write_options(condition: Condition) -> WriteOptions {
    let mut options = WriteOptions::default();
    match condition {
        Condition::NoWal => options.disable_wal(true),
        Condition::WalNosync => {}
        _ => options.set_sync(true),
    }
    options
}

fn open(path: &Path) -> Result<DB, groupcommit::rocksdb::rocksdb::Error> {
    let mut options = Options::default();
    options.create_if_missing(true);
    DB::open(&options, path)
}

/// The database, used directly.
#[derive(Debug)]
pub(crate) struct PlainRocksdb {
    db: DB,
    condition: Condition,
}

impl Plain for PlainRocksdb {
    fn open(path: &Path, setting: &Setting) -> Result<Self, Cause> {
        Ok(Self { db: open(path)?, condition: setting.condition })
    }

    fn write(&self, _: usize, batch: &Batch) -> Result<(), Cause> {
        let options = write_options(self.condition);
        if batch.len() == 1 {
            let put =
                |(key, value): (i64, &str)| self.db.put_opt(key.to_be_bytes(), value, &options);
            return Ok(batch.rows().try_for_each(put)?);
        }
        let mut rows = WriteBatch::default();
        batch.rows().for_each(|(key, value)| rows.put(key.to_be_bytes(), value));
        Ok(self.db.write_opt(rows, &options)?)
    }

    fn read(&self, key: i64) -> Result<(), Cause> {
        std::hint::black_box(self.db.get(key.to_be_bytes())?);
        Ok(())
    }
}

/// RocksDB.
#[derive(Debug)]
pub(crate) enum Rocksdb {}

impl Adapter for Rocksdb {
    type Plain = PlainRocksdb;
    type Database = Database;
    type Error = Error;

    fn open(path: &Path, tuning: Tuning) -> Result<Database, Cause> {
        Ok(tuning.apply(Database::options()).open(path)?)
    }

    fn write(tx: &mut Transaction<'_>, batch: &Batch) -> Result<(), Error> {
        batch.rows().try_for_each(|(key, value)| tx.put(key.to_be_bytes(), value))
    }

    fn read(database: &Database, key: i64) -> Result<(), Cause> {
        let read = |snapshot: &Snapshot<'_>| -> Result<(), Error> {
            let value = snapshot.get(key.to_be_bytes());
            let value =
                value.map_err(|source| Error::InTransaction { doing: "read a key", source })?;
            std::hint::black_box(value);
            Ok(())
        };
        Ok(database.read(read)?)
    }

    fn for_each_row(path: &Path, each: &mut dyn FnMut(i64, &str)) -> Result<(), Cause> {
        for row in open(path)?.iterator(IteratorMode::Start) {
            let (key, value) = row?;
            each(i64::from_be_bytes((*key).try_into()?), str::from_utf8(&value)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::adapter::{Counted, Grouped, Subject as _};
    use crate::setting::Task;
    use crate::workload::Workload;

    #[test]
    fn every_way_writes_the_same_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lab.db");
        let workload = Arc::new(Workload::generate(40, 1, 36));
        let setting = |condition| Setting::of(Task::Write, condition, 1, 1, 1);
        for (condition, first) in [(Condition::Sync, 0), (Condition::NoWal, 10)] {
            let plain = <PlainRocksdb as Plain>::open(&path, &setting(condition)).expect("creates");
            Plain::write(&plain, 0, &workload.batch(first..first + 1)).expect("one row");
            Plain::write(&plain, 1, &workload.batch(first + 1..first + 10)).expect("a batch");
            Plain::close(plain).expect("closes");
        }
        for (condition, rows) in
            [(Condition::GroupcommitBlocking, 20..30), (Condition::GroupcommitAsync, 30..40)]
        {
            let grouped = Grouped::<Rocksdb>::open(&path, &setting(condition)).expect("opens");
            let ticket = grouped.write(0, workload.batch(rows)).expect("submits");
            assert_eq!(ticket.is_some(), condition.is_async());
            ticket.map_or(Ok(()), |ticket| grouped.wait(ticket)).expect("commits");
            grouped.close().expect("closes");
        }
        let counted = Rocksdb::count_rows(&path).expect("counts");
        assert_eq!(counted, Counted { rows: 40, key_sum: Workload::key_sum(40) });
        let mut values = Vec::new();
        Rocksdb::for_each_row(&path, &mut |_, value| values.push(value.to_owned())).expect("looks");
        assert!((0..40).all(|index| values[index] == workload.value(index)));
    }
}
