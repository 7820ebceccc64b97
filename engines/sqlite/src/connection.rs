//! The writing connection: what is set on it, and what no transaction may change.

use std::{path::Path, sync::Arc, time::Duration};

use rusqlite::{Connection, FileControl, OpenFlags};

use crate::{ffi, guard::Guard};

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

/// Opens a connection for one exclusive: whatever is set on it, made in `temp`, attached or left open
/// ends with it.
pub(crate) fn open_for_exclusive(
    path: &Path,
    guard: &Arc<Guard>,
    busy_timeout: Duration,
) -> rusqlite::Result<Connection> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // It may attach a database that is to be created; this one may not be created again.
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, path.exists());
    let mut connection = Connection::open_with_flags(path, flags)?;
    prepare_writer(&mut connection, guard, busy_timeout)?;
    Ok(connection)
}

/// Whether a write cut short by a power cut leaves the bytes round it as they were.
///
/// Where it may not, SQLite pads each commit to a sector, but only under `synchronous=FULL`.
pub(crate) fn is_powersafe(connection: &Connection) -> rusqlite::Result<bool> {
    let mut powersafe = -1;
    connection.file_control(Some("main"), FileControl::PowerSafeOverwrite(&mut powersafe))?;
    Ok(powersafe != 0)
}

/// What a closure could set on a connection, for everybody, with a function that no hook sees: all
/// the switches and limits that the linked SQLite has.
#[derive(Debug)]
pub(crate) struct Configuration {
    switches: Vec<i32>,
    limits: Vec<i32>,
}

impl Configuration {
    pub(crate) fn of(connection: &Connection) -> Self {
        Self {
            switches: (ffi::FIRST_SWITCH..)
                .map_while(|switch| ffi::switch(connection, switch, -1))
                .collect(),
            limits: (0..).map_while(|limit| ffi::limit(connection, limit, -1)).collect(),
        }
    }

    /// Whether the connection is still set like this.
    pub(crate) fn is_of(&self, connection: &Connection) -> bool {
        (ffi::FIRST_SWITCH..)
            .zip(&self.switches)
            .all(|(switch, &value)| ffi::switch(connection, switch, -1) == Some(value))
            && (0..)
                .zip(&self.limits)
                .all(|(limit, &value)| ffi::limit(connection, limit, -1) == Some(value))
    }

    /// Sets the connection like this again.
    pub(crate) fn restore(&self, connection: &Connection) {
        for (switch, &value) in (ffi::FIRST_SWITCH..).zip(&self.switches) {
            ffi::switch(connection, switch, value);
        }
        for (limit, &value) in (0..).zip(&self.limits) {
            ffi::limit(connection, limit, value);
        }
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
