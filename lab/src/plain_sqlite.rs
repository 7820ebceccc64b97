//! The conditions without groupcommit: SQLite used directly, one commit a call.
//!
//! Prepared statements from the connection's cache, SQLite's defaults otherwise (automatic
//! checkpoint at 1,000 pages, default page size and cache). Several threads share one connection
//! behind a mutex, which is what a program does that has one database and many callers, or have a
//! connection each and wait for each other by SQLite's own busy handler.

use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use crate::condition::{Condition, SqliteModes};
use crate::database::{CREATE_TABLE, insert_rows};
use crate::engine::Plain;
use crate::error::{Cause, LabError};
use crate::operations::Operations;
use crate::setting::Setting;
use crate::workload::Workload;

/// How long a connection waits for the others. Nobody is to fail for want of patience: how long
/// they wait is what is measured.
const BUSY_TIMEOUT: Duration = Duration::from_mins(10);

/// One shared connection, or one a thread.
#[derive(Debug)]
pub(crate) struct PlainSqlite {
    connections: Vec<Mutex<Connection>>,
}

impl PlainSqlite {
    /// Opens the database at `path`, or creates it, in the given modes, with its table.
    pub(crate) fn with_modes(
        path: &Path,
        modes: SqliteModes,
        connections: usize,
    ) -> Result<Self, LabError> {
        let connections = (0..connections).map(|_| connect(path, modes).map(Mutex::new));
        Ok(Self { connections: connections.collect::<Result<_, _>>()? })
    }

    fn connection(&self, thread: usize) -> MutexGuard<'_, Connection> {
        let connection = &self.connections[thread % self.connections.len()];
        connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plain for PlainSqlite {
    fn open(path: &Path, setting: &Setting) -> Result<Self, LabError> {
        let Some(modes) = setting.condition.sqlite_modes() else {
            let condition = setting.condition;
            return Err(LabError::Options(format!("{condition} is not a condition of SQLite's")));
        };
        let connections =
            if setting.condition == Condition::Connections { setting.threads } else { 1 };
        Self::with_modes(path, modes, connections)
    }

    /// A plain autocommit `INSERT` for one row, else `BEGIN IMMEDIATE`, the rows and `COMMIT`.
    fn transact(
        &self,
        thread: usize,
        workload: &Workload,
        rows: Range<usize>,
    ) -> Result<(), Cause> {
        let connection = self.connection(thread);
        if rows.len() == 1 {
            return Ok(insert_rows(&connection, workload, rows)?);
        }
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        insert_rows(&connection, workload, rows)?;
        connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    fn operate(&self, operations: &Operations, number: usize) -> Result<(), Cause> {
        let connection = self.connection(0);
        if Operations::is_write(number) {
            operations.write(&connection, number)?;
        } else {
            operations.read(&connection, number)?;
        }
        Ok(())
    }

    /// The last connection checkpoints and removes a write-ahead log.
    fn close(self, path: &Path) -> Result<(), LabError> {
        for connection in self.connections {
            let connection = connection.into_inner().unwrap_or_else(PoisonError::into_inner);
            connection.close().map_err(|(_, source)| LabError::database("close", path)(source))?;
        }
        Ok(())
    }
}

fn connect(path: &Path, modes: SqliteModes) -> Result<Connection, LabError> {
    let connect = || {
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
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
        connect().map_err(LabError::database::<rusqlite::Error>("open the database", path))?;
    if answer != modes.journal_mode {
        return Err(LabError::Options(format!(
            "SQLite answered journal_mode={answer} instead of {} for {}; \
             choose a folder on a local file system with --dir",
            modes.journal_mode,
            path.display()
        )));
    }
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Counted;
    use crate::engine::Adapter as _;
    use crate::sqlite::Sqlite;

    fn pragma<T: rusqlite::types::FromSql>(sqlite: &PlainSqlite, name: &str) -> T {
        let connection = sqlite.connection(0);
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
            let sqlite =
                PlainSqlite::with_modes(&folder.path().join("t.db"), modes, 1).expect("creates");
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
        let sqlite =
            PlainSqlite::with_modes(&path, Condition::Wal.sqlite_modes().expect("plain"), 2)
                .expect("creates");
        sqlite.transact(0, &workload, 0..1).expect("one row");
        assert_eq!(Sqlite::count_rows(&path).expect("counts").rows, 1);
        sqlite.transact(1, &workload, 1..11).expect("a batch");
        assert_eq!(
            Sqlite::count_rows(&path).expect("counts"),
            Counted { rows: 11, key_sum: Workload::key_sum(11) }
        );
        sqlite.transact(1, &workload, 3..4).expect_err("a row twice");
        sqlite.close(&path).expect("closes");
        assert!(!folder.path().join("t.db-wal").exists());
    }
}
