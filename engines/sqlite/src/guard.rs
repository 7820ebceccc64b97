//! What keeps a member inside its transaction.
//!
//! Members share one connection and one engine transaction, so whatever would reach beyond a
//! member is refused here, by hooks that SQLite itself calls:
//!
//! | a member that would | is stopped by |
//! |---|---|
//! | begin, commit or roll back | the authorizer; and the commit hook, whatever path it took |
//! | change the connection (`PRAGMA`, `ATTACH`, `TEMP`, extensions) | the authorizer |
//! | run beyond its deadline | the progress handler |
//! | see its neighbours in `changes()` and `total_changes()` | functions of our own |
//!
//! Invariant: while `member` is set, nothing on the connection commits.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use groupcommit_core::Clock;
use rusqlite::{
    Connection,
    functions::FunctionFlags,
    hooks::{AuthAction, AuthContext, Authorization},
};

use crate::ffi;

/// Pragmas that only read the schema, or that SQLite's own virtual tables run inside a statement.
const PRAGMAS_ALLOWED: [&str; 12] = [
    "collation_list",
    "compile_options",
    "data_version",
    "foreign_key_list",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "page_size",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// Pragmas that would take away what durability rests on; not even an exclusive may set them.
const PRAGMAS_FIXED: [&str; 4] =
    ["synchronous", "journal_mode", "locking_mode", "wal_autocheckpoint"];

/// How many steps of SQLite's virtual machine pass between two looks at the deadline.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// The state that the hooks of one connection share with its engine.
///
/// All of it is read and written by the thread that uses the connection; atomics only because
/// hooks must be `Send`.
pub(crate) struct Guard {
    /// A member's closure is running.
    member: AtomicBool,
    /// An exclusive's closure is running.
    exclusive: AtomicBool,
    /// A statement that changes the schema was prepared since [`Guard::take_schema_change`].
    schema_change: AtomicBool,
    /// A statement that runs a trigger was prepared. Never reset: it may stay in a cache.
    trigger: AtomicBool,
    /// An exclusive prepared a checkpoint of its own, by `PRAGMA`.
    checkpoint: AtomicBool,
    /// When the running member must stop; 0 for never.
    deadline_ns: AtomicU64,
    /// `total_changes()` when the running member began.
    changes_before: AtomicI64,
    /// Frames in the write-ahead log after the latest commit.
    wal_frames: AtomicU64,
    /// Commits that wrote to the log.
    commits: AtomicU64,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

impl Guard {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            member: AtomicBool::new(false),
            exclusive: AtomicBool::new(false),
            schema_change: AtomicBool::new(false),
            trigger: AtomicBool::new(false),
            checkpoint: AtomicBool::new(false),
            deadline_ns: AtomicU64::new(0),
            changes_before: AtomicI64::new(0),
            wal_frames: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            clock,
        })
    }

    /// Puts the hooks in place.
    pub(crate) fn install(self: &Arc<Self>, connection: &mut Connection) -> rusqlite::Result<()> {
        let guard = self.clone();
        connection.authorizer(Some(move |context: AuthContext<'_>| guard.authorize(&context)))?;
        let guard = self.clone();
        connection.commit_hook(Some(move || guard.member.load(Relaxed)))?;
        let guard = self.clone();
        connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || guard.is_overdue()))?;
        let guard = self.clone();
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, frames: i32| {
            guard.wal_frames.store(u64::try_from(frames).unwrap_or(0), Relaxed);
            guard.commits.fetch_add(1, Relaxed);
            Ok(())
        }))?;
        let guard = self.clone();
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
        connection.create_scalar_function("changes", 0, flags, move |context| {
            let (changes, total) = ffi::context_changes(context);
            Ok(if total == guard.changes_before.load(Relaxed) { 0 } else { changes })
        })?;
        let guard = self.clone();
        connection.create_scalar_function("total_changes", 0, flags, move |context| {
            let (_, total) = ffi::context_changes(context);
            Ok(total - guard.changes_before.load(Relaxed))
        })
    }

    /// A member begins; `changes_before` is the connection's count of changes.
    pub(crate) fn begin_member(&self, changes_before: u64, deadline_ns: Option<u64>) {
        self.changes_before.store(changes_before.cast_signed(), Relaxed);
        self.deadline_ns.store(deadline_ns.unwrap_or(0), Relaxed);
        self.member.store(true, Relaxed);
    }

    /// `total_changes()` of the connection when the running member began.
    pub(crate) fn changes_before(&self) -> u64 {
        self.changes_before.load(Relaxed).cast_unsigned()
    }

    /// The member's closure has returned.
    pub(crate) fn end_member(&self) {
        self.member.store(false, Relaxed);
        self.deadline_ns.store(0, Relaxed);
    }

    /// Runs the closure of an exclusive, which may do nearly everything.
    pub(crate) fn as_exclusive<R>(&self, run: impl FnOnce() -> R) -> R {
        self.exclusive.store(true, Relaxed);
        let result = run();
        self.exclusive.store(false, Relaxed);
        result
    }

    /// How much time is left until `deadline_ns`; `None` for a member without a deadline.
    pub(crate) fn time_left(&self, deadline_ns: Option<u64>) -> Option<Duration> {
        deadline_ns.map(|at| Duration::from_nanos(at.saturating_sub(self.clock.now_ns())))
    }

    /// Nanoseconds of the pipeline's clock.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Runs what the engine itself has to say inside a member, for example a savepoint.
    pub(crate) fn as_engine<R>(&self, speak: impl FnOnce() -> R) -> R {
        let member = self.member.swap(false, Relaxed);
        let result = speak();
        self.member.store(member, Relaxed);
        result
    }

    /// Whether the schema may have been changed since the last call of
    /// [`Guard::take_schema_change`].
    pub(crate) fn may_have_changed_schema(&self) -> bool {
        self.schema_change.load(Relaxed)
    }

    /// As [`Guard::may_have_changed_schema`], and starts afresh.
    pub(crate) fn take_schema_change(&self) -> bool {
        self.schema_change.swap(false, Relaxed)
    }

    /// Whether an exclusive prepared a checkpoint of its own since this was asked last.
    pub(crate) fn take_checkpoint(&self) -> bool {
        self.checkpoint.swap(false, Relaxed)
    }

    /// Whether a trigger may have run. One that fails with `RAISE(FAIL)` keeps what the triggers
    /// round it changed, and SQLite forgets to count that in `total_changes()`.
    pub(crate) fn may_have_run_a_trigger(&self) -> bool {
        self.trigger.load(Relaxed)
    }

    /// Frames in the log after the latest commit of this connection.
    pub(crate) fn wal_frames(&self) -> u64 {
        self.wal_frames.load(Relaxed)
    }

    /// Commits of this connection that wrote to the log.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Relaxed)
    }

    fn is_overdue(&self) -> bool {
        let deadline_ns = self.deadline_ns.load(Relaxed);
        deadline_ns != 0 && self.clock.now_ns() >= deadline_ns
    }

    fn authorize(&self, context: &AuthContext<'_>) -> Authorization {
        if context.accessor.is_some() {
            self.trigger.store(true, Relaxed); // or a view, which SQLite does not tell apart
        }
        if self.exclusive.load(Relaxed) {
            return authorize_exclusive(context, &self.checkpoint);
        }
        if !self.member.load(Relaxed) {
            return Authorization::Allow;
        }
        match context.action {
            AuthAction::Transaction { .. }
            | AuthAction::Savepoint { .. }
            | AuthAction::Attach { .. }
            | AuthAction::Detach { .. }
            | AuthAction::CreateTempIndex { .. }
            | AuthAction::CreateTempTable { .. }
            | AuthAction::CreateTempTrigger { .. }
            | AuthAction::CreateTempView { .. }
            | AuthAction::DropTempIndex { .. }
            | AuthAction::DropTempTable { .. }
            | AuthAction::DropTempTrigger { .. }
            | AuthAction::DropTempView { .. } => Authorization::Deny,
            AuthAction::Pragma { pragma_name, .. } => {
                let allowed =
                    PRAGMAS_ALLOWED.iter().any(|name| name.eq_ignore_ascii_case(pragma_name));
                if allowed { Authorization::Allow } else { Authorization::Deny }
            }
            AuthAction::Function { function_name }
                if function_name.eq_ignore_ascii_case("load_extension") =>
            {
                Authorization::Deny
            }
            AuthAction::CreateIndex { .. }
            | AuthAction::CreateTable { .. }
            | AuthAction::CreateTrigger { .. }
            | AuthAction::CreateView { .. }
            | AuthAction::CreateVtable { .. }
            | AuthAction::DropIndex { .. }
            | AuthAction::DropTable { .. }
            | AuthAction::DropTrigger { .. }
            | AuthAction::DropView { .. }
            | AuthAction::DropVtable { .. }
            | AuthAction::AlterTable { .. }
            | AuthAction::Reindex { .. }
            | AuthAction::Analyze { .. } => {
                self.schema_change.store(true, Relaxed);
                Authorization::Allow
            }
            _ => Authorization::Allow,
        }
    }
}

fn authorize_exclusive(context: &AuthContext<'_>, checkpoint: &AtomicBool) -> Authorization {
    match context.action {
        AuthAction::Pragma { pragma_name, pragma_value: Some(_) }
            if PRAGMAS_FIXED.iter().any(|name| name.eq_ignore_ascii_case(pragma_name)) =>
        {
            Authorization::Deny
        }
        AuthAction::Pragma { pragma_name, .. }
            if pragma_name.eq_ignore_ascii_case("wal_checkpoint") =>
        {
            checkpoint.store(true, Relaxed);
            Authorization::Allow
        }
        _ => Authorization::Allow,
    }
}
