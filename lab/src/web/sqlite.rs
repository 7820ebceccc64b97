//! SQLite's client. There is no asynchronous one: what calls itself so is a bridge.

use groupcommit::sql::sqlite_path;
use rusqlite::{Connection, params_from_iter};

use crate::client::Blocking;
use crate::error::Cause;
use crate::sqlite::BUSY_TIMEOUT;

pub(super) struct SqliteClient(Connection);

impl Blocking for SqliteClient {
    fn connect(url: &str) -> Result<Self, Cause> {
        let connection = Connection::open(sqlite_path(url)?)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(Self(connection))
    }

    fn run(&mut self, sql: &str, numbers: &[i64], _: Option<&str>) -> Result<Option<i64>, Cause> {
        let mut statement = self.0.prepare_cached(sql)?;
        let mut rows = statement.query(params_from_iter(numbers))?;
        Ok(rows.next()?.map(|row| row.get(0)).transpose()?)
    }
}
