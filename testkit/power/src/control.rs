//! The control: a writer that does not flush must lose rows. A medium on which it does not shows
//! nothing about one that does.

use anyhow::Result;
use rusqlite::Connection;

use crate::{disk::Survivors, medium::Medium, subject::Engine};

const ROWS: u64 = 400;

/// Returns how many rows were committed, and how many of them were gone after a power cut.
pub(crate) fn run(medium: &mut Medium) -> Result<(u64, u64)> {
    let path = medium.path().join(format!("control-{}.db", Engine::Sqlite.as_str()));
    let connection = Connection::open(&path)?;
    let _mode: String = connection.query_row("PRAGMA journal_mode=WAL", (), |row| row.get(0))?;
    connection.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY)")?;
    let _frames: i64 =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0))?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    for id in 0..ROWS {
        connection.execute("INSERT INTO t VALUES (?1)", [id.cast_signed()])?;
    }
    medium.switch().cut()?;
    drop(connection);
    medium.cycle_power(Survivors::None, &mut fastrand::Rng::with_seed(0))?;
    let connection = Connection::open(&path)?;
    let left: i64 = connection.query_row("SELECT count(*) FROM t", (), |row| row.get(0))?;
    drop(connection);
    Ok((ROWS, ROWS.saturating_sub(left.cast_unsigned())))
}
