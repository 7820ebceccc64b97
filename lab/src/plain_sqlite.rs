//! The conditions without groupcommit: SQLite used directly, one commit a call.
//!
//! Prepared statements from the connection's cache, SQLite's defaults otherwise (automatic
//! checkpoint at 1,000 pages, default page size and cache). Several threads share one connection
//! behind a mutex, which is what a program does that has one database and many callers.

use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use crate::condition::SqliteModes;
use crate::database::{CREATE_TABLE, insert_rows};
use crate::error::LabError;
use crate::workload::Workload;

/// One shared connection.
#[derive(Debug)]
pub(crate) struct PlainSqlite {
    connection: Mutex<Connection>,
}

impl PlainSqlite {
    /// Creates the database at `path` in the given modes, with its table.
    pub(crate) fn create(path: &Path, modes: SqliteModes) -> Result<Self, LabError> {
        let create = || {
            let connection = Connection::open(path)?;
            connection.pragma_update(None, "synchronous", modes.synchronous)?;
            let answer: String = connection.pragma_update_and_check(
                None,
                "journal_mode",
                modes.journal_mode,
                |row| row.get(0),
            )?;
            connection.execute_batch(CREATE_TABLE)?;
            Ok((connection, answer))
        };
        let (connection, answer) =
            create().map_err(LabError::sqlite("create the database", path))?;
        if answer != modes.journal_mode {
            return Err(LabError::Options(format!(
                "SQLite answered journal_mode={answer} instead of {} for {}; \
                 choose a folder on a local file system with --dir",
                modes.journal_mode,
                path.display()
            )));
        }
        Ok(Self { connection: Mutex::new(connection) })
    }

    /// Inserts and commits the rows: a plain autocommit `INSERT` for one, else `BEGIN IMMEDIATE`,
    /// the rows and `COMMIT`.
    pub(crate) fn transact(&self, workload: &Workload, rows: Range<usize>) -> rusqlite::Result<()> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.len() == 1 {
            return insert_rows(&connection, workload, rows);
        }
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        insert_rows(&connection, workload, rows)?;
        connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    /// Closes the connection, which checkpoints and removes a write-ahead log.
    pub(crate) fn close(self, path: &Path) -> Result<(), LabError> {
        let connection = self.connection.into_inner().unwrap_or_else(PoisonError::into_inner);
        connection.close().map_err(|(_, source)| LabError::sqlite("close", path)(source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Condition;
    use crate::database::{Counted, count_rows};

    fn pragma<T: rusqlite::types::FromSql>(sqlite: &PlainSqlite, name: &str) -> T {
        let connection = sqlite.connection.lock().expect("not poisoned");
        connection.pragma_query_value(None, name, |row| row.get(0)).expect("answers")
    }

    #[test]
    fn each_condition_has_its_modes_and_otherwise_defaults() {
        for (condition, journal_mode, synchronous) in [
            (Condition::Default, "delete", 2),
            (Condition::Wal, "wal", 2),
            (Condition::WalNormal, "wal", 1),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let modes = condition.sqlite_modes().expect("plain SQLite");
            let sqlite = PlainSqlite::create(&folder.path().join("t.db"), modes).expect("creates");
            assert_eq!(pragma::<String>(&sqlite, "journal_mode"), journal_mode);
            assert_eq!(pragma::<i64>(&sqlite, "synchronous"), synchronous);
            assert_eq!(pragma::<i64>(&sqlite, "wal_autocheckpoint"), 1_000);
        }
    }

    #[test]
    fn single_rows_and_batches_are_committed_when_the_call_returns() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.db");
        let workload = Workload::generate(11, 1);
        let sqlite = PlainSqlite::create(&path, Condition::Wal.sqlite_modes().expect("plain"))
            .expect("creates");
        sqlite.transact(&workload, 0..1).expect("one row");
        assert_eq!(count_rows(&path).expect("counts").rows, 1);
        sqlite.transact(&workload, 1..11).expect("a batch");
        assert_eq!(
            count_rows(&path).expect("counts"),
            Counted { rows: 11, key_sum: Workload::key_sum(11) }
        );
        sqlite.transact(&workload, 3..4).expect_err("a row twice");
        sqlite.close(&path).expect("closes");
        assert!(!folder.path().join("t.db-wal").exists());
    }
}
