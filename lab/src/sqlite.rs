//! SQLite in the lab: one table, and the same statements under every condition.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use groupcommit::Failure;
use groupcommit::sqlite::{Database, Formation, Transaction};
use rusqlite::{Connection, OpenFlags};

use crate::database::{CREATE_TABLE, Counted, insert_in_group, insert_rows};
use crate::engine::Adapter;
use crate::error::LabError;
use crate::operations::Operations;
use crate::plain_sqlite::PlainSqlite;
use crate::workload::Workload;

/// SQLite.
#[derive(Debug)]
pub(crate) enum Sqlite {}

impl Adapter for Sqlite {
    type Plain = PlainSqlite;
    type Database = Database;
    type Error = rusqlite::Error;

    fn open(
        path: &Path,
        formation: Formation,
        flush_delay: Duration,
    ) -> Result<Database, LabError> {
        let database = Database::options()
            .convert_to_wal(true)
            .formation(formation)
            .flush_delay(flush_delay)
            .open(path)
            .map_err(LabError::database("open the database", path))?;
        database
            .exclusive(|connection| connection.execute_batch(CREATE_TABLE))
            .map_err(LabError::database("create the table in", path))?;
        Ok(database)
    }

    fn insert(
        tx: &mut Transaction<'_>,
        workload: &Workload,
        rows: Range<usize>,
    ) -> rusqlite::Result<()> {
        insert_in_group(tx, workload, rows)
    }

    fn write(
        tx: &mut Transaction<'_>,
        operations: &Operations,
        number: usize,
    ) -> rusqlite::Result<()> {
        operations.write_in_group(tx, number)
    }

    fn read(
        database: &Database,
        operations: &Operations,
        number: usize,
    ) -> Result<(), Failure<rusqlite::Error>> {
        database.read(|connection| operations.read(connection, number)).map(drop)
    }

    fn preload(path: &Path, workload: &Workload) -> Result<(), LabError> {
        let load = || {
            let mut connection = Connection::open(path)?;
            connection.pragma_update(None, "synchronous", "OFF")?;
            connection.execute_batch(CREATE_TABLE)?;
            let transaction = connection.transaction()?;
            insert_rows(&transaction, workload, 0..workload.rows())?;
            transaction.commit()
        };
        load().map_err(LabError::database("fill the database", path))
    }

    fn count_rows(path: &Path) -> Result<Counted, LabError> {
        let count = || {
            let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            connection.query_row("SELECT count(*), coalesce(sum(k), 0) FROM t", [], |row| {
                Ok(Counted {
                    rows: row.get::<_, i64>(0)?.unsigned_abs(),
                    key_sum: row.get::<_, i64>(1)?.into(),
                })
            })
        };
        count().map_err(LabError::database("count the rows in", path))
    }

    fn for_each_row(path: &Path, each: &mut dyn FnMut(i64, &str)) -> Result<(), LabError> {
        let mut look = || {
            let connection = Connection::open(path)?;
            let mut statement = connection.prepare("SELECT k, v FROM t ORDER BY k")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                each(row.get(0)?, row.get_ref(1)?.as_str()?);
            }
            Ok(())
        };
        look().map_err(LabError::database::<rusqlite::Error>("look at the rows of", path))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::condition::Condition;
    use crate::engine::Grouped;
    use crate::setting::{Setting, Task};

    const SETTING: Setting = Setting {
        task: Task::Write,
        condition: Condition::GroupcommitAsync,
        batch: 1,
        in_flight: 1,
        threads: 1,
        flush_delay: Duration::ZERO,
    };

    #[test]
    fn a_transaction_that_fails_keeps_sqlites_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.db");
        let workload = Arc::new(Workload::generate(2, 1));
        let grouped = Grouped::<Sqlite>::open(&path, &workload, &SETTING).expect("creates");
        grouped.transact(0..2).expect("inserts");
        let failure = grouped.submit(1..2).wait().expect_err("a row twice");
        let cause = failure.into_caller().expect("the closure's own error");
        assert_eq!(cause.sqlite_error_code(), Some(rusqlite::ErrorCode::ConstraintViolation));
        grouped.close(&path).expect("closes");
    }

    #[test]
    fn inserted_rows_are_found_by_a_fresh_connection() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.db");
        let workload = Workload::generate(100, 1);
        let connection = Connection::open(&path).expect("opens");
        connection.execute_batch(CREATE_TABLE).expect("creates");
        assert_eq!(Sqlite::count_rows(&path).expect("counts"), Counted { rows: 0, key_sum: 0 });
        insert_rows(&connection, &workload, 0..1).expect("inserts");
        insert_rows(&connection, &workload, 1..100).expect("inserts");
        let counted = Sqlite::count_rows(&path).expect("counts");
        assert_eq!(counted, Counted { rows: 100, key_sum: Workload::key_sum(100) });
        let last: String = connection
            .query_row("SELECT v FROM t WHERE k = 200", [], |row| row.get(0))
            .expect("the last row");
        assert_eq!(last, workload.value(99));
    }

    #[test]
    fn a_missing_database_is_an_error_that_names_it_and_is_not_created() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("absent.db");
        let error = Sqlite::count_rows(&path).expect_err("nothing there");
        assert!(error.to_string().contains("absent.db"));
        assert!(!path.exists());
    }
}
