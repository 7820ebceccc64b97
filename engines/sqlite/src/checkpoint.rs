//! Bringing the log back into the database, off the commit path, and keeping the log bounded.
//!
//! A checkpoint copies the log's pages into the database and syncs it; once every page is copied
//! and no reader needs the log, the next writer starts it anew from its beginning. Done on a
//! connection and a thread of its own (`PASSIVE`, which waits for nobody), it costs the commits
//! little: what it writes is synced piece by piece, so that no flush of the log waits behind all of it.
//! But against a writer that never rests it never catches up. So another copies what was appended
//! meanwhile, and another; the commits wait where they append so much that these would not get shorter;
//! and the engine itself checkpoints the little that is left, between two groups.
//!
//! Invariants:
//! 1. One checkpoint at a time, from one connection.
//! 2. After an input or output error in a checkpoint there is no other: SQLite counts pages that an
//!    earlier checkpoint copied as done before they are synced, and would never copy them again,
//!    while the system reports their loss only once. The log still holds them all; opening the
//!    database again copies it from its beginning. After any other error (no space, interrupted)
//!    nothing more counts as copied than before, so the next checkpoint copies the same pages again.
//! 3. The log grows far beyond [`FRAMES_TIMES`] that length only while readers overlap that each hold
//!    a snapshot for longer than [`READERS_WAIT_MAX`], or another process the checkpoint lock. While no
//!    commit comes, a reader that begins sees all of the log and hinders nobody, so it is enough to wait
//!    for those that began before: for as long as one of them takes, not for a moment without any.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use groupcommit_core::{Cause, SharedPool, Spawn};
use rusqlite::{Connection, ErrorCode, OpenFlags, wal::CheckpointMode};
use rustix::fs::statvfs;

use crate::{Error, ffi::Copier, wal::Log};

/// Frames (pages) in the log from which on it is checkpointed beside the commits, at least.
pub(crate) const FRAMES_MIN: u64 = 4_000;

/// The same at most. Between the two bounds it is a quarter of the database's pages, and at most a sixteenth
/// of the free space. A longer log saves writes: a page that is in it twice is copied once. While checkpoints
/// catch up with the commits, the log grows to about four times this length.
pub(crate) const FRAMES_MAX: u64 = 60_000;

/// At this many times that length, commits wait until a checkpoint has copied the whole log.
pub(crate) const FRAMES_TIMES: u64 = 6;

/// How long the commits wait for a checkpoint beside them at most, for each group.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// Frames left to copy that are few enough for the commits to wait for them, so that the log can
/// be started anew.
pub(crate) const FRAMES_CATCH_UP: u64 = 1_000;

/// The same, when another checkpoint beside the commits would leave as many.
pub(crate) const FRAMES_CATCH_UP_MAX: u64 = 4_000;

/// How long a checkpoint between two groups waits at first for readers to let go of their snapshots,
/// when the log is at its longest.
const READERS_WAIT: Duration = Duration::from_millis(20);

/// The longest such wait. The wait doubles after a timeout and halves after a success.
const READERS_WAIT_MAX: Duration = Duration::from_secs(1);

/// When to checkpoint next: a pure rule over the log's length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    /// The last checkpoint beside the commits of this log.
    last: Option<Round>,
    /// Frames at the last attempt between groups. While the log is longer, that did not let it
    /// start anew: a reader was in it.
    attempted_at: u64,
    /// How long the next [`Due::Restart`] waits for readers.
    readers_wait: Duration,
}

/// A checkpoint beside the commits, as it began.
#[derive(Debug, Clone, Copy)]
struct Round {
    frames: u64,
    copied: u64,
    /// Pages that it is expected to write.
    pages: u64,
}

impl Round {
    fn left(&self) -> u64 {
        self.frames - self.copied
    }
}

impl Default for Schedule {
    fn default() -> Self {
        Self { last: None, attempted_at: 0, readers_wait: READERS_WAIT }
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
    /// The length, in frames, at which the log is checkpointed: from the database's pages and the pages that
    /// fit into the free space.
    fn length(pages: u64, room: u64) -> u64 {
        (pages / 4).min(room / 16).clamp(FRAMES_MIN, FRAMES_MAX)
    }

    /// `frames` in the log, of which `copied` are in the database; `length` is what [`Self::length`] says.
    pub(crate) fn due(&self, frames: u64, copied: u64, length: u64) -> Due {
        let left = frames.saturating_sub(copied);
        if frames < self.attempted_at + length || left == 0 {
            return Due::Nothing;
        }
        if frames >= FRAMES_TIMES * length {
            return Due::Restart(self.readers_wait);
        }
        // While a checkpoint copies so many frames, the commits append fewer; the next copies those. So
        // fewer and fewer are left, until a group is as long as a checkpoint takes.
        let (before, is_stuck) = match self.last {
            Some(last) => (last.left(), copied <= last.copied && frames < last.frames + length / 4),
            None => (u64::MAX, false),
        };
        let is_shortest = left <= FRAMES_CATCH_UP_MAX && left >= before / 10 * 9;
        if left <= FRAMES_CATCH_UP || is_shortest {
            Due::CatchUp
        } else if is_stuck {
            Due::Nothing // a reader keeps it from copying more
        } else {
            Due::Background
        }
    }

    /// A checkpoint begins beside the commits; the one before has written `written` pages.
    pub(crate) fn begin(&mut self, frames: u64, copied: u64, written: u64) {
        let left = frames - copied;
        // As many frames to a page as then.
        let pages = self.last.map_or(left, |last| left * written.max(1) / last.left().max(1));
        self.last = Some(Round { frames, copied, pages: pages.max(1) });
    }

    /// How long the next group waits while a checkpoint runs beside the commits, `elapsed` after its start and
    /// with `written` pages written. The log shrinks only if the checkpoint copies faster than the commits
    /// append, so commits append at most three frames for every four copied. A smaller share would make the
    /// waits during a checkpoint longer and the log shorter.
    pub(crate) fn wait(&self, frames: u64, written: u64, elapsed: Duration) -> Duration {
        let Some(last) = self.last else { return Duration::ZERO };
        let copied = last.left() * written.min(last.pages) / last.pages;
        let allowed = copied * 3 / 4 + FRAMES_CATCH_UP / 2;
        let ahead = (frames - last.frames).saturating_sub(allowed);
        // Until as many more are copied, at the pace so far.
        let ahead = u32::try_from(ahead * 4 / 3).unwrap_or(u32::MAX);
        let copied = u32::try_from(copied).unwrap_or(u32::MAX).max(1);
        (elapsed / copied).saturating_mul(ahead).min(WAIT_MAX)
    }

    /// An attempt is made between groups, with `frames` in the log: unless the log is started anew,
    /// the next is made only when it has grown by as much again, instead of at every group.
    pub(crate) fn attempted(&mut self, frames: u64) {
        self.attempted_at = frames;
    }

    /// The log was started anew.
    pub(crate) fn restart(&mut self) {
        *self = Self { readers_wait: self.readers_wait, ..Self::default() };
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
    /// In the log when it was last looked at.
    frames: u64,
    /// When the last checkpoint beside the commits began.
    began: Instant,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    log: Arc<Log>,
    /// Opened when first needed, so that a database that writes little has one connection less.
    copier: Mutex<Option<Copier>>,
    /// Whether a checkpoint runs beside the commits.
    running: Mutex<bool>,
    stopped: Condvar,
    /// Frames that the last checkpoint had copied.
    copied: AtomicU64,
    /// Pages that the last checkpoint beside the commits has written.
    written: Arc<AtomicU64>,
    /// [`Schedule::length`] at the last checkpoint beside the commits.
    length: AtomicU64,
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
                copier: Mutex::new(None),
                running: Mutex::new(false),
                stopped: Condvar::new(),
                copied: AtomicU64::new(0),
                written: Arc::default(),
                length: AtomicU64::new(FRAMES_MIN),
                closed: AtomicBool::new(false),
                failed: OnceLock::new(),
            }),
            schedule: Schedule::default(),
            frames: 0,
            began: Instant::now(),
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

    /// As [`Self::between_groups`], before an exclusive: none runs beside it, which would lock it out of
    /// checkpoints of its own.
    pub(crate) fn before_exclusive(&mut self, frames: u64) -> Result<(), Cause> {
        self.between_groups(frames)?;
        let running = lock(&self.shared.running);
        drop(self.shared.stopped.wait_while(running, |running| *running));
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
        if frames < self.frames {
            self.schedule.restart();
            shared.copied.store(0, Ordering::Relaxed);
        }
        self.frames = frames;
        let copied = shared.copied.load(Ordering::Relaxed);
        let due = self.schedule.due(frames, copied, shared.length.load(Ordering::Relaxed));
        let is_running = *lock(&shared.running);
        if is_running && !matches!(due, Due::Restart(_)) {
            let written = shared.written.load(Ordering::Relaxed);
            shared.wait(self.schedule.wait(frames, written, self.began.elapsed()));
            return;
        }
        match due {
            Due::Nothing => {}
            Due::Background => {
                let written = shared.written.swap(0, Ordering::Relaxed);
                self.schedule.begin(frames, copied, written);
                self.began = Instant::now();
                *lock(&shared.running) = true;
                let shared = shared.clone();
                SharedPool.spawn(Box::new(move || {
                    shared.checkpoint_beside_commits();
                    *lock(&shared.running) = false;
                    shared.stopped.notify_all();
                }));
            }
            Due::CatchUp => {
                let _entered = tracing::debug_span!("checkpoint", frames).entered();
                shared.checkpoint(CheckpointMode::PASSIVE, Duration::ZERO);
                self.schedule.attempted(frames);
            }
            // Waits for one that runs.
            Due::Restart(readers_wait) => {
                let _entered = tracing::debug_span!("checkpoint", frames).entered();
                let finished = shared.checkpoint(CheckpointMode::RESTART, readers_wait);
                self.schedule.attempted(frames);
                self.schedule.restarted(!finished);
            }
        }
    }

    /// Ends checkpointing; waits for one that runs.
    pub(crate) fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        *lock(&self.shared.copier) = None;
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Until the checkpoint beside the commits has ended.
    fn wait(&self, at_most: Duration) {
        if at_most.is_zero() {
            return;
        }
        let running = lock(&self.running);
        drop(self.stopped.wait_timeout_while(running, at_most, |running| *running));
    }

    fn fail(&self, cause: Cause) {
        self.log.condemn();
        let _was_first = self.failed.set(cause);
    }

    /// Copies what is there, and syncs it piece by piece: the sync that SQLite adds at the log's end has
    /// little left then, and a flush of the log never waits for more than a piece.
    fn checkpoint_beside_commits(&self) {
        self.run(|copier| {
            copier.sync_pieces(true);
            let progress = checkpoint(copier.connection(), CheckpointMode::PASSIVE);
            copier.sync_pieces(false);
            let number = |sql| {
                let number = copier.connection().query_row(sql, (), |row| row.get::<_, i64>(0));
                number.map(i64::unsigned_abs)
            };
            let (pages, bytes) = (number("PRAGMA page_count")?, number("PRAGMA page_size")?);
            // Where the system does not say, the log stays short.
            let room = statvfs(&self.path).map_or(0, |disk| disk.f_bavail * disk.f_frsize / bytes);
            self.length.store(Schedule::length(pages, room), Ordering::Relaxed);
            progress
        });
    }

    /// Whether nobody kept it from finishing.
    fn checkpoint(&self, mode: CheckpointMode, readers_wait: Duration) -> bool {
        self.run(|copier| {
            copier.connection().busy_timeout(readers_wait)?;
            checkpoint(copier.connection(), mode)
        })
    }

    fn run(&self, checkpoint: impl FnOnce(&Copier) -> rusqlite::Result<Progress>) -> bool {
        let mut slot = lock(&self.copier);
        if self.closed.load(Ordering::Acquire) || self.failed.get().is_some() {
            return false;
        }
        let opened = match slot.take() {
            Some(copier) => Some(Ok(copier)),
            None => self.log.while_sound(|| open(&self.path, self.written.clone())),
        };
        let Some(opened) = opened else { return false };
        let result = opened.and_then(|copier| checkpoint(slot.insert(copier)));
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

fn open(path: &Path, written: Arc<AtomicU64>) -> rusqlite::Result<Copier> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    // Reading opens the log.
    connection.query_row("SELECT count(*) FROM sqlite_schema", (), |_| Ok(()))?;
    Ok(Copier::new(connection, written))
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

    const SMALL: u64 = FRAMES_MIN;

    #[test]
    fn a_short_log_is_left_alone() {
        assert_eq!(Schedule::default().due(FRAMES_MIN - 1, 0, SMALL), Due::Nothing);
    }

    #[test]
    fn the_log_of_a_large_database_on_a_large_disk_is_long() {
        assert_eq!(Schedule::length(100, u64::MAX), FRAMES_MIN);
        assert_eq!(Schedule::length(40_000, u64::MAX), 10_000);
        assert_eq!(Schedule::length(10_000_000, u64::MAX), FRAMES_MAX);
        assert_eq!(Schedule::length(10_000_000, 160_000), 10_000);
        assert_eq!(Schedule::length(10_000_000, 0), FRAMES_MIN);
    }

    #[test]
    fn a_long_log_is_copied_in_the_background_until_little_is_left() {
        let mut schedule = Schedule::default();
        assert_eq!(schedule.due(FRAMES_MIN, 0, SMALL), Due::Background);
        schedule.begin(FRAMES_MIN, 0, 0);
        let rest = FRAMES_MIN + 2 * FRAMES_CATCH_UP;
        assert_eq!(schedule.due(rest, FRAMES_MIN, SMALL), Due::Background);
        schedule.begin(rest, FRAMES_MIN, 0);
        assert_eq!(schedule.due(rest + FRAMES_CATCH_UP, rest, SMALL), Due::CatchUp);
        assert_eq!(schedule.due(rest + 2 * FRAMES_CATCH_UP, rest, SMALL), Due::CatchUp, "as many");
        assert_eq!(schedule.due(rest, rest, SMALL), Due::Nothing);
    }

    #[test]
    fn a_checkpoint_that_a_reader_stops_is_not_repeated_at_every_group() {
        let mut schedule = Schedule::default();
        schedule.begin(2 * FRAMES_MIN, 10, 0);
        assert_eq!(schedule.due(2 * FRAMES_MIN + 1, 10, SMALL), Due::Nothing);
        assert_eq!(schedule.due(2 * FRAMES_MIN + FRAMES_MIN / 4, 10, SMALL), Due::Background);
    }

    #[test]
    fn the_longest_log_stops_the_commits_but_not_at_every_group() {
        let longest = FRAMES_TIMES * FRAMES_MIN;
        let mut schedule = Schedule::default();
        assert_eq!(schedule.due(longest, 0, SMALL), Due::Restart(READERS_WAIT));
        schedule.attempted(longest);
        assert_eq!(schedule.due(longest + 1, 0, SMALL), Due::Nothing);
        let longer = longest + FRAMES_MIN;
        assert_eq!(schedule.due(longer, 0, SMALL), Due::Restart(READERS_WAIT));
        schedule.restart();
        assert_eq!(schedule.due(10, 0, SMALL), Due::Nothing);
        assert_eq!(schedule.due(longest, 0, SMALL), Due::Restart(READERS_WAIT));
    }

    #[test]
    fn commits_wait_where_they_append_faster_than_is_copied() {
        let mut schedule = Schedule::default();
        schedule.begin(8_000, 0, 0);
        let elapsed = Duration::from_millis(10);
        let wait = |frames, written| schedule.wait(frames, written, elapsed);
        let free = 8_000 + FRAMES_CATCH_UP / 2;
        assert_eq!(wait(free, 0), Duration::ZERO);
        assert_eq!(wait(free + 3_000, 4_000), Duration::ZERO);
        // 4,000 were copied in 10 ms, so 200 more take half a millisecond.
        assert_eq!(wait(free + 3_150, 4_000), Duration::from_micros(500));
        assert_eq!(wait(free + 100_000, 4_000), WAIT_MAX);
    }

    /// Where pages are written again and again, fewer are copied than there are frames.
    #[test]
    fn what_is_copied_is_judged_by_the_checkpoint_before() {
        let mut schedule = Schedule::default();
        schedule.begin(8_000, 0, 0);
        schedule.begin(16_000, 8_000, 800);
        let all = 16_000 + 6_000 + FRAMES_CATCH_UP / 2;
        assert_eq!(schedule.wait(all, 800, Duration::from_millis(10)), Duration::ZERO);
        assert!(schedule.wait(all, 400, Duration::from_millis(10)) > Duration::ZERO);
    }

    /// However the device compares with the commits, the log ends: a model in which commits append at
    /// full pace but for their waits.
    #[test]
    fn rounds_get_shorter_until_the_log_is_caught_up_with() {
        const COPY_NS: u64 = 13_000;
        for append_ns in [130_000, 26_000, 13_000, 4_300] {
            let (mut schedule, mut frames, mut copied) = (Schedule::default(), FRAMES_MAX, 0);
            while schedule.due(frames, copied, FRAMES_MAX) == Due::Background {
                let left = frames - copied;
                schedule.begin(frames, copied, left);
                copied = frames;
                let mut elapsed = Duration::ZERO;
                let whole = Duration::from_nanos(COPY_NS * left);
                while elapsed < whole {
                    frames += 100;
                    elapsed += Duration::from_nanos(100 * append_ns);
                    let share = elapsed.min(whole).div_duration_f64(whole);
                    let written = Duration::from_nanos(left).mul_f64(share).subsec_nanos().into();
                    elapsed += schedule.wait(frames, written, elapsed);
                }
            }
            assert_eq!(schedule.due(frames, copied, FRAMES_MAX), Due::CatchUp);
            assert!(frames < FRAMES_TIMES * FRAMES_MAX, "{append_ns}: {frames}");
        }
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
        assert_eq!(schedule.readers_wait, READERS_WAIT);
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
        let flushed = Log::open(path.with_extension("db-wal"), place).unwrap();
        let mut checkpoints = Checkpoints::new(&path, flushed);
        checkpoints.between_groups(FRAMES_TIMES * FRAMES_MIN).unwrap_err();
        log.set_len(length).unwrap();
        checkpoints.between_groups(10 * FRAMES_MAX).unwrap_err();
        assert_eq!(checkpoints.shared.copied.load(Ordering::Relaxed), 0, "there was another");
    }

    #[test]
    fn the_checkpointing_connection_syncs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.db");
        drop(Connection::open(&path).unwrap());
        let connection = open(&path, Arc::default()).unwrap();
        let synchronous: i64 =
            connection.connection().query_row("PRAGMA synchronous", (), |row| row.get(0)).unwrap();
        assert_eq!(synchronous, 1);
    }
}
