//! Executing a group: one `BEGIN IMMEDIATE` ... `COMMIT` round all members, none of which may tell.
//!
//! Members run without savepoints, because a savepoint copies every page that is first touched
//! under it. That is safe as long as a member either completes or fails without a trace. When
//! anything else happens, the engine retreats:
//!
//! ```text
//!   members:     m0  m1  m2  m3  m4 ...
//!                 ok  ok  odd
//!   roll back ◄───────────┘
//!   run m0 m1 again, COMMIT;  m2 alone in a transaction of its own;  go on with m3 in a new one
//! ```
//!
//! So an odd member costs a rerun of those before it since the last commit, and commits, which the
//! next flush covers all together. What runs alone is the ground truth by construction.
//!
//! Invariants:
//! 1. Between groups the connection is in autocommit: no lock is held while idle.
//! 2. A member's effects are kept only if its closure completed, the transaction is still the one
//!    that the engine began, and no foreign key is left unsatisfied.
//! 3. Only the engine commits (see [`Guard`]).

use std::{cell::Cell, path::PathBuf, sync::Arc, time::Duration};

use groupcommit_core::{Cause, Engine, ExclusiveEnd, Executed, Group, NotRun, Ran};
use rusqlite::{Connection, ErrorCode, config::DbConfig};

use crate::{
    Error,
    checkpoint::Checkpoints,
    connection::{self, Configuration},
    ffi,
    guard::Guard,
    readers::Inside,
    transaction::{OwnSql, Transaction, uninterrupted},
    wal::{Log, LogFlusher},
};

/// The writing side of one database.
pub struct Writer {
    pub(crate) connection: Connection,
    pub(crate) guard: Arc<Guard>,
    pub(crate) own: OwnSql,
    pub(crate) log: Arc<Log>,
    pub(crate) checkpoints: Checkpoints,
    /// SQLite's number for what other connections have committed.
    pub(crate) data_version: i64,
    pub(crate) ground: Ground,
    /// Frames in the log, for the `metrics` facade.
    pub(crate) exported_wal_frames: metrics::Gauge,
    /// Kept for its memory.
    pub(crate) open: Vec<usize>,
}

/// Members between two looks at whether the page cache spills: a group that outgrows it would write
/// pages more than once.
const SPILL_LOOKS: usize = 32;

/// What stays the same from group to group.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) path: PathBuf,
    /// What SQLite made of the path.
    pub(crate) opened: PathBuf,
    pub(crate) busy_timeout: Duration,
    pub(crate) configuration: Configuration,
    /// The time, in nanoseconds of the pipeline's clock, for which another process has been waited
    /// for in vain, up to the latest attempt to begin.
    pub(crate) in_vain_ns: Cell<Option<(u64, u64)>>,
    /// The version of the schema in which virtual tables were looked for.
    pub(crate) schema_looked_at: Cell<Option<i64>>,
}

/// How a member is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    First,
    /// After a retreat, together with others.
    Again,
    /// In a transaction of its own.
    Alone,
}

/// What running a member came to, for those around it.
#[derive(Debug)]
enum Verdict {
    /// It completed, or it failed and left no trace.
    Clean,
    /// It failed and left a trace, which must be rolled back. Its outcome stands.
    Dirty,
    /// It completed, but may not be kept.
    Refused(Cause),
    /// A statement rolled the whole transaction back.
    RolledBack(Ran),
    /// It must run alone: it was the first to ask for `changes()`, and may have seen a neighbour's,
    /// which from now on nobody can; or it may have left the connection with a wrong schema.
    Void,
}

/// What a `COMMIT` came to.
enum Commit {
    /// It happened.
    Done,
    /// It did not, and everything is rolled back.
    RolledBack(rusqlite::Error),
}

impl Engine for Writer {
    type Transaction<'g> = Transaction<'g>;
    type Exclusive = Connection;
    type Flusher = LogFlusher;

    fn flusher(&self) -> LogFlusher {
        LogFlusher(self.log.clone())
    }

    fn execute(&mut self, group: &mut Group<Self>) -> Result<Executed, Cause> {
        let commits_before = self.guard.commits();
        self.checkpoints.between_groups(self.guard.wal_frames())?;
        self.open.clear();
        let mut execution = Execution {
            tx: Transaction::new(&self.connection, &self.guard, &self.own),
            guard: &self.guard,
            ground: &self.ground,
            log: &self.log,
        };
        execution.execute_all(group, &mut self.open)?;
        drop(execution);
        self.exported_wal_frames.set(self.guard.wal_frames() as f64);
        let commits = self.guard.commits() - commits_before;
        let to_flush = commits > 0 || self.others_committed();
        Ok(Executed { commits: commits.max(to_flush.into()) })
    }

    fn exclusive(
        &mut self,
        run: &mut dyn FnMut(&mut Connection) -> Ran,
    ) -> Result<ExclusiveEnd, Cause> {
        self.checkpoints.before_exclusive(self.guard.wal_frames())?;
        // The connection of an exclusive must not be one to another database.
        self.log.check_in_place().map_err(|error| Arc::new(error) as Cause)?;
        let Ground { opened, busy_timeout, .. } = &self.ground;
        let open = || connection::open_for_exclusive(opened, &self.guard, *busy_timeout);
        let mut alone = match self.log.while_sound(open) {
            Some(Ok(connection)) => connection,
            Some(Err(error)) => {
                let cause = self.ground.fatal("open another connection to", error);
                return Ok(ExclusiveEnd::Refused(NotRun::Unavailable(cause)));
            }
            None => return Ok(ExclusiveEnd::Refused(NotRun::Closed)),
        };
        ffi::set_errno();
        let inside = Inside::enter();
        let ran = self.guard.as_exclusive(|| run(&mut alone));
        drop(inside);
        let met_io_error = ffi::met_io_error(&alone);
        ffi::reset_statements(&alone);
        let left_open = !alone.is_autocommit();
        ffi::close(alone); // rolls back
        if met_io_error {
            // Whether or not the closure kept the error to itself, and whatever else it came to. SQLite
            // remembers that there was one, but not which; so any is taken for one of a checkpoint. See
            // there why that is final.
            let cause: Cause = Arc::new(Error::ExclusiveIo(self.ground.path.clone()));
            self.checkpoints.fail(cause.clone());
            return Err(cause);
        }
        Ok(if left_open && ran == Ran::Completed {
            ExclusiveEnd::Rejected(Arc::new(Error::LeftOpen))
        } else {
            ExclusiveEnd::Kept
        })
    }

    fn close(&mut self) -> Result<(), Cause> {
        // Before the log is deleted, by which only this looks as it should.
        let in_place = self.log.check_in_place();
        self.end()?;
        in_place.map_err(|error| Arc::new(error) as Cause)
    }
}

/// Dropped without being closed, it leaves no more behind.
impl Drop for Writer {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, path = %self.ground.path.display(), "could not close a database");
        }
    }
}

impl Writer {
    /// Closes the connection now, and not when the last thread lets go of the pipeline: who closed a
    /// database may open, move or delete it at once.
    fn end(&mut self) -> Result<(), Cause> {
        if !self.log.is_sound() {
            // Closing must not empty the log, which holds what a checkpoint may have lost, or copy
            // pages of one that is perhaps not on the disk.
            self.connection
                .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
                .map_err(|error| self.ground.fatal("keep the log of", error))?;
        }
        self.checkpoints.close();
        self.log.close();
        let nothing = Connection::open_in_memory()
            .map_err(|error| self.ground.fatal("close the connection to", error))?;
        ffi::close(std::mem::replace(&mut self.connection, nothing));
        Ok(())
    }

    /// Whether other connections have committed since this was asked last: members may have read what
    /// nobody has flushed.
    fn others_committed(&mut self) -> bool {
        let asked = uninterrupted(|| {
            let mut version = self.connection.prepare_cached("PRAGMA data_version")?;
            version.query_row((), |row| row.get(0))
        });
        let Ok(version) = asked else { return true };
        std::mem::replace(&mut self.data_version, version) != version
    }
}

impl Ground {
    fn fatal(&self, doing: &'static str, source: rusqlite::Error) -> Cause {
        Arc::new(Error::Sqlite { doing, path: self.path.clone(), source })
    }
}

/// The execution of one group.
struct Execution<'g> {
    tx: Transaction<'g>,
    guard: &'g Guard,
    ground: &'g Ground,
    log: &'g Log,
}

impl<'g> Execution<'g> {
    fn connection(&self) -> &'g Connection {
        self.tx.connection()
    }

    fn execute_all(
        &mut self,
        group: &mut Group<Writer>,
        open: &mut Vec<usize>,
    ) -> Result<(), Cause> {
        let spills_before = ffi::cache_spills(self.connection());
        while let Some(member) = group.next_member() {
            if open.is_empty()
                && self.connection().is_autocommit()
                && let Err(reason) = self.begin(group, member)
            {
                let late = group.passed_deadline(member);
                group.refuse(member, if late { NotRun::DeadlinePassed } else { reason });
                continue;
            }
            match self.run_member(group, member, Run::First) {
                Verdict::Clean => {
                    open.push(member);
                    if open.len().is_multiple_of(SPILL_LOOKS)
                        && ffi::cache_spills(self.connection()) != spills_before
                    {
                        break; // the rest goes into the next group
                    }
                }
                odd => {
                    self.retreat(group, open, member, odd)?;
                    open.clear();
                }
            }
        }
        self.finish(group, open).map(drop)
    }

    /// Commits what is open; if that fails, every member gets a transaction of its own. Whether all
    /// came out as they had.
    fn finish(&mut self, group: &mut Group<Writer>, open: &[usize]) -> Result<bool, Cause> {
        if self.connection().is_autocommit() {
            return Ok(true);
        }
        match self.commit()? {
            Commit::Done => Ok(true),
            Commit::RolledBack(error) => {
                tracing::debug!(%error, members = open.len(), "a group's commit was rolled back");
                open.iter().try_for_each(|&member| self.run_alone(group, member))?;
                Ok(false)
            }
        }
    }

    /// After `odd` of `member`: those before it run again and are committed, and it runs alone if
    /// its outcome is not known yet, or rests on one of theirs that came out differently.
    fn retreat(
        &mut self,
        group: &mut Group<Writer>,
        before: &[usize],
        member: usize,
        odd: Verdict,
    ) -> Result<(), Cause> {
        self.roll_back()?;
        let as_before = self.rerun(group, before)?;
        match odd {
            Verdict::Clean
            | Verdict::Dirty
            | Verdict::RolledBack(Ran::Panicked | Ran::NotCalled)
                if as_before =>
            {
                Ok(())
            }
            Verdict::Refused(cause) if as_before => {
                group.reject(member, cause);
                Ok(())
            }
            _ => self.run_alone(group, member),
        }
    }

    /// Runs members again that all were clean before, and commits them. Should one not be clean
    /// this time, all run alone. Whether all came out as they had.
    fn rerun(&mut self, group: &mut Group<Writer>, members: &[usize]) -> Result<bool, Cause> {
        if members.is_empty() {
            return Ok(true);
        }
        if let Err(reason) = self.begin(group, members[0]) {
            for &member in members {
                group.refuse(member, reason.clone());
            }
            return Ok(false);
        }
        for &member in members {
            if !matches!(self.run_member(group, member, Run::Again), Verdict::Clean) {
                self.roll_back()?;
                members.iter().try_for_each(|&member| self.run_alone(group, member))?;
                return Ok(false);
            }
        }
        self.finish(group, members)
    }

    /// Runs a member in a transaction of its own: whatever comes of it is what would have come of
    /// it without a group.
    fn run_alone(&mut self, group: &mut Group<Writer>, member: usize) -> Result<(), Cause> {
        let mut is_first = true;
        loop {
            if group.passed_deadline(member) {
                group.refuse(member, NotRun::DeadlinePassed);
                return Ok(());
            }
            if let Err(reason) = self.begin(group, member) {
                group.refuse(member, reason);
                return Ok(());
            }
            let again = match self.run_member(group, member, Run::Alone) {
                Verdict::Clean => match self.commit()? {
                    Commit::Done => false,
                    // SQLite may refuse a commit for what it came upon in a transaction before, and
                    // then forgets that. What fails twice fails for the member's own sake.
                    Commit::RolledBack(_) if is_first => true,
                    Commit::RolledBack(error) => {
                        group.reject(member, Arc::new(error));
                        false
                    }
                },
                Verdict::Void => true, // only once, for `changes()`
                Verdict::Refused(cause) => {
                    group.reject(member, cause);
                    false
                }
                Verdict::RolledBack(Ran::Completed) => {
                    group.reject(member, Arc::new(Error::RolledBack));
                    false
                }
                Verdict::Dirty
                | Verdict::RolledBack(Ran::Failed | Ran::Panicked | Ran::NotCalled) => false,
            };
            self.roll_back()?;
            if self.tx.take_schema_doubt() {
                let reloaded = self.tx.reload_schema();
                reloaded.map_err(|error| self.ground.fatal("read the schema of", error))?;
            }
            if !again {
                return Ok(());
            }
            is_first = false;
        }
    }

    fn run_member(&mut self, group: &mut Group<Writer>, member: usize, run: Run) -> Verdict {
        let asked_for_changes = self.guard.asks_for_changes();
        if asked_for_changes && let Err(error) = self.tx.forget_changes() {
            return Verdict::Refused(Arc::new(error));
        }
        let changes_before = self.connection().total_changes();
        ffi::set_last_insert_rowid(self.connection(), 0);
        self.guard.begin_member(changes_before, group.deadline_ns(member));
        let inside = Inside::enter();
        let ran = match run {
            Run::First => group.run(member, &mut self.tx),
            Run::Again | Run::Alone => group.rerun(member, &mut self.tx),
        };
        drop(inside);
        self.guard.end_member();
        let left = self.tx.end_member();
        let is_spoiled = self.tx.take_spoiled();
        if left.cursor && self.connection().is_busy() {
            // A cursor left open would lock its table for those who follow.
            ffi::reset_statements(self.connection());
        }
        if ran != Ran::Completed && group.passed_deadline(member) {
            group.refuse(member, NotRun::DeadlinePassed);
        }
        // Only the connection itself has switches.
        let turned_switch = left.anything && self.turn_switches_back();
        let connection = self.connection();
        if ran == Ran::NotCalled {
            return Verdict::Clean;
        }
        if self.guard.asks_for_changes() != asked_for_changes {
            return Verdict::Void;
        }
        if run != Run::Alone && self.tx.take_schema_doubt() {
            return Verdict::Void;
        }
        if connection.is_autocommit() {
            return Verdict::RolledBack(ran);
        }
        let unsatisfied = ffi::has_unsatisfied_foreign_keys(connection);
        if ran == Ran::Completed {
            let reason = match (turned_switch, is_spoiled, unsatisfied) {
                (true, ..) => Error::ConfigurationChanged,
                (_, true, _) => Error::SavepointKept,
                (_, _, true) => Error::ForeignKey,
                _ => return self.fence(ran),
            };
            return Verdict::Refused(Arc::new(reason));
        }
        let traceless = !left.trace && !unsatisfied && connection.total_changes() == changes_before;
        if traceless { Verdict::Clean } else { Verdict::Dirty }
    }

    /// Has the virtual tables write what a member that completed left with them.
    fn fence(&self, ran: Ran) -> Verdict {
        if !self.guard.may_have_virtual_tables() {
            return Verdict::Clean;
        }
        match self.tx.fence() {
            Ok(()) => Verdict::Clean,
            Err(_) if self.connection().is_autocommit() => Verdict::RolledBack(ran),
            Err(error) => Verdict::Refused(Arc::new(error)),
        }
    }

    /// Whether the member turned a switch of the connection; turns it back at once, so that no
    /// neighbour fails, or passes, for it.
    fn turn_switches_back(&self) -> bool {
        let configuration = &self.ground.configuration;
        let turned = !configuration.is_of(self.connection());
        if turned {
            // The commit looks again, and gives up if it could not be done.
            configuration.restore(self.connection());
        }
        turned
    }

    /// Whether the database has virtual tables, if its schema is another than at the last look.
    fn look_for_virtual_tables(&self) -> rusqlite::Result<()> {
        let ask =
            |sql| self.connection().prepare_cached(sql)?.query_row((), |row| row.get::<_, i64>(0));
        let version = Some(ask("PRAGMA schema_version")?);
        if self.ground.schema_looked_at.get() != version {
            let virtual_tables = ask(
                "SELECT count(*) FROM main.sqlite_schema WHERE type = 'table' AND rootpage = 0",
            )?;
            self.guard.set_virtual_tables(virtual_tables > 0);
            self.tx.forget_statements();
            self.ground.schema_looked_at.set(version);
        }
        Ok(())
    }

    /// How long `member` may wait for another process: the busy timeout, less what was waited
    /// while it was queued, and not beyond its deadline. So a thousand that are queued while
    /// another process holds the lock wait together, not one after the other.
    fn patience(&self, group: &Group<Writer>, member: usize) -> Duration {
        let waited_ns = self.ground.in_vain_ns.get().map_or(0, |(since, until)| {
            until.saturating_sub(since.max(group.submitted_ns(member)))
        });
        let left = self.ground.busy_timeout.saturating_sub(Duration::from_nanos(waited_ns));
        self.guard.time_left(group.deadline_ns(member)).map_or(left, |until_deadline| {
            // SQLite counts whole milliseconds, and must not give up before the deadline.
            (until_deadline + Duration::from_millis(1)).min(left)
        })
    }

    /// Begins a transaction, of which `member` is the first.
    fn begin(&mut self, group: &Group<Writer>, member: usize) -> Result<(), NotRun> {
        let patience = self.patience(group, member);
        let since =
            self.ground.in_vain_ns.get().map_or_else(|| self.guard.now_ns(), |(since, _)| since);
        let began = self.connection().busy_timeout(patience).and_then(|()| self.tx.begin());
        if began.is_ok() {
            if uninterrupted(|| self.look_for_virtual_tables()).is_err() {
                self.guard.set_virtual_tables(true);
            }
            self.log.extend();
        }
        self.ground.in_vain_ns.set(began.is_err().then(|| (since, self.guard.now_ns())));
        began.map_err(|source| {
            let busy = matches!(
                source.sqlite_error_code(),
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
            );
            if busy {
                NotRun::Busy(Arc::new(Error::Held { path: self.ground.path.clone(), source }))
            } else {
                let path = self.ground.path.clone();
                NotRun::Unavailable(Arc::new(Error::Sqlite {
                    doing: "begin a transaction on",
                    path,
                    source,
                }))
            }
        })
    }

    /// Commits, or rolls back if a member turned the connection's switches.
    fn commit(&mut self) -> Result<Commit, Cause> {
        let connection = self.connection();
        if self.turn_switches_back() {
            self.roll_back()?;
            let changed = Box::new(Error::ConfigurationChanged);
            return Ok(Commit::RolledBack(rusqlite::Error::ToSqlConversionFailure(changed)));
        }
        let written_before = ffi::pages_written(connection);
        let Err(error) = self.tx.commit() else { return Ok(Commit::Done) };
        let nothing_written =
            written_before.is_some() && ffi::pages_written(connection) == written_before;
        // A write that lacked space did not write the last frame, which is the one that commits; but
        // padding may follow it.
        let last_is_missing = error.sqlite_error_code() == Some(ErrorCode::DiskFull)
            && connection::is_powersafe(connection).is_ok_and(|powersafe| powersafe);
        let undone = nothing_written || last_is_missing;
        if undone {
            self.roll_back()?;
            return Ok(Commit::RolledBack(error));
        }
        // The commit frame may have reached the log, and recovery would then find it.
        let cause = self.ground.fatal("confirm a commit of", error);
        self.roll_back()?;
        Err(cause)
    }

    fn roll_back(&self) -> Result<(), Cause> {
        self.tx.roll_back().map_err(|error| self.ground.fatal("roll back on", error))
    }
}
