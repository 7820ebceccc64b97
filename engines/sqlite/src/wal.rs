//! Flushing the write-ahead log through a descriptor of our own.
//!
//! SQLite, at `synchronous=NORMAL`, writes a commit's frames to the log and publishes them without
//! a sync. One `fdatasync` of the log then makes every commit durable that returned before it:
//! the call covers the file, whoever wrote it and through whichever descriptor.
//!
//! Invariants:
//! 1. The descriptor is of the file that SQLite writes: device and inode are compared at every
//!    flush, since syncing a log that was deleted and replaced would promise nothing.
//! 2. The log's directory entry was synced before the first flush returned.
//! 3. After a failed flush nothing that syncs the log is opened any more: the system reports a page
//!    that it could not write once to each descriptor that was open then, and to none that is opened
//!    later, so a sync by such a one would succeed and promise nothing.
//! 4. Only the log is ever opened here: closing any descriptor of the database itself or of its
//!    `-shm` would drop the locks that SQLite holds on them in this process. The log has none.

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use groupcommit_core::{Cause, Flush};
use groupcommit_medium::Identity;

use crate::Error;

/// The write-ahead log of one database, open for flushing.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    path: PathBuf,
    identity: Identity,
    /// Zero, but in experiments.
    flush_delay: Duration,
    /// No sync has failed. Locked while one is under way.
    is_sound: Mutex<bool>,
    /// Flushes that succeed before one is made to fail; for tests of what happens then.
    #[cfg(test)]
    pub(crate) flushes_until_failure: std::sync::atomic::AtomicI64,
}

impl Log {
    /// Opens the log at `path`, which SQLite has created, and makes its directory entry durable.
    ///
    /// Each flush is made to take `flush_delay` longer.
    pub(crate) fn open(path: PathBuf, flush_delay: Duration) -> Result<Arc<Self>, Error> {
        let failed = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { doing, path, source }
        };
        let file = OpenOptions::new()
            .write(true)
            .open(&path)
            .map_err(failed("open the write-ahead log", &path))?;
        let identity = Identity::of(&path).map_err(failed("look at", &path))?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(failed("flush the folder", folder))?;
        Ok(Arc::new(Self {
            file,
            path,
            identity,
            flush_delay,
            is_sound: Mutex::new(true),
            #[cfg(test)]
            flushes_until_failure: i64::MAX.into(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_sound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no sync has failed.
    pub(crate) fn is_sound(&self) -> bool {
        *self.lock()
    }

    /// Calls `open`, which opens descriptors that sync the log, while no flush is under way; not
    /// after one has failed.
    pub(crate) fn while_sound<T>(&self, open: impl FnOnce() -> T) -> Option<T> {
        let is_sound = self.lock();
        is_sound.then(open)
    }

    fn flush(&self) -> Result<(), Error> {
        let io_error = |source: io::Error| Error::Io {
            doing: "flush the write-ahead log",
            path: self.path.clone(),
            source,
        };
        {
            let mut is_sound = self.lock();
            let synced = self.sync();
            *is_sound &= synced.is_ok();
            synced.map_err(io_error)?;
        }
        // Never in use, only where an experiment shows a slower disk.
        if !self.flush_delay.is_zero() {
            std::thread::sleep(self.flush_delay);
        }
        match self.identity.is_at(&self.path) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::LogReplaced(self.path.clone())),
            Err(error) => Err(io_error(error)),
        }
    }

    fn sync(&self) -> io::Result<()> {
        #[cfg(test)]
        if self.flushes_until_failure.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) == 0 {
            return Err(io::Error::other("a flush that a test made fail"));
        }
        self.file.sync_data()
    }

    /// Size of the log's file in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        size(&self.file).unwrap_or(0)
    }
}

/// A file's size, asked for alone: to ask for times as well makes later flushes dearer.
#[cfg(target_os = "linux")]
fn size(file: &File) -> io::Result<u64> {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    Ok(statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::SIZE)?.stx_size)
}

#[cfg(not(target_os = "linux"))]
fn size(file: &File) -> io::Result<u64> {
    file.metadata().map(|metadata| metadata.len())
}

/// The flusher that the pipeline calls.
#[derive(Debug, Clone)]
pub struct LogFlusher(pub(crate) Arc<Log>);

impl Flush for LogFlusher {
    fn flush(&self) -> Result<(), Cause> {
        self.0.flush().map_err(|error| Arc::new(error) as Cause)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::Ordering::Relaxed,
        mpsc::{self, Sender},
    };

    use groupcommit_core::{Failure, NotRun, Ticket};

    use crate::Database;

    type Held = (Sender<()>, Ticket<usize, rusqlite::Error>);

    /// A transaction that inserts `id`, is being executed, and goes on when told to.
    fn hold(db: &Database, id: i64) -> Held {
        let (started, has_started) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let ticket = db.submit(move |tx| {
            started.send(()).unwrap();
            released.recv().unwrap();
            tx.execute("INSERT INTO t VALUES (?1)", [id])
        });
        has_started.recv().unwrap();
        (release, ticket)
    }

    fn ids(db: &Database) -> Vec<i64> {
        db.read(|conn| {
            let mut ids = conn.prepare("SELECT id FROM t ORDER BY id")?;
            ids.query_map((), |row| row.get(0))?.collect::<rusqlite::Result<_>>()
        })
        .unwrap()
    }

    #[test]
    fn a_failed_flush_is_final_until_the_database_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.db");
        let db = Database::open(&path).unwrap();
        let insert = |db: &Database, id: i64| {
            db.submit(move |tx| tx.execute("INSERT INTO t VALUES (?1)", [id]))
        };
        db.transact(|tx| tx.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)", ())).unwrap();
        insert(&db, 1).wait().unwrap();

        db.log().flushes_until_failure.store(0, Relaxed);
        let (release, covered) = hold(&db, 2);
        let beside = insert(&db, 3);
        release.send(()).unwrap();
        let covered = covered.wait();
        assert!(matches!(covered, Err(Failure::Unknown(_))), "{covered:?}");
        // Executed beside the flush that fails, or refused after it.
        let executed = match beside.wait() {
            Err(Failure::Unknown(_)) => true,
            Err(Failure::NotRun(NotRun::Failed(_))) => false,
            other => panic!("{other:?}"),
        };
        let refused = insert(&db, 5).wait();
        assert!(matches!(refused, Err(Failure::NotRun(NotRun::Failed(_)))), "{refused:?}");
        assert!(db.flush().is_err());
        assert!(db.read_durable(|_| Ok::<_, ()>(())).is_err());
        let attempts = -db.log().flushes_until_failure.load(Relaxed);
        assert_eq!(attempts, 1, "a flush was tried again");
        assert!(db.log().while_sound(|| ()).is_none(), "a later descriptor would be told nothing");
        assert!(db.close().is_err());
        drop(db);
        // Closing copied nothing of a log that is perhaps not on the disk.
        assert!(path.with_extension("db-wal").metadata().unwrap().len() > 0);

        let db = Database::open(&path).unwrap();
        insert(&db, 6).wait().unwrap();
        // Those that are unknown were committed, and the page cache still has them; those that were
        // not run are not there.
        assert_eq!(ids(&db), if executed { vec![1, 2, 3, 6] } else { vec![1, 2, 6] });
    }
}
