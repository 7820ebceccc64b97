//! RocksDB in the lab: its default column family, keys of eight bytes in the order of the numbers.
//!
//! Directly, a call is a write that RocksDB syncs (or not, as the condition says); the writes of
//! threads that wait at the same time RocksDB merges by itself.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use groupcommit::Failure;
use groupcommit::rocksdb::rocksdb::{DB, IteratorMode, Options, WriteBatch, WriteOptions};
use groupcommit::rocksdb::{Database, Error, Snapshot, Transaction};
use groupcommit::sqlite::Formation;

use crate::condition::Condition;
use crate::database::Counted;
use crate::engine::{Adapter, Plain};
use crate::error::{Cause, LabError};
use crate::operations::Operations;
use crate::setting::Setting;
use crate::workload::Workload;

/// RocksDB.
#[derive(Debug)]
pub(crate) enum Rocksdb {}

/// The database, used directly.
#[derive(Debug)]
pub(crate) struct PlainRocksdb {
    db: DB,
    condition: Condition,
}

fn key(key: i64) -> [u8; 8] {
    key.to_be_bytes()
}

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

impl Plain for PlainRocksdb {
    fn open(path: &Path, setting: &Setting) -> Result<Self, LabError> {
        let db = open(path).map_err(LabError::database("open the database", path))?;
        Ok(Self { db, condition: setting.condition })
    }

    fn transact(&self, _: usize, workload: &Workload, rows: Range<usize>) -> Result<(), Cause> {
        let options = write_options(self.condition);
        if rows.len() == 1 {
            let (row, value) = (key(Workload::key(rows.start)), workload.value(rows.start));
            return Ok(self.db.put_opt(row, value, &options)?);
        }
        let mut batch = WriteBatch::default();
        for index in rows {
            batch.put(key(Workload::key(index)), workload.value(index));
        }
        Ok(self.db.write_opt(batch, &options)?)
    }

    fn operate(&self, operations: &Operations, number: usize) -> Result<(), Cause> {
        let row = key(operations.key(number));
        if Operations::is_write(number) {
            let options = write_options(self.condition);
            return Ok(self.db.put_opt(row, operations.value(number), &options)?);
        }
        std::hint::black_box(self.db.get(row)?);
        Ok(())
    }

    fn close(self, _: &Path) -> Result<(), LabError> {
        Ok(())
    }
}

impl Adapter for Rocksdb {
    type Plain = PlainRocksdb;
    type Database = Database;
    type Error = Error;

    fn open(
        path: &Path,
        formation: Formation,
        flush_delay: Duration,
    ) -> Result<Database, LabError> {
        Database::options()
            .formation(formation)
            .flush_delay(flush_delay)
            .open(path)
            .map_err(LabError::database("open the database", path))
    }

    fn insert(
        tx: &mut Transaction<'_>,
        workload: &Workload,
        rows: Range<usize>,
    ) -> Result<(), Error> {
        for index in rows {
            tx.put(key(Workload::key(index)), workload.value(index))?;
        }
        Ok(())
    }

    fn write(
        tx: &mut Transaction<'_>,
        operations: &Operations,
        number: usize,
    ) -> Result<(), Error> {
        tx.put(key(operations.key(number)), operations.value(number))
    }

    fn read(
        database: &Database,
        operations: &Operations,
        number: usize,
    ) -> Result<(), Failure<Error>> {
        let read = |snapshot: &Snapshot<'_>| {
            let value = snapshot.get(key(operations.key(number)));
            let value =
                value.map_err(|source| Error::InTransaction { doing: "read a key", source })?;
            std::hint::black_box(value);
            Ok(())
        };
        database.read(read)
    }

    fn preload(path: &Path, workload: &Workload) -> Result<(), LabError> {
        let load = || {
            let db = open(path)?;
            let mut options = WriteOptions::default();
            options.disable_wal(true);
            for index in 0..workload.rows() {
                db.put_opt(key(Workload::key(index)), workload.value(index), &options)?;
            }
            db.flush()
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
            let db = open(path)?;
            for row in db.iterator(IteratorMode::Start) {
                let (key, value) = row?;
                each(i64::from_be_bytes((*key).try_into()?), str::from_utf8(&value)?);
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
    fn every_way_writes_the_same_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lab.db");
        let workload = Arc::new(Workload::generate(40, 1));
        for (condition, first) in [(Condition::Sync, 0), (Condition::NoWal, 10)] {
            let setting = Setting { condition, ..SETTING };
            let plain = <PlainRocksdb as Plain>::open(&path, &setting).expect("creates");
            plain.transact(0, &workload, first..first + 1).expect("one row");
            plain.transact(1, &workload, first + 1..first + 10).expect("a batch");
            plain.close(&path).expect("closes");
        }
        let grouped = Grouped::<Rocksdb>::open(&path, &workload, &SETTING).expect("opens");
        grouped.transact(20..30).expect("commits");
        grouped.submit(30..40).wait().expect("commits");
        grouped.close(&path).expect("closes");
        let counted = Rocksdb::count_rows(&path).expect("counts");
        assert_eq!(counted, Counted { rows: 40, key_sum: Workload::key_sum(40) });
        let mut values = Vec::new();
        Rocksdb::for_each_row(&path, &mut |_, value| values.push(value.to_owned())).expect("looks");
        assert!((0..40).all(|index| values[index] == workload.value(index)));
    }
}
