//! Bringing the log back into the database, off the commit path, and keeping the log bounded.
//!
//! A checkpoint copies the log's pages into the database and syncs it; once every page is copied
//! and no reader needs the log, the next writer starts it anew from its beginning. Done on a
//! connection and a thread of its own (`PASSIVE`, which waits for nobody), it costs the commits
//! nothing, but against a writer that never rests it never catches up. So beyond a second
//! threshold the engine itself checkpoints what is left, between two groups.
//!
//! Invariants:
//! 1. One checkpoint at a time, from one connection.
//! 2. After an input or output error in a checkpoint there is no other: SQLite counts pages that an
//!    earlier checkpoint copied as done before they are synced, and would never copy them again,
//!    while the system reports their loss only once. The log still holds them all; opening the
//!    database again copies it from its beginning. After any other error (no space, interrupted)
//!    nothing more counts as copied than before, so the next checkpoint copies the same pages again.
//! 3. The log grows far beyond [`FRAMES_MAX`] only while readers overlap that each hold a snapshot
//!    for longer than [`READERS_WAIT_MAX`], or another process the checkpoint lock. While no commit
//!    comes, a reader that begins sees all of the log and hinders nobody, so it is enough to wait
//!    for those that began before: for as long as one of them takes, not for a moment without any.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use groupcommit_core::{Cause, SharedPool, Spawn};
use rusqlite::{Connection, ErrorCode, OpenFlags, wal::CheckpointMode};

use crate::{Error, wal::Log};

/// Frames (pages) in the log from which on a checkpoint runs beside the commits: SQLite's own
/// default.
pub(crate) const FRAMES_BACKGROUND: u64 = 1_000;

/// Frames left to copy that are few enough for the commits to wait for them, so that the log can
/// be started anew.
pub(crate) const FRAMES_CATCH_UP: u64 = 400;

/// Frames in the log from which on the commits wait for a checkpoint, however much is left.
pub(crate) const FRAMES_MAX: u64 = 8_000;

/// How long a checkpoint between two groups waits at first for readers to let go of their snapshots,
/// when the log is at its longest.
const READERS_WAIT: Duration = Duration::from_millis(20);

/// How long it waits at most: each time in vain doubles the wait, each success halves it.
const READERS_WAIT_MAX: Duration = Duration::from_secs(1);

/// When to checkpoint next: a pure rule over the log's length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    /// Frames at the last attempt between groups. While the log is longer, that did not let it
    /// start anew: a reader was in it.
    attempted_at: u64,
    /// How long the next [`Due::Restart`] waits for readers.
    readers_wait: Duration,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { attempted_at: 0, readers_wait: READERS_WAIT }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// Copy what is there, beside the commits.
    Background,
    /// Copy the little that is left, between two groups; the next group then starts the log anew.
    CatchUp,
    /// Copy everything, between two groups, and wait for readers for at most this long.
    Restart(Duration),
}

impl Schedule {
    /// `frames` in the log, of which `copied` are in the database.
    pub(crate) fn due(&mut self, frames: u64, copied: u64) -> Due {
        if frames < self.attempted_at {
            self.attempted_at = 0; // it was started anew
        }
        let left = frames.saturating_sub(copied);
        if frames < self.attempted_at + FRAMES_BACKGROUND || left == 0 {
            Due::Nothing
        } else if frames >= FRAMES_MAX {
            Due::Restart(self.readers_wait)
        } else if left <= FRAMES_CATCH_UP {
            Due::CatchUp
        } else {
            Due::Background
        }
    }

    /// An attempt is made between groups, with `frames` in the log: unless the log is started anew,
    /// the next is made only when it has grown by as much again, instead of at every group.
    pub(crate) fn attempted(&mut self, frames: u64) {
        self.attempted_at = frames;
    }

    /// What [`Due::Restart`] came to: whether it was worth the wait.
    pub(crate) fn restarted(&mut self, in_vain: bool) {
        let wait = if in_vain { self.readers_wait * 2 } else { self.readers_wait / 2 };
        self.readers_wait = wait.clamp(READERS_WAIT, READERS_WAIT_MAX);
    }
}

/// The checkpoints of one database.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    shared: Arc<Shared>,
    schedule: Schedule,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    log: Arc<Log>,
    /// Opened when first needed, so that a database that writes little has one connection less.
    connection: Mutex<Option<Connection>>,
    running: AtomicBool,
    /// Frames that the last checkpoint had copied.
    copied: AtomicU64,
    closed: AtomicBool,
    /// Why there is no other checkpoint.
    failed: OnceLock<Cause>,
}

impl Checkpoints {
    pub(crate) fn new(path: &Path, log: Arc<Log>) -> Self {
        Self {
            shared: Arc::new(Shared {
                path: path.to_owned(),
                log,
                connection: Mutex::new(None),
                running: AtomicBool::new(false),
                copied: AtomicU64::new(0),
                closed: AtomicBool::new(false),
                failed: OnceLock::new(),
            }),
            schedule: Schedule::default(),
        }
    }

    /// Between two groups or exclusives, with `frames` in the log: keeps it bounded, and starts a checkpoint on
    /// the pool when it is long enough.
    ///
    /// # Errors
    ///
    /// When a checkpoint met an input or output error, now or before: final until the database is
    /// opened again.
    pub(crate) fn between_groups(&mut self, frames: u64) -> Result<(), Cause> {
        self.check_whole()?;
        self.keep_bounded(frames);
        self.check_whole()
    }

    /// Fails when a checkpoint met an input or output error.
    fn check_whole(&self) -> Result<(), Cause> {
        self.shared.failed.get().map_or(Ok(()), |cause| Err(cause.clone()))
    }

    /// A checkpoint outside of here may have met an input or output error.
    pub(crate) fn fail(&self, cause: Cause) {
        self.shared.fail(cause);
    }

    fn keep_bounded(&mut self, frames: u64) {
        let shared = &self.shared;
        if frames < shared.copied.load(Ordering::Relaxed) {
            shared.copied.store(0, Ordering::Relaxed); // the log was started anew
        }
        let due = self.schedule.due(frames, shared.copied.load(Ordering::Relaxed));
        if due == Due::Nothing || shared.running.swap(true, Ordering::AcqRel) {
            return; // one at a time; a running one is let to finish
        }
        let (mode, readers_wait) = match due {
            Due::Restart(readers_wait) => (CheckpointMode::RESTART, readers_wait),
            _ => (CheckpointMode::PASSIVE, Duration::ZERO),
        };
        if due == Due::Background {
            let shared = shared.clone();
            SharedPool.spawn(Box::new(move || {
                shared.checkpoint(mode, readers_wait);
                shared.running.store(false, Ordering::Release);
            }));
            return;
        }
        let span = tracing::debug_span!("checkpoint", frames);
        let _entered = span.enter();
        let finished = shared.checkpoint(mode, readers_wait);
        self.schedule.attempted(frames);
        if matches!(due, Due::Restart(_)) {
            self.schedule.restarted(!finished);
        }
        shared.running.store(false, Ordering::Release);
    }

    /// Ends checkpointing; waits for one that runs.
    pub(crate) fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        *self.shared.lock_connection() = None;
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn lock_connection(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, cause: Cause) {
        self.log.condemn();
        let _was_first = self.failed.set(cause);
    }

    /// Whether nobody kept it from finishing.
    fn checkpoint(&self, mode: CheckpointMode, readers_wait: Duration) -> bool {
        let mut slot = self.lock_connection();
        if self.closed.load(Ordering::Acquire) || self.failed.get().is_some() {
            return false;
        }
        let opened = match slot.take() {
            Some(connection) => Some(Ok(connection)),
            None => self.log.while_sound(|| open(&self.path)),
        };
        let Some(opened) = opened else { return false };
        let result = opened.and_then(|connection| {
            let connection = slot.insert(connection);
            connection.busy_timeout(readers_wait)?;
            checkpoint(connection, mode)
        });
        match result {
            Ok(Progress { busy: true, .. }) => false,
            Ok(Progress { busy: false, copied, .. }) => {
                self.copied.store(copied, Ordering::Relaxed);
                true
            }
            Err(source) if source.sqlite_error_code() == Some(ErrorCode::SystemIoFailure) => {
                let (doing, path) = ("checkpoint", self.path.clone());
                let error = Error::Sqlite { doing, path, source };
                tracing::error!(%error, "a checkpoint failed; nothing more is accepted");
                self.fail(Arc::new(error));
                false
            }
            // A full disk: the log keeps everything, and a later attempt goes on.
            Err(error) => {
                tracing::warn!(%error, path = %self.path.display(), "a checkpoint failed");
                false
            }
        }
    }
}

/// How far a checkpoint came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Somebody kept it from finishing.
    pub(crate) busy: bool,
    /// Frames in the log.
    pub(crate) frames: u64,
    /// Frames of it that are in the database.
    pub(crate) copied: u64,
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    // Reading opens the log.
    connection.query_row("SELECT count(*) FROM sqlite_schema", (), |_| Ok(()))?;
    Ok(connection)
}

/// Runs one checkpoint of `connection`'s database.
pub(crate) fn checkpoint(
    connection: &Connection,
    mode: CheckpointMode,
) -> rusqlite::Result<Progress> {
    match connection.wal_checkpoint_v2(Some("main"), mode) {
        Ok((frames, copied)) => {
            let count = |n| u64::try_from(n).unwrap_or(0);
            Ok(Progress { busy: false, frames: count(frames), copied: count(copied) })
        }
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
            Ok(Progress { busy: true, frames: 0, copied: 0 })
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::Place;

    #[test]
    fn a_short_log_is_left_alone() {
        assert_eq!(Schedule::default().due(FRAMES_BACKGROUND - 1, 0), Due::Nothing);
    }

    #[test]
    fn a_long_log_is_copied_in_the_background_and_then_caught_up_with() {
        let mut schedule = Schedule::default();
        assert_eq!(schedule.due(FRAMES_BACKGROUND, 0), Due::Background);
        assert_eq!(schedule.due(FRAMES_BACKGROUND + 10, FRAMES_BACKGROUND), Due::CatchUp);
        assert_eq!(schedule.due(FRAMES_BACKGROUND, FRAMES_BACKGROUND), Due::Nothing);
        let far = 2 * FRAMES_BACKGROUND;
        assert_eq!(schedule.due(far, FRAMES_BACKGROUND), Due::Background);
    }

    #[test]
    fn the_longest_log_stops_the_commits_but_not_at_every_group() {
        let mut schedule = Schedule::default();
        assert_eq!(schedule.due(FRAMES_MAX, 0), Due::Restart(READERS_WAIT));
        schedule.attempted(FRAMES_MAX);
        assert_eq!(schedule.due(FRAMES_MAX + 1, 0), Due::Nothing);
        assert_eq!(schedule.due(FRAMES_MAX + FRAMES_BACKGROUND, 0), Due::Restart(READERS_WAIT));
        assert_eq!(schedule.due(10, 0), Due::Nothing, "started anew");
        assert_eq!(schedule.due(FRAMES_MAX, 0), Due::Restart(READERS_WAIT));
    }

    #[test]
    fn readers_are_waited_for_longer_after_each_time_in_vain() {
        let mut schedule = Schedule::default();
        let mut waits = Vec::new();
        for in_vain in [true, true, false, true, true, true, true, true, true, true] {
            schedule.restarted(in_vain);
            waits.push(schedule.readers_wait.as_millis());
        }
        assert_eq!(waits, [40, 80, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000]);
        for _ in 0..10 {
            schedule.restarted(false);
        }
        assert_eq!(schedule.due(FRAMES_MAX, 0), Due::Restart(READERS_WAIT));
    }

    #[test]
    fn a_log_that_readers_keep_from_starting_anew_is_not_caught_up_with_at_every_group() {
        let mut schedule = Schedule::default();
        let mut caught_up = 0;
        let mut copied = 0;
        for frames in (0..FRAMES_MAX).step_by(10) {
            match schedule.due(frames, copied) {
                Due::Nothing => continue,
                Due::Background => {}
                Due::CatchUp => {
                    caught_up += 1;
                    schedule.attempted(frames);
                }
                Due::Restart(_) => panic!("at {frames} frames"),
            }
            copied = frames;
        }
        assert_eq!(caught_up, FRAMES_MAX / FRAMES_BACKGROUND - 1);
        let (frames, left) = (FRAMES_MAX + FRAMES_BACKGROUND, 10);
        assert_eq!(
            schedule.due(frames, frames - left),
            Due::Restart(READERS_WAIT),
            "waits for readers"
        );
    }

    #[test]
    fn an_input_or_output_error_is_final() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.db");
        let writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        writer.execute_batch("CREATE TABLE t (id)").unwrap();
        let log =
            std::fs::OpenOptions::new().write(true).open(path.with_extension("db-wal")).unwrap();
        let length = log.metadata().unwrap().len();
        log.set_len(length / 2).unwrap(); // what is read beyond that is missing

        let place = Place::of(path.clone()).unwrap();
        let flushed = Log::open(path.with_extension("db-wal"), place, Duration::ZERO).unwrap();
        let mut checkpoints = Checkpoints::new(&path, flushed);
        checkpoints.between_groups(FRAMES_MAX).unwrap_err();
        log.set_len(length).unwrap();
        checkpoints.between_groups(10 * FRAMES_MAX).unwrap_err();
        assert_eq!(checkpoints.shared.copied.load(Ordering::Relaxed), 0, "there was another");
    }

    #[test]
    fn the_checkpointing_connection_syncs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.db");
        drop(Connection::open(&path).unwrap());
        let connection = open(&path).unwrap();
        let synchronous: i64 =
            connection.query_row("PRAGMA synchronous", (), |row| row.get(0)).unwrap();
        assert_eq!(synchronous, 1);
    }
}
