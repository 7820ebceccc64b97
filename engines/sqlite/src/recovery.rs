//! What happens to a log that is there from before, when a database is opened.
//!
//! Invariants:
//! 1. What is found is on the disk, not only in the page cache. After a write that failed the cache
//!    still shows the page, counts it as clean, and reports the failure once: a later sync succeeds
//!    and saves nothing. Nor does it help to write the page again: where the failed write was to be
//!    the first of its block, ext4 may write it and still leave the block marked as never written.
//! 2. The log is whole on the disk before a page of it is copied into the database, and all of it is
//!    copied and synced before the first promise.

use std::{
    fs::File,
    io,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use groupcommit_medium::Identity;
use rusqlite::{Connection, OpenFlags, config::DbConfig};

use crate::ffi;

/// Databases of which this process has lost a write, or a file, since the page cache was last made
/// to forget them.
static DISTRUSTED: Mutex<Vec<Identity>> = Mutex::new(Vec::new());

fn distrusted() -> MutexGuard<'static, Vec<Identity>> {
    DISTRUSTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A write to this database failed, or one of its files is gone: it is opened again only when nobody
/// has it open any more.
pub(crate) fn distrust(database: Identity) {
    let mut distrusted = distrusted();
    if !distrusted.contains(&database) {
        distrusted.push(database);
    }
}

/// What came of the page cache when a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cache {
    /// It shows what is on the disk, or what others have read already.
    Trusted,
    /// Writes of this process failed, and somebody still has the database open.
    Distrusted,
}

/// Has the page cache forget the database at `path` and its log, if there is a log and nobody else
/// has the database open, so that whoever reads them next sees what is on the disk.
///
/// A log that is there while nobody has the database open was left by a process that died, or after
/// a failure. Where others have it open, it is theirs: they have read it already, unless this process
/// knows of a failure; then it waits for so long until nobody has it open.
///
/// # Errors
///
/// What SQLite says.
pub(crate) fn distrust_cache(path: &Path, wait: Duration) -> rusqlite::Result<Cache> {
    let known = Identity::of(path).ok().filter(|database| distrusted().contains(database));
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let Ok(alone) = Connection::open_with_flags(path, flags) else { return Ok(Cache::Trusted) };
    let Some(log) = ffi::wal_path(&alone) else { return Ok(Cache::Trusted) };
    if known.is_none() && log.metadata().map_or(0, |log| log.len()) == 0 {
        return Ok(Cache::Trusted);
    }
    alone.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    alone.busy_timeout(if known.is_some() { wait } else { Duration::ZERO })?;
    // Before the first look at the log: so its index is in this connection's own memory, and nobody
    // else ever sees what is read of the log here.
    alone.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    if alone.query_row("SELECT count(*) FROM sqlite_schema", (), |_| Ok(())).is_err() {
        // Others have it open, or the next who opens it comes to the same error.
        return Ok(if known.is_some() { Cache::Distrusted } else { Cache::Trusted });
    }
    if log.exists() {
        forget(&log);
    }
    // Closing the descriptor takes all locks of this process off the database: those of `alone`,
    // which has done its work, and of nobody else.
    if let Some(database) = ffi::database_path(&alone) {
        forget(&database);
    }
    if let Some(known) = known {
        distrusted().retain(|database| *database != known);
    }
    Ok(Cache::Trusted)
}

/// Writes out what the page cache holds of the file, and has it forget the rest.
fn forget(path: &Path) {
    let forgotten = File::options().write(true).open(path).and_then(|file| {
        if let Err(error) = file.sync_all() {
            // What could not be written is lost, and from now on it looks so.
            tracing::warn!(%error, path = %path.display(), "a write from before had failed");
        }
        drop_clean_pages(&file)
    });
    if let Err(error) = forgotten {
        tracing::warn!(%error, path = %path.display(), "could not look behind the page cache");
    }
}

#[cfg(target_os = "linux")]
fn drop_clean_pages(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?)
}

#[cfg(not(target_os = "linux"))]
fn drop_clean_pages(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database with a log, as a process that dies leaves it.
    fn with_log(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("app.db");
        let writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        writer.execute_batch("CREATE TABLE t (id); INSERT INTO t VALUES (1)").unwrap();
        writer.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        path
    }

    fn rows(path: &Path) -> i64 {
        let reader = Connection::open(path).unwrap();
        reader.query_row("SELECT count(*) FROM t", (), |row| row.get(0)).unwrap()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_the_page_cache_shows_of_a_log_from_before_is_forgotten() {
        // Not in a folder for temporary files: these are in memory on many machines.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = with_log(folder.path());
        let log = path.with_extension("db-wal");
        assert!(ffi::is_cached(&log, 0).unwrap() && ffi::is_cached(&path, 0).unwrap());
        distrust_cache(&path, Duration::ZERO).unwrap();
        assert!(!ffi::is_cached(&log, 0).unwrap() && !ffi::is_cached(&path, 0).unwrap());
        assert_eq!(rows(&path), 1);
    }

    /// As far from what opening reads as the system reads ahead, and further.
    #[cfg(target_os = "linux")]
    #[test]
    fn opening_forgets_what_the_page_cache_shows() {
        const FAR: u32 = 16 << 20;
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = with_log(folder.path());
        let writer = Connection::open(&path).unwrap();
        writer.execute("CREATE TABLE large AS SELECT zeroblob(?1)", [2 * FAR]).unwrap();
        writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).unwrap();
        writer.execute("INSERT INTO t VALUES (2)", ()).unwrap();
        writer.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        drop(writer);
        assert!(ffi::is_cached(&path, FAR).unwrap());
        let db = crate::Database::open(&path).unwrap();
        assert!(!ffi::is_cached(&path, FAR).unwrap(), "what is shown may not be on the disk");
        db.close().unwrap();
        assert_eq!(rows(&path), 2);
    }

    #[test]
    fn the_log_stays_and_nobody_is_kept_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = with_log(folder.path());
        distrust_cache(&path, Duration::ZERO).unwrap();
        assert!(path.with_extension("db-wal").metadata().unwrap().len() > 0, "it was emptied");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (2); COMMIT").unwrap();
        assert_eq!(rows(&path), 2);
    }

    /// Whether this process holds the lock that SQLite holds as long as a log is open. Asked as
    /// another process would: a lock of an open file description is nobody's but its own.
    #[cfg(target_os = "linux")]
    fn is_locked(path: &Path) -> bool {
        use nix::{
            fcntl::{FcntlArg, fcntl},
            libc,
        };
        let file = File::options().read(true).write(true).open(path).unwrap();
        let mut lock = libc::flock {
            l_type: i16::try_from(libc::F_WRLCK).unwrap(),
            l_whence: i16::try_from(libc::SEEK_SET).unwrap(),
            l_start: 0x4000_0002,
            l_len: 510,
            l_pid: 0,
        };
        fcntl(&file, FcntlArg::F_OFD_GETLK(&mut lock)).unwrap();
        std::mem::forget(file); // closing it would take the lock away
        i32::from(lock.l_type) != libc::F_UNLCK
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn whoever_has_it_open_keeps_it_and_its_locks() {
        let folder = tempfile::tempdir().unwrap();
        let path = with_log(folder.path());
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (2)").unwrap();
        distrust_cache(&path, Duration::ZERO).unwrap();
        assert!(is_locked(&path));
        let third = Connection::open(&path).unwrap();
        third.busy_timeout(Duration::ZERO).unwrap();
        third.execute_batch("BEGIN IMMEDIATE").unwrap_err();
        other.execute_batch("COMMIT").unwrap();
        assert_eq!(rows(&path), 2);
    }

    #[test]
    fn without_a_log_nothing_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.db");
        distrust_cache(&path, Duration::ZERO).unwrap();
        assert!(!path.exists());
    }
}
