//! The rows of a read, as they arrive.

use std::fmt;

use super::{Error, StatementResult, Value};

/// The rows of a read, as they arrive. A connection serves it until its end or until it is dropped,
/// so no more of them than there are connections for reads, less one, should be kept open while one
/// reads.
pub struct Rows {
    inner: Inner,
}

pub(super) enum Inner {
    #[cfg(feature = "sqlite")]
    Sqlite(super::sqlite_rows::SqliteRows),
    #[cfg(feature = "mysql")]
    Mysql(groupcommit_mysql::Rows),
    #[cfg(feature = "postgres")]
    Postgres(groupcommit_postgres::Rows),
}

impl Inner {
    /// Whether the engine counts the rows that a read returns among those affected.
    fn counts_rows(&self) -> bool {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => false,
            #[cfg(feature = "_remote")]
            _ => true,
        }
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("columns", &self.columns()).finish_non_exhaustive()
    }
}

impl Rows {
    pub(super) fn new(inner: Inner) -> Self {
        Self { inner }
    }

    /// The names of the columns.
    #[must_use]
    pub fn columns(&self) -> Vec<String> {
        match &self.inner {
            #[cfg(feature = "sqlite")]
            Inner::Sqlite(rows) => rows.columns.clone(),
            #[cfg(feature = "mysql")]
            Inner::Mysql(rows) => rows.columns(),
            #[cfg(feature = "postgres")]
            Inner::Postgres(rows) => rows.columns(),
        }
    }

    /// The next row; `None` when there are no more.
    ///
    /// # Errors
    ///
    /// What the database says.
    ///
    /// # Cancel safety
    ///
    /// No row is lost when the future is dropped before it is ready.
    pub async fn next(&mut self) -> Result<Option<Vec<Value>>, Error> {
        match &mut self.inner {
            #[cfg(feature = "sqlite")]
            Inner::Sqlite(rows) => rows.next().await,
            #[cfg(feature = "mysql")]
            Inner::Mysql(rows) => rows.next().await.map_err(Error::from_engine),
            #[cfg(feature = "postgres")]
            Inner::Postgres(rows) => rows.next().await.map_err(Error::from_engine),
        }
    }

    /// All rows that are left.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn collect(mut self) -> Result<StatementResult, Error> {
        let mut result = StatementResult::default();
        result.columns = self.columns();
        while let Some(row) = self.next().await? {
            result.rows.push(row);
        }
        if self.inner.counts_rows() {
            result.rows_affected = result.rows.len() as u64;
        }
        Ok(result)
    }
}
