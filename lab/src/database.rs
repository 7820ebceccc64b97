//! The table of the experiments, how a row gets into it, and how it is counted at the end: the
//! same for all conditions.

use std::ops::Range;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::error::LabError;
use crate::workload::Workload;

/// Creates the table, unless the database comes with it.
pub(crate) const CREATE_TABLE: &str =
    "CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v TEXT NOT NULL)";

const INSERT: &str = "INSERT INTO t (k, v) VALUES (?1, ?2)";

/// Inserts the given rows with one prepared statement from the connection's cache.
pub(crate) fn insert_rows(
    connection: &Connection,
    workload: &Workload,
    rows: Range<usize>,
) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(INSERT)?;
    for index in rows {
        insert.execute((Workload::key(index), workload.value(index)))?;
    }
    Ok(())
}

/// What a fresh connection finds in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) rows: u64,
    pub(crate) key_sum: i128,
}

/// Counts the rows and adds up the keys with a connection of its own.
pub(crate) fn count_rows(path: &Path) -> Result<Counted, LabError> {
    let count = || {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.query_row("SELECT count(*), coalesce(sum(k), 0) FROM t", [], |row| {
            Ok(Counted {
                rows: row.get::<_, i64>(0)?.unsigned_abs(),
                key_sum: row.get::<_, i64>(1)?.into(),
            })
        })
    };
    count().map_err(LabError::sqlite("count the rows in", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserted_rows_are_found_by_a_fresh_connection() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.db");
        let workload = Workload::generate(100, 1);
        let connection = Connection::open(&path).expect("opens");
        connection.execute_batch(CREATE_TABLE).expect("creates");
        assert_eq!(count_rows(&path).expect("counts"), Counted { rows: 0, key_sum: 0 });
        insert_rows(&connection, &workload, 0..1).expect("inserts");
        insert_rows(&connection, &workload, 1..100).expect("inserts");
        let counted = count_rows(&path).expect("counts");
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
        let error = count_rows(&path).expect_err("nothing there");
        assert!(error.to_string().contains("absent.db"));
        assert!(!path.exists());
    }
}
