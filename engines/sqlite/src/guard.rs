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
//! | see its neighbours in `total_changes()` | a function of our own |
//! | see its neighbours in `changes()` | one that tells: from then on each member begins with 0 |
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

/// Pragmas that change nothing, whatever value they are given: it says what they tell about.
const PRAGMAS_THAT_TELL: [&str; 14] = [
    "collation_list",
    "compile_options",
    "data_version",
    "foreign_key_check",
    "foreign_key_list",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "quick_check",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// Pragmas that change nothing as long as they are given no value.
const PRAGMAS_ASKED: [&str; 5] =
    ["freelist_count", "page_count", "page_size", "schema_version", "user_version"];

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
    /// A statement that runs a trigger was prepared. Never reset: it may stay in a cache.
    trigger: AtomicBool,
    /// There may be a virtual table in the database.
    virtual_table: AtomicBool,
    /// A statement that changes the schema was prepared since [`Guard::take_schema_change`].
    schema_change: AtomicBool,
    /// A statement asked for `changes()`. Never reset: it may be asked again without being prepared.
    asks_for_changes: AtomicBool,
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
            trigger: AtomicBool::new(false),
            virtual_table: AtomicBool::new(false),
            schema_change: AtomicBool::new(false),
            asks_for_changes: AtomicBool::new(false),
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
        connection.wal_hook(Some(move |wal: &mut rusqlite::hooks::Wal, frames: i32| {
            // An exclusive may have attached another database, which has a log of its own.
            if wal.name() == c"main" {
                guard.wal_frames.store(u64::try_from(frames).unwrap_or(0), Relaxed);
                guard.commits.fetch_add(1, Relaxed);
            }
            Ok(())
        }))?;
        let guard = self.clone();
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
        connection.create_scalar_function("changes", 0, flags, move |context| {
            guard.asks_for_changes.store(true, Relaxed);
            Ok(ffi::context_changes(context).0)
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

    /// Whether there may be a virtual table, which keeps what is written to it to itself until
    /// something makes it write.
    pub(crate) fn may_have_virtual_tables(&self) -> bool {
        self.virtual_table.load(Relaxed)
    }

    /// Whether there is a virtual table, as the schema says.
    pub(crate) fn set_virtual_tables(&self, there_are: bool) {
        self.virtual_table.store(there_are, Relaxed);
    }

    /// As [`Guard::take_schema_change`], which may still be asked.
    pub(crate) fn may_have_changed_schema(&self) -> bool {
        self.schema_change.load(Relaxed)
    }

    /// Whether the schema may have changed since this was asked last.
    pub(crate) fn take_schema_change(&self) -> bool {
        self.schema_change.load(Relaxed) && self.schema_change.swap(false, Relaxed)
    }

    /// Whether members ask for `changes()`, and so must not find what a neighbour changed.
    pub(crate) fn asks_for_changes(&self) -> bool {
        self.asks_for_changes.load(Relaxed)
    }

    /// Whether statements may do more than they say, in triggers and virtual tables. A trigger that
    /// fails with `RAISE(FAIL)` keeps what the triggers round it changed, and SQLite forgets to count
    /// that in `total_changes()`.
    pub(crate) fn may_run_other_code(&self) -> bool {
        self.trigger.load(Relaxed) || self.may_have_virtual_tables()
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
            return authorize_exclusive(context);
        }
        if !self.member.load(Relaxed) {
            return Authorization::Allow;
        }
        match context.action {
            _ if changes_temp(context) => Authorization::Deny,
            AuthAction::Transaction { .. }
            | AuthAction::Savepoint { .. }
            | AuthAction::Attach { .. }
            | AuthAction::Detach { .. } => Authorization::Deny,
            AuthAction::Pragma { .. } if !is_harmless_pragma(context) => Authorization::Deny,
            AuthAction::Function { function_name }
                if function_name.eq_ignore_ascii_case("load_extension") =>
            {
                Authorization::Deny
            }
            AuthAction::Insert { table_name: "sqlite_master" }
            | AuthAction::Update { table_name: "sqlite_master", .. }
            | AuthAction::Delete { table_name: "sqlite_master" } => {
                self.schema_change.store(true, Relaxed);
                Authorization::Allow
            }
            AuthAction::CreateVtable { .. } => {
                self.virtual_table.store(true, Relaxed);
                Authorization::Allow
            }
            _ => Authorization::Allow,
        }
    }
}

/// Whether a statement would change what is temporary: it hides what is in the database, from
/// everybody who uses the connection.
pub(crate) fn changes_temp(context: &AuthContext<'_>) -> bool {
    let only_looks = match context.action {
        AuthAction::Read { .. } | AuthAction::Select | AuthAction::Function { .. } => true,
        AuthAction::Pragma { .. } => is_harmless_pragma(context),
        // Whatever is renamed in the database is renamed in what is temporary too.
        AuthAction::Update { table_name, .. } => table_name == "sqlite_temp_master",
        _ => false,
    };
    context.database_name == Some("temp") && !only_looks
}

/// Whether a statement is a pragma that leaves the connection and the database as they are. SQLite
/// runs some by itself, inside statements that change the schema and in its virtual tables.
pub(crate) fn is_harmless_pragma(context: &AuthContext<'_>) -> bool {
    let AuthAction::Pragma { pragma_name, pragma_value } = context.action else { return false };
    let is_one_of =
        |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(pragma_name));
    is_one_of(&PRAGMAS_THAT_TELL) || pragma_value.is_none() && is_one_of(&PRAGMAS_ASKED)
}

fn authorize_exclusive(context: &AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Pragma { pragma_name, pragma_value: Some(_) }
            if PRAGMAS_FIXED.iter().any(|name| name.eq_ignore_ascii_case(pragma_name)) =>
        {
            Authorization::Deny
        }
        _ => Authorization::Allow,
    }
}
