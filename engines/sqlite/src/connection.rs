//! The writing connection: what is set on it, and what no transaction may change.

use std::{sync::Arc, time::Duration};

use rusqlite::{Connection, FileControl, config::DbConfig};

use crate::guard::Guard;

/// Statements that the writing connection keeps prepared.
const STATEMENTS_CACHED: usize = 256;

/// Page cache of the writing connection, in KiB, four times SQLite's default: room for the dirty
/// pages of an ordinary group. Not more, because first touching memory is dear (with a larger cache,
/// appends spent much of their time in page faults), and a process may have many databases; a group
/// that fills it is cut short.
const CACHE_KIB: i64 = 8_192;

/// Sets what the scheme rests on, on the writing connection.
pub(crate) fn prepare_writer(
    connection: &mut Connection,
    guard: &Arc<Guard>,
    busy_timeout: Duration,
) -> rusqlite::Result<()> {
    connection.busy_timeout(busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    let synchronous = if is_powersafe(connection)? { "NORMAL" } else { "FULL" };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    // Sub-journals of statements and savepoints: they need not survive anything.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // On macOS a plain fsync leaves the data in the device's cache; elsewhere this does nothing.
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    guard.install(connection)
}

/// Whether a write cut short by a power cut leaves the bytes round it as they were.
///
/// Where it may not, SQLite pads each commit to a sector, but only under `synchronous=FULL`.
fn is_powersafe(connection: &Connection) -> rusqlite::Result<bool> {
    let mut powersafe = -1;
    connection.file_control(Some("main"), FileControl::PowerSafeOverwrite(&mut powersafe))?;
    Ok(powersafe != 0)
}

/// The switches of a connection that a closure could turn for everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Configuration([bool; SWITCHES.len()]);

const SWITCHES: [DbConfig; 16] = [
    DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY,
    DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER,
    DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW,
    DbConfig::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER,
    DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE,
    DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG,
    DbConfig::SQLITE_DBCONFIG_TRIGGER_EQP,
    DbConfig::SQLITE_DBCONFIG_RESET_DATABASE,
    DbConfig::SQLITE_DBCONFIG_DEFENSIVE,
    DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA,
    DbConfig::SQLITE_DBCONFIG_LEGACY_ALTER_TABLE,
    DbConfig::SQLITE_DBCONFIG_DQS_DML,
    DbConfig::SQLITE_DBCONFIG_DQS_DDL,
    DbConfig::SQLITE_DBCONFIG_LEGACY_FILE_FORMAT,
    DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA,
    DbConfig::SQLITE_DBCONFIG_REVERSE_SCANORDER,
];

impl Configuration {
    pub(crate) fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let mut switches = [false; SWITCHES.len()];
        for (switch, config) in switches.iter_mut().zip(SWITCHES) {
            *switch = connection.db_config(config)?;
        }
        Ok(Self(switches))
    }

    /// Turns the switches back to this.
    pub(crate) fn restore(self, connection: &Connection) -> rusqlite::Result<()> {
        for (value, config) in self.0.into_iter().zip(SWITCHES) {
            connection.set_db_config(config, value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use groupcommit_core::SystemClock;

    use super::*;

    #[test]
    fn without_powersafe_overwrite_commits_are_padded() {
        let folder = tempfile::tempdir().unwrap();
        for (psow, expected) in [(1, 1_i64), (0, 2)] {
            let path = folder.path().join(format!("{psow}.db"));
            let uri = format!("file:{}?psow={psow}", path.display());
            let mut connection = Connection::open(uri).unwrap();
            let guard = Guard::new(Arc::new(SystemClock::new()));
            prepare_writer(&mut connection, &guard, Duration::ZERO).unwrap();
            let synchronous: i64 =
                connection.query_row("PRAGMA synchronous", (), |row| row.get(0)).unwrap();
            assert_eq!(synchronous, expected, "psow={psow}");
        }
    }
}
