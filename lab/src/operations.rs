//! The mixed task of experiment 1: over a table that is there already, a read of a random key and a
//! write of one, in turn.
//!
//! 1. Keys are uniform in 1 to 2 × rows, as published; the table holds the even ones, so half of
//!    the first reads find nothing, and half of the first writes insert.
//! 2. Keys and values depend on the seed and the operation's number alone, and all conditions carry
//!    out the same operations in the same order: the table that results is known.

use std::collections::HashMap;
use std::path::Path;

use groupcommit::sqlite::Transaction;
use rusqlite::{Connection, OptionalExtension as _};

use crate::engine::Adapter;
use crate::error::LabError;
use crate::workload::Workload;

const READ: &str = "SELECT v FROM t WHERE k = ?1";

const WRITE: &str = "INSERT INTO t (k, v) VALUES (?1, ?2) ON CONFLICT (k) DO UPDATE SET v = ?2";

/// Operations, generated ahead: those of even number read, those of odd number write.
#[derive(Debug)]
pub(crate) struct Operations {
    keys: Vec<i64>,
    values: Workload,
}

impl Operations {
    /// `count` operations on a table of `rows` rows, with values of `value_bytes` bytes.
    pub(crate) fn generate(count: usize, rows: usize, seed: u64, value_bytes: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(1));
        let highest = Workload::key(rows.saturating_sub(1));
        Self {
            keys: (0..count).map(|_| random.i64(1..=highest)).collect(),
            values: Workload::of_bytes(count / 2, seed.wrapping_add(2), value_bytes),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn is_write(number: usize) -> bool {
        number % 2 == 1
    }

    /// The key of operation `number`.
    #[cfg(any(feature = "lmdb", feature = "rocksdb"))]
    pub(crate) fn key(&self, number: usize) -> i64 {
        self.keys[number]
    }

    /// The value that operation `number`, a write, sets.
    pub(crate) fn value(&self, number: usize) -> &str {
        self.values.value(number / 2)
    }

    /// Reads the row of operation `number` from SQLite; returns whether there is one.
    pub(crate) fn read(&self, connection: &Connection, number: usize) -> rusqlite::Result<bool> {
        let value: Option<String> = connection
            .prepare_cached(READ)?
            .query_row([self.keys[number]], |row| row.get(0))
            .optional()?;
        Ok(std::hint::black_box(value).is_some())
    }

    /// Writes the row of operation `number` to SQLite.
    pub(crate) fn write(&self, connection: &Connection, number: usize) -> rusqlite::Result<()> {
        connection.prepare_cached(WRITE)?.execute((self.keys[number], self.value(number)))?;
        Ok(())
    }

    /// The same in a transaction that shares its commit.
    pub(crate) fn write_in_group(
        &self,
        tx: &Transaction<'_>,
        number: usize,
    ) -> rusqlite::Result<()> {
        tx.execute(WRITE, (self.keys[number], self.value(number))).map(drop)
    }

    /// What the first `writes` writes leave behind: for each key they touched, its value.
    fn written(&self, writes: usize) -> HashMap<i64, &str> {
        (0..writes).map(|write| (self.keys[2 * write + 1], self.values.value(write))).collect()
    }
}

/// Looks whether the database at `path` holds the rows of `preloaded`, changed by the first
/// `writes` writes and by nothing else; returns the rows found and the first key that differs.
pub(crate) fn compare<A: Adapter>(
    path: &Path,
    preloaded: &Workload,
    operations: &Operations,
    writes: usize,
) -> Result<(u64, Option<i64>), LabError> {
    let mut expected = operations.written(writes);
    let (mut found, mut next_index, mut differs) = (0_u64, 0_usize, None);
    A::for_each_row(path, &mut |key, value| {
        found += 1;
        let is_preloaded = key == Workload::key(next_index);
        let first =
            (is_preloaded && next_index < preloaded.rows()).then(|| preloaded.value(next_index));
        next_index += usize::from(is_preloaded);
        if expected.remove(&key).or(first) != Some(value) && differs.is_none() {
            differs = Some(key);
        }
    })?;
    if next_index < preloaded.rows() {
        differs = differs.or(Some(Workload::key(next_index)));
    }
    Ok((found, differs.or_else(|| expected.keys().min().copied())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::Sqlite;

    #[test]
    fn operations_are_determined_by_the_seed_and_stay_within_the_keys() {
        let (one, same) =
            (Operations::generate(1_000, 50, 7, 36), Operations::generate(1_000, 50, 7, 36));
        assert_eq!(one.keys, same.keys);
        assert!(one.keys.iter().all(|key| (1..=100).contains(key)));
        assert!(one.keys.iter().any(|key| key % 2 == 1) && one.keys.contains(&100));
        assert_ne!(one.keys, Operations::generate(1_000, 50, 8, 36).keys);
    }

    #[test]
    fn a_write_that_is_missing_added_or_altered_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.db");
        let rows = Workload::generate(50, 1);
        let operations = Operations::generate(200, 50, 1, 36);
        Sqlite::preload(&path, &rows).expect("loads");
        let connection = Connection::open(&path).expect("opens");
        let same =
            |writes| compare::<Sqlite>(&path, &rows, &operations, writes).expect("compares").1;
        assert_eq!(same(0), None);
        for number in (1..200).step_by(2) {
            operations.write(&connection, number).expect("writes");
            assert!(operations.read(&connection, number).expect("reads"));
        }
        assert_eq!(same(100), None);
        assert!(same(99).is_some() || operations.keys[197] == operations.keys[199]);
        connection.execute("UPDATE t SET v = 'other' WHERE k = 40", []).expect("alters");
        assert_eq!(same(100), Some(40));
        connection.execute("DELETE FROM t WHERE k >= 20", []).expect("deletes");
        assert_eq!(same(100), Some(20));
    }
}
