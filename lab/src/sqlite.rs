//! SQLite in the lab: one table, and the same statements under every condition.
//!
//! Directly: prepared statements from the connection's cache, SQLite's defaults otherwise (automatic
//! checkpoint at 1,000 pages, default page size and cache). Several threads share one connection
//! behind a mutex, which is what a program does that has one database and many callers, or have a
//! connection each and wait for each other by SQLite's own busy handler.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use groupcommit::sqlite::{Database, Transaction};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use crate::adapter::{Adapter, Counted, Plain, Tuning};
use crate::condition::Condition;
use crate::error::Cause;
use crate::setting::Setting;
use crate::workload::Batch;

const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v TEXT NOT NULL)";

const INSERT: &str = "INSERT INTO t (k, v) VALUES (?1, ?2)";

const WRITE: &str = "INSERT INTO t (k, v) VALUES (?1, ?2) ON CONFLICT (k) DO UPDATE SET v = ?2";

const READ: &str = "SELECT v FROM t WHERE k = ?1";

/// How long a connection waits for the others: as long as it takes, since that is what is measured.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_mins(10);

fn statement(batch: &Batch) -> &'static str {
    if batch.replaces() { WRITE } else { INSERT }
}

fn write(connection: &Connection, batch: &Batch) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(statement(batch))?;
    batch.rows().try_for_each(|row| statement.execute(row).map(drop))
}

fn read(connection: &Connection, key: i64) -> rusqlite::Result<()> {
    let value: Option<String> =
        connection.prepare_cached(READ)?.query_row([key], |row| row.get(0)).optional()?;
    std::hint::black_box(value);
    Ok(())
}

/// One shared connection, or one a thread.
#[derive(Debug)]
pub(crate) struct PlainSqlite {
    connections: Vec<Mutex<Connection>>,
}

impl PlainSqlite {
    fn connection(&self, thread: usize) -> MutexGuard<'_, Connection> {
        let connection = &self.connections[thread % self.connections.len()];
        connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plain for PlainSqlite {
    fn open(path: &Path, setting: &Setting) -> Result<Self, Cause> {
        let (journal_mode, synchronous) = match setting.condition {
            Condition::Default => ("delete", "FULL"),
            Condition::Wal | Condition::Shared | Condition::Connections => ("wal", "FULL"),
            Condition::WalNormal => ("wal", "NORMAL"),
            other => return Err(format!("{other} does not use SQLite directly").into()),
        };
        let connect = |_| {
            let connection = Connection::open(path)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.pragma_update(None, "synchronous", synchronous)?;
            let set = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
            let mode =
                connection.pragma_update_and_check(None, "journal_mode", journal_mode, set)?;
            if mode != journal_mode {
                return Err(Cause::from(format!(
                    "SQLite answered journal_mode={mode} instead of {journal_mode}; choose a folder on a \
                     local file system with --dir"
                )));
            }
            connection.execute_batch(CREATE_TABLE)?;
            Ok(Mutex::new(connection))
        };
        let count = if setting.condition == Condition::Connections { setting.threads } else { 1 };
        Ok(Self { connections: (0..count).map(connect).collect::<Result<_, _>>()? })
    }

    /// A plain autocommit `INSERT` for one row, else `BEGIN IMMEDIATE`, the rows and `COMMIT`.
    fn write(&self, thread: usize, batch: &Batch) -> Result<(), Cause> {
        let connection = self.connection(thread);
        if batch.len() == 1 {
            return Ok(write(&connection, batch)?);
        }
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        write(&connection, batch)?;
        connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    fn read(&self, key: i64) -> Result<(), Cause> {
        Ok(read(&self.connection(0), key)?)
    }

    /// The last connection checkpoints and removes a write-ahead log.
    fn close(self) -> Result<(), Cause> {
        for connection in self.connections {
            let connection = connection.into_inner().unwrap_or_else(PoisonError::into_inner);
            connection.close().map_err(|(_, error)| error)?;
        }
        Ok(())
    }
}

/// SQLite.
#[derive(Debug)]
pub(crate) enum Sqlite {}

impl Adapter for Sqlite {
    type Plain = PlainSqlite;
    type Database = Database;
    type Error = rusqlite::Error;

    fn open(path: &Path, tuning: Tuning) -> Result<Database, Cause> {
        let database = tuning.apply(Database::options().convert_to_wal(true)).open(path)?;
        database.exclusive(|connection| connection.execute_batch(CREATE_TABLE))?;
        Ok(database)
    }

    /// As its documentation says: a single statement by `execute`, which keeps it at hand for the
    /// next transaction.
    fn write(tx: &mut Transaction<'_>, batch: &Batch) -> rusqlite::Result<()> {
        if batch.len() == 1 {
            let execute = |row| tx.execute(statement(batch), row).map(drop);
            return batch.rows().try_for_each(execute);
        }
        let mut statement = tx.prepare_cached(statement(batch))?;
        batch.rows().try_for_each(|row| statement.execute(row).map(drop))
    }

    fn read(database: &Database, key: i64) -> Result<(), Cause> {
        Ok(database.read(|connection| read(connection, key))?)
    }

    fn for_each_row(path: &Path, each: &mut dyn FnMut(i64, &str)) -> Result<(), Cause> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let mut statement = connection.prepare("SELECT k, v FROM t ORDER BY k")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            each(row.get(0)?, row.get_ref(1)?.as_str()?);
        }
        Ok(())
    }

    fn count_rows(path: &Path) -> Result<Counted, Cause> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let count = |row: &rusqlite::Row<'_>| {
            let (rows, key_sum) = (row.get::<_, i64>(0)?, row.get::<_, i64>(1)?);
            Ok(Counted { rows: rows.unsigned_abs(), key_sum: key_sum.into() })
        };
        Ok(connection.query_row("SELECT count(*), coalesce(sum(k), 0) FROM t", [], count)?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::adapter::{Grouped, Subject as _};
    use crate::setting::Task;
    use crate::workload::Workload;

    fn setting(condition: Condition, threads: usize) -> Setting {
        Setting::of(Task::Write, condition, 1, 1, threads)
    }

    #[test]
    fn each_condition_has_its_modes_and_otherwise_defaults() {
        for (condition, journal_mode, synchronous) in [
            (Condition::Default, "delete", 2),
            (Condition::Wal, "wal", 2),
            (Condition::WalNormal, "wal", 1),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("t.db");
            let sqlite = PlainSqlite::open(&path, &setting(condition, 1)).expect("creates");
            let connection = sqlite.connection(0);
            let number = |name: &str| -> i64 {
                connection.pragma_query_value(None, name, |row| row.get(0)).expect("answers")
            };
            assert_eq!(number("synchronous"), synchronous);
            assert_eq!(number("wal_autocheckpoint"), 1_000);
            let mode: String = connection
                .pragma_query_value(None, "journal_mode", |row| row.get(0))
                .expect("answers");
            assert_eq!(mode, journal_mode);
        }
    }

    #[test]
    fn single_rows_and_batches_are_committed_when_the_call_returns() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.db");
        let workload = Arc::new(Workload::generate(11, 1, 36));
        let sqlite =
            PlainSqlite::open(&path, &setting(Condition::Connections, 2)).expect("creates");
        Plain::write(&sqlite, 0, &workload.batch(0..1)).expect("one row");
        assert_eq!(Sqlite::count_rows(&path).expect("counts").rows, 1);
        Plain::write(&sqlite, 1, &workload.batch(1..11)).expect("a batch");
        assert_eq!(
            Sqlite::count_rows(&path).expect("counts"),
            Counted { rows: 11, key_sum: Workload::key_sum(11) }
        );
        Plain::write(&sqlite, 1, &workload.batch(3..4)).expect_err("a row twice");
        let mut values = Vec::new();
        Sqlite::for_each_row(&path, &mut |_, value| values.push(value.to_owned())).expect("looks");
        assert!((0..11).all(|index| values[index] == workload.value(index)));
        sqlite.close().expect("closes");
        assert!(!folder.path().join("t.db-wal").exists());
    }

    #[test]
    fn a_transaction_that_fails_keeps_sqlites_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.db");
        let workload = Arc::new(Workload::generate(2, 1, 36));
        let setting = setting(Condition::GroupcommitAsync, 1);
        let grouped = Grouped::<Sqlite>::open(&path, &setting).expect("creates");
        let submit =
            |rows| grouped.write(0, workload.batch(rows)).expect("submits").expect("a ticket");
        submit(0..2).wait().expect("inserts");
        let failure = submit(1..2).wait().expect_err("a row twice");
        let cause = failure.into_caller().expect("the closure's own error");
        assert_eq!(cause.sqlite_error_code(), Some(rusqlite::ErrorCode::ConstraintViolation));
        grouped.close().expect("closes");
    }

    #[test]
    fn a_missing_database_is_an_error_and_is_not_created() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("absent.db");
        Sqlite::count_rows(&path).expect_err("nothing there");
        assert!(!path.exists());
    }
}
