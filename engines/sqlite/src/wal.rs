//! Flushing the write-ahead log through a descriptor of our own.
//!
//! SQLite, at `synchronous=NORMAL`, writes a commit's frames to the log and publishes them without
//! a sync. One `fdatasync` of the log then makes every commit durable that returned before it:
//! the call covers the file, whoever wrote it and through whichever descriptor.
//!
//! Invariants:
//! 1. The descriptor is of the file that SQLite writes, and that file is the log of the database at
//!    its path: device and inode of both paths are compared at every flush, since syncing a log that
//!    was deleted and replaced, or one of a database that is gone, would promise nothing.
//! 2. The log's directory entry was synced before the first flush returned.
//! 3. After a failed flush nothing that syncs the log is opened any more: the system reports a page
//!    that it could not write once to each descriptor that was open then, and to none that is opened
//!    later, so a sync by such a one would succeed and promise nothing. The same holds for the database
//!    after a failed checkpoint.
//! 4. Only the log is ever opened here: closing any descriptor of the database itself or of its
//!    `-shm` would drop the locks that SQLite holds on them in this process. The log has none.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
};

use groupcommit_core::{Cause, Flush};
use groupcommit_medium::{Identity, folder_of, sync_folder_of};

use crate::{Error, recovery};

/// Bytes by which the log is made longer ahead, at most: into what is there already, a flush writes in half
/// the time that it takes to write into what it has to add.
const AHEAD_MAX: u64 = 256 << 10;

/// Bytes that a group adds, from which on it is not worth it: they would all be written twice.
const GROUP_MAX: u64 = 64 << 10;

/// The write-ahead log of one database, open for flushing.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    place: Place,
    database: Place,
    /// Its length when a group last began.
    length: AtomicU64,
    /// Neither a sync of the log nor a checkpoint has failed. Locked while a sync is under way.
    is_sound: Mutex<bool>,
    /// The writing connection is being closed, or is. SQLite then deletes the log, once all of it is
    /// in the database and synced.
    is_closed: AtomicBool,
    #[cfg(test)]
    pub(crate) seam: tests::Seam,
}

/// A file that has to stay where it was found.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    path: PathBuf,
    identity: Identity,
}

impl Place {
    /// The file that is at `path` now.
    pub(crate) fn of(path: PathBuf) -> Result<Self, Error> {
        match Identity::of(&path) {
            Ok(identity) => Ok(Self { path, identity }),
            Err(source) => Err(Error::Io { doing: "look at", path, source }),
        }
    }

    fn is_kept(&self) -> Result<bool, Error> {
        self.identity.is_at(&self.path).map_err(|source| {
            let path = self.path.clone();
            Error::Io { doing: "look at", path, source }
        })
    }
}

impl Log {
    /// Opens the log at `path`, which SQLite has created for the database at that other place, and
    /// makes its directory entry durable.
    pub(crate) fn open(path: PathBuf, database: Place) -> Result<Arc<Self>, Error> {
        let failed = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { doing, path, source }
        };
        let file = OpenOptions::new()
            .write(true)
            .open(&path)
            .map_err(failed("open the write-ahead log", &path))?;
        let identity = Identity::of_file(&file).map_err(failed("look at", &path))?;
        sync_folder_of(&path).map_err(failed("flush the folder", folder_of(&path)))?;
        Ok(Arc::new(Self {
            file,
            place: Place { path, identity },
            database,
            length: AtomicU64::new(0),
            is_sound: Mutex::new(true),
            is_closed: AtomicBool::new(false),
            #[cfg(test)]
            seam: tests::Seam::default(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_sound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether neither a sync of the log nor a checkpoint has failed.
    pub(crate) fn is_sound(&self) -> bool {
        *self.lock()
    }

    /// A checkpoint has failed.
    pub(crate) fn condemn(&self) {
        *self.lock() = false;
        recovery::distrust(self.database.identity);
    }

    /// Calls `open`, which opens descriptors that sync the log, while no flush is under way; not
    /// after one has failed.
    pub(crate) fn while_sound<T>(&self, open: impl FnOnce() -> T) -> Option<T> {
        let is_sound = self.lock();
        is_sound.then(open)
    }

    fn flush(&self) -> Result<(), Error> {
        let flushed = self.sync().and_then(|()| self.check_in_place());
        if flushed.is_err() {
            recovery::distrust(self.database.identity);
        }
        flushed
    }

    fn sync(&self) -> Result<(), Error> {
        let mut is_sound = self.lock();
        let synced = self.sync_data();
        *is_sound &= synced.is_ok();
        synced.map_err(|source| {
            let path = self.place.path.clone();
            Error::Io { doing: "flush the write-ahead log", path, source }
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        #[cfg(test)]
        self.seam.sync_begins()?;
        self.file.sync_data()
    }

    /// Fails when the log or the database is no longer at its path.
    pub(crate) fn check_in_place(&self) -> Result<(), Error> {
        if !self.database.is_kept()? {
            return Err(Error::DatabaseReplaced(self.database.path.clone()));
        }
        // In this order: what closing deletes is not missed.
        if !self.place.is_kept()? && !self.is_closed.load(SeqCst) {
            return Err(Error::LogReplaced(self.place.path.clone()));
        }
        Ok(())
    }

    /// The writing connection is about to be closed, by which SQLite may delete the log.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, SeqCst);
    }

    /// When groups have made the log longer: adds zeros behind it, which SQLite takes for its end and
    /// overwrites. The write lock must be held, so that nobody else appends.
    pub(crate) fn extend(&self) {
        let length = self.bytes();
        let before = self.length.swap(length, Relaxed);
        if length <= before || length - before > GROUP_MAX {
            return;
        }
        let zeros = vec![0; usize::try_from(length.min(AHEAD_MAX)).unwrap_or(0)];
        // Where there is no room, the next group meets that itself.
        if self.file.write_all_at(&zeros, length).is_ok() {
            self.length.store(length + zeros.len() as u64, Relaxed);
        }
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
    use std::{
        sync::{
            atomic::{AtomicI64, Ordering::Relaxed},
            mpsc::{self, Sender},
        },
        time::Duration,
    };

    use groupcommit_core::{Failure, NotRun, Ticket};

    use super::*;
    use crate::Database;

    /// Where a test has a hand in each sync.
    #[derive(Debug)]
    pub(crate) struct Seam {
        /// Syncs that succeed before one is made to fail.
        until_failure: AtomicI64,
        /// Told when a sync begins.
        begun: Mutex<Option<Sender<()>>>,
        /// A sync goes on when it can lock this.
        go_on: Mutex<()>,
    }

    impl Default for Seam {
        fn default() -> Self {
            Self {
                until_failure: i64::MAX.into(),
                begun: Mutex::default(),
                go_on: Mutex::default(),
            }
        }
    }

    impl Seam {
        pub(crate) fn sync_begins(&self) -> io::Result<()> {
            if let Some(begun) = &*self.begun.lock().unwrap() {
                begun.send(()).unwrap();
            }
            drop(self.go_on.lock().unwrap());
            if self.until_failure.fetch_sub(1, Relaxed) == 0 {
                return Err(io::Error::other("a flush that a test made fail"));
            }
            Ok(())
        }
    }

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

        db.log().seam.until_failure.store(0, Relaxed);
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
        let attempts = -db.log().seam.until_failure.load(Relaxed);
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

    fn with_table(path: &Path) -> Database {
        let db = Database::open(path).unwrap();
        db.transact(|tx| tx.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)", ())).unwrap();
        db
    }

    /// On the caller's thread, so that no other holds on to the database.
    fn fail_a_flush(db: &Database, id: i64) {
        db.log().seam.until_failure.store(0, Relaxed);
        let unknown = db.transact(move |tx| tx.execute("INSERT INTO t VALUES (?1)", [id]));
        assert!(matches!(unknown, Err(Failure::Unknown(_))), "{unknown:?}");
    }

    #[test]
    fn dropped_after_a_failed_flush_the_log_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.db");
        let db = with_table(&path);
        fail_a_flush(&db, 1);
        let database = std::fs::read(&path).unwrap();
        drop(db);
        assert!(path.with_extension("db-wal").metadata().unwrap().len() > 0);
        assert!(std::fs::read(&path).unwrap() == database, "the log was copied");
        assert_eq!(ids(&Database::open(&path).unwrap()), [1]);
    }

    #[test]
    fn what_failed_is_opened_again_only_after_the_old_handle_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.db");
        let db = with_table(&path);
        fail_a_flush(&db, 1);
        let at_once = Database::options().busy_timeout(Duration::ZERO);
        for _ in 0..2 {
            let refused = at_once.open(&path).unwrap_err();
            assert!(matches!(&refused, Error::StillOpen(found) if *found == path), "{refused}");
        }
        db.close().unwrap_err();
        let db = Database::open(&path).unwrap();
        assert_eq!(ids(&db), [1]);
        drop(db);
        // Once it has been read from the disk again, nothing is held against it.
        let (one, two) = (Database::open(&path).unwrap(), Database::open(&path).unwrap());
        assert_eq!(ids(&one), ids(&two));
    }

    /// What is committed while a flush is under way is not in what it flushed.
    #[test]
    fn a_flush_makes_nothing_durable_that_was_committed_after_it_began() {
        let folder = tempfile::tempdir().unwrap();
        let db = with_table(&folder.path().join("app.db"));
        let seam = &db.log().seam;
        let (begun, has_begun) = mpsc::channel();
        *seam.begun.lock().unwrap() = Some(begun);
        let under_way = seam.go_on.lock().unwrap();
        let before = db.submit(|tx| tx.execute("INSERT INTO t VALUES (1)", ()));
        has_begun.recv().unwrap();
        let (release, meanwhile) = hold(&db, 2);
        release.send(()).unwrap();
        // In a group of its own, so the one before is committed when it runs.
        let (release, later) = hold(&db, 3);
        seam.until_failure.store(1, Relaxed);
        drop(under_way);
        before.wait().unwrap();
        release.send(()).unwrap();
        let meanwhile = meanwhile.wait();
        assert!(matches!(meanwhile, Err(Failure::Unknown(_))), "{meanwhile:?}");
        later.wait().unwrap_err();
    }

    /// Neither file can be synced, and the system says so.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_log_and_its_folder_are_synced() {
        let null = Path::new("/dev/null");
        let open = |log: &Path| {
            let database = Place::of(null.to_owned()).unwrap();
            Log::open(log.to_owned(), database)
        };
        let log = open(null).unwrap();
        let failed = log.flush().unwrap_err();
        assert!(matches!(failed, Error::Io { doing: "flush the write-ahead log", .. }), "{failed}");
        let failed = open(Path::new("/proc/self/comm")).unwrap_err();
        assert!(matches!(failed, Error::Io { doing: "flush the folder", .. }), "{failed}");
    }

    /// What a member read may be another's that is committed and not flushed.
    #[test]
    fn what_another_connection_committed_is_flushed_for_a_member_that_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.db");
        let db = with_table(&path);
        let count = || {
            let sql = "SELECT count(*) FROM t";
            db.transact(|tx| tx.query_row(sql, (), |row| row.get::<_, i64>(0))).unwrap()
        };
        let syncs = || i64::MAX - db.log().seam.until_failure.load(Relaxed);
        assert_eq!(count(), 0);
        let other = rusqlite::Connection::open(&path).unwrap();
        other.pragma_update(None, "synchronous", "OFF").unwrap();
        for rows in 1..3 {
            other.execute("INSERT INTO t VALUES (?1)", [rows]).unwrap();
            let before = syncs();
            assert_eq!(count(), rows);
            assert_eq!(syncs(), before + 1);
            assert_eq!(count(), rows);
            assert_eq!(syncs(), before + 1, "there was nothing new");
        }
    }

    #[test]
    fn the_log_is_longer_than_what_is_in_it_and_recovered_up_to_that() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.db");
        let db = with_table(&path);
        let mut lengths = std::collections::BTreeSet::new();
        for id in 0..50 {
            db.transact(move |tx| tx.execute("INSERT INTO t VALUES (?1)", [id])).unwrap();
            lengths.insert(db.wal().bytes);
        }
        let written = 32 + db.wal().frames * (24 + 4096);
        assert!(db.wal().bytes > written + 4096, "{:?}", db.wal());
        assert!(lengths.len() < 12, "it grew with nearly every commit: {lengths:?}");

        let killed = folder.path().join("killed.db");
        for end in ["db", "db-wal"] {
            std::fs::copy(path.with_extension(end), killed.with_extension(end)).unwrap();
        }
        assert_eq!(ids(&Database::open(&killed).unwrap()), (0..50).collect::<Vec<_>>());
    }

    /// What another process appends meanwhile must not be overwritten.
    #[test]
    fn the_log_is_made_longer_under_the_write_lock_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.db");
        let options = Database::options().busy_timeout(Duration::ZERO);
        let db = options.open(&path).unwrap();
        db.transact(|tx| tx.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)", ())).unwrap();
        let insert = |id: i64| db.transact(move |tx| tx.execute("INSERT INTO t VALUES (?1)", [id]));
        insert(1).unwrap();
        let length = db.wal().bytes;
        let other = rusqlite::Connection::open(&path).unwrap();
        let mut rows = 1;
        while db.wal().bytes == length {
            rows += 1;
            other.execute("INSERT INTO t VALUES (?1)", [rows]).unwrap();
        }
        // It is due to be made longer now, but somebody else has the lock.
        let length = db.wal().bytes;
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let busy = insert(rows + 1);
        assert!(matches!(busy, Err(Failure::NotRun(NotRun::Busy(_)))), "{busy:?}");
        assert_eq!(db.wal().bytes, length);
        other.execute_batch("ROLLBACK").unwrap();
        insert(rows + 1).unwrap();
        assert!(db.wal().bytes > length + 2 * (24 + 4096), "{:?}", db.wal());
        assert_eq!(ids(&db), (1..=rows + 1).collect::<Vec<_>>());
    }

    #[test]
    fn a_log_that_large_groups_fill_is_not_made_longer() {
        let folder = tempfile::tempdir().unwrap();
        let db = with_table(&folder.path().join("app.db"));
        db.transact(|tx| tx.execute("CREATE TABLE large (v)", ())).unwrap();
        for _ in 0..5 {
            db.transact(|tx| tx.execute("INSERT INTO large VALUES (zeroblob(100000))", ()))
                .unwrap();
        }
        db.transact(|tx| tx.execute("INSERT INTO t VALUES (1)", ())).unwrap();
        assert_eq!(db.wal().bytes, 32 + db.wal().frames * (24 + 4096));
    }

    /// Whoever closes the database may see the log go before a flush of somebody else has looked.
    #[test]
    fn a_log_that_closing_deleted_is_not_missed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.db");
        let db = with_table(&path);
        db.close().unwrap();
        assert!(!path.with_extension("db-wal").exists());
        db.log().flush().unwrap();
        std::fs::remove_file(&path).unwrap();
        let gone = db.log().flush().unwrap_err();
        assert!(matches!(gone, Error::DatabaseReplaced(_)), "{gone}");
    }
}
