//! What a transaction's closure is given.

use std::{
    cell::{Cell, RefCell},
    ops::Deref,
};

use rusqlite::{
    Batch, CachedStatement, Connection, ErrorCode, Params, Row, Statement,
    fallible_iterator::FallibleIterator as _,
};

use crate::{
    Error,
    guard::Guard,
    statement::{self, Parameters},
};

/// The transaction that a closure runs in: rusqlite's own [`Connection`], by reference, inside an
/// open transaction that is not the closure's to end.
///
/// [`execute`](Self::execute) and [`query_row`](Self::query_row) keep their statements prepared;
/// everything else of rusqlite is reached through `Deref`. A transaction that uses only the methods
/// of this type and then fails without having changed anything costs its neighbours nothing; after
/// `Deref` those before it in the group run again, since nobody can tell what it changed. Statements
/// that would reach beyond the transaction (`BEGIN`, `COMMIT`, `SAVEPOINT`, most `PRAGMA`s, `ATTACH`,
/// temporary tables) are refused with "not authorized"; use [`savepoint`](Self::savepoint) to undo a
/// part, and [`Database::exclusive`](crate::Database::exclusive) for the rest.
///
/// The counters (`changes`, `total_changes`, `last_insert_rowid`, also as SQL functions) begin at 0.
/// Only [`rusqlite::Connection::total_changes`] itself, reached through `Deref`, counts on from
/// transaction to transaction.
pub struct Transaction<'g> {
    connection: &'g Connection,
    guard: &'g Guard,
    own: &'g OwnSql,
    savepoints_open: Cell<u32>,
    /// A savepoint of the running member could not be ended as it should.
    is_spoiled: Cell<bool>,
    /// The running member may have left something behind, whatever `total_changes()` says.
    left_a_trace: Cell<bool>,
    /// The running member used the connection itself, and so may have left a cursor open, turned a
    /// switch, or written through a blob handle.
    is_lent: Cell<bool>,
    /// The running member was given a statement, and so may have left a cursor open.
    is_statement_lent: Cell<bool>,
    /// Since it began: undone, the schema changes again.
    has_changed_schema: Cell<bool>,
    /// A schema change of the running member may have failed. SQLite undoes it in the database, but
    /// may keep it in the connection's memory.
    is_schema_in_doubt: Cell<bool>,
    recent: RefCell<Vec<Recent<'g>>>,
}

/// The engine's own SQL. Names in it are impossible to guess, so that no SQL of a closure can mean a
/// statement that is kept prepared here.
#[derive(Debug)]
pub(crate) struct OwnSql {
    name: String,
    begin: String,
    commit: String,
    roll_back: String,
    changes_nothing: String,
    fence: [String; 2],
}

impl OwnSql {
    pub(crate) fn new() -> Self {
        let name = format!("groupcommit_{:016x}", fastrand::u64(..));
        Self {
            begin: format!("BEGIN IMMEDIATE TRANSACTION {name}"),
            commit: format!("COMMIT TRANSACTION {name}"),
            roll_back: format!("ROLLBACK TRANSACTION {name}"),
            changes_nothing: format!("DELETE FROM temp.{name} WHERE 0"),
            fence: ["SAVEPOINT", "RELEASE"].map(|verb| format!("{verb} {name}")),
            name,
        }
    }

    /// Creates what the statements need on the connection that will run them.
    pub(crate) fn prepare(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.execute_batch(&format!("CREATE TEMP TABLE {} (x)", self.name))
    }
}

/// A statement that a member of this group used: the next that uses it takes it from here, which
/// costs a comparison instead of a search in the connection's cache.
struct Recent<'g> {
    sql: String,
    /// `None` while it is lent. In a box, since it is moved with each use.
    statement: Option<Box<CachedStatement<'g>>>,
}

/// Statements that a group keeps at hand.
const RECENT_MAX: usize = 8;

/// What a member may have left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Left {
    /// A switch, or anything else: it used the connection otherwise than through [`Transaction`].
    pub(crate) anything: bool,
    /// A cursor.
    pub(crate) cursor: bool,
    /// A change of the database that `total_changes()` does not show.
    pub(crate) trace: bool,
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        if !self.is_lent.replace(true) {
            self.hide_changes();
        }
        self.connection
    }
}

impl<'g> Transaction<'g> {
    pub(crate) fn new(connection: &'g Connection, guard: &'g Guard, own: &'g OwnSql) -> Self {
        Self {
            connection,
            guard,
            own,
            savepoints_open: Cell::new(0),
            is_spoiled: Cell::new(false),
            left_a_trace: Cell::new(false),
            is_lent: Cell::new(false),
            is_statement_lent: Cell::new(false),
            has_changed_schema: Cell::new(false),
            is_schema_in_doubt: Cell::new(false),
            recent: RefCell::new(Vec::new()),
        }
    }

    /// Runs one statement and returns the number of rows it changed.
    ///
    /// # Errors
    ///
    /// What SQLite says; see [`rusqlite::Connection::execute`].
    pub fn execute<P: Params>(&self, sql: &str, params: P) -> rusqlite::Result<usize> {
        let changed = self.with_statement(sql, |statement| statement.execute(params))?;
        // SQLite leaves the count of the statement before it where one counts nothing.
        Ok(if changed > 0 && self.total_changes() == 0 { 0 } else { changed })
    }

    /// Runs a query and hands its first row to `read`.
    ///
    /// # Errors
    ///
    /// [`rusqlite::Error::QueryReturnedNoRows`] when there is none, or what SQLite or `read` says.
    pub fn query_row<T, P: Params>(
        &self,
        sql: &str,
        params: P,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        self.with_statement(sql, |statement| statement.query_row(params, read))
    }

    /// Runs one statement for an interpreter of SQL, which learns from SQLite what a statement takes and
    /// returns: `bind` sets the parameters, and `each` is called with each row, and at the end without
    /// one.
    ///
    /// # Errors
    ///
    /// What SQLite, `bind` or `each` says.
    pub fn step<X: From<rusqlite::Error>>(
        &self,
        sql: &str,
        bind: impl FnOnce(&mut Parameters<'_, '_>) -> Result<(), X>,
        each: impl FnMut(&Statement<'_>, Option<&Row<'_>>) -> Result<(), X>,
    ) -> Result<(), X> {
        self.with_statement(sql, |prepared| statement::step(prepared, bind, each))?
    }

    /// As [`rusqlite::Connection::prepare`].
    ///
    /// # Errors
    ///
    /// What SQLite says.
    pub fn prepare(&self, sql: &str) -> rusqlite::Result<Statement<'_>> {
        let statement = self.connection.prepare(sql)?;
        self.lend(&statement);
        Ok(statement)
    }

    /// As [`rusqlite::Connection::prepare_cached`].
    ///
    /// # Errors
    ///
    /// What SQLite says.
    pub fn prepare_cached(&self, sql: &str) -> rusqlite::Result<CachedStatement<'_>> {
        if self.guard.take_schema_change() {
            self.forget_statements();
        }
        let statement = self.connection.prepare_cached(sql)?;
        self.lend(&statement);
        Ok(statement)
    }

    /// Runs statements separated by semicolons; see [`rusqlite::Connection::execute_batch`].
    ///
    /// # Errors
    ///
    /// What SQLite says of the first that fails.
    pub fn execute_batch(&self, sql: &str) -> rusqlite::Result<()> {
        let mut batch = Batch::new(self.connection, sql);
        while let Some(mut statement) = batch.next()? {
            let ran = statement.raw_query().next().map(drop);
            self.note_trace(&statement, &ran);
            ran?;
        }
        Ok(())
    }

    /// The rowid of the latest row that this transaction inserted; 0 before the first.
    #[must_use]
    pub fn last_insert_rowid(&self) -> i64 {
        self.connection.last_insert_rowid()
    }

    /// The connection as SQLite sees it, with what its other transactions left in its counters.
    pub(crate) fn connection(&self) -> &'g Connection {
        self.connection
    }

    /// Before the closure is handed a statement, with which it may do what it wants.
    fn lend(&self, statement: &Statement<'_>) {
        if !self.is_statement_lent.replace(true) {
            self.hide_changes();
        }
        if !statement.readonly() {
            self.assume_trace();
        }
        if self.guard.may_have_changed_schema() {
            self.is_schema_in_doubt.set(true);
        }
    }

    /// Lends the prepared statement of `sql`; a second use inside the first gets one of its own.
    pub(crate) fn with_statement<R>(
        &self,
        sql: &str,
        run: impl FnOnce(&mut CachedStatement<'g>) -> rusqlite::Result<R>,
    ) -> rusqlite::Result<R> {
        let (slot, taken) = {
            let mut recent = self.recent.borrow_mut();
            let slot = recent.iter().position(|recent| recent.sql == sql);
            (slot, slot.and_then(|slot| recent[slot].statement.take()))
        };
        let mut statement = match taken {
            Some(statement) => statement,
            None => Box::new(self.connection.prepare_cached(sql)?),
        };
        let result = run(&mut statement);
        self.note_trace(&statement, &result);
        self.keep(sql, slot, statement);
        if self.guard.take_schema_change() {
            self.forget_statements();
        }
        result
    }

    /// Drops the statements that are kept prepared, after a change of the schema. SQLite would prepare
    /// each again, but only after it has opened the statement's own savepoint, at which virtual tables
    /// write what they keep to themselves; a statement of the member's own would not make them.
    pub(crate) fn forget_statements(&self) {
        self.has_changed_schema.set(true);
        self.recent.borrow_mut().clear();
        self.connection.flush_prepared_statement_cache();
    }

    /// A statement that writes and completed has left a trace, whatever it counts. One that broke a
    /// constraint SQLite has undone, or else it counts what it kept, but for what triggers and virtual
    /// tables wrote.
    fn note_trace<T>(&self, statement: &Statement<'_>, ran: &rusqlite::Result<T>) {
        if ran.is_err() && self.guard.may_have_changed_schema() {
            self.is_schema_in_doubt.set(true);
        }
        if self.left_a_trace.get() || statement.readonly() {
            return;
        }
        let broke_constraint = matches!(ran, Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation));
        self.left_a_trace.set(!broke_constraint || self.guard.may_run_other_code());
    }

    /// The running member may leave a trace that nothing counts.
    pub(crate) fn assume_trace(&self) {
        self.left_a_trace.set(true);
    }

    /// Keeps a statement that was found in `slot`, if it is still there.
    fn keep(&self, sql: &str, slot: Option<usize>, mut statement: Box<CachedStatement<'g>>) {
        // What a named parameter is not given must be NULL, not what a neighbour gave it.
        statement.clear_bindings();
        let mut recent = self.recent.borrow_mut();
        // Others may have been kept meanwhile.
        let is_still_there =
            slot.is_some_and(|slot| recent.get(slot).is_some_and(|it| it.sql == sql));
        let slot = if is_still_there { slot } else { recent.iter().position(|it| it.sql == sql) };
        if let Some(slot) = slot {
            recent[slot].statement = Some(statement);
            return;
        }
        if recent.len() == RECENT_MAX {
            recent.remove(0);
        }
        recent.push(Recent { sql: sql.to_owned(), statement: Some(statement) });
    }

    /// Rows that the latest statement of this transaction changed; 0 before the first.
    #[must_use]
    pub fn changes(&self) -> u64 {
        if self.total_changes() == 0 { 0 } else { self.connection.changes() }
    }

    /// Rows that this transaction has changed so far, those changed by triggers included.
    #[must_use]
    pub fn total_changes(&self) -> u64 {
        self.connection.total_changes() - self.guard.changes_before()
    }

    /// Runs `inner` so that its effects can be undone without ending the transaction: they are
    /// kept when it returns a value, and undone when it returns an error or panics. Nests.
    ///
    /// # Errors
    ///
    /// What `inner` returns, or what SQLite says of the savepoint itself.
    pub fn savepoint<T, E: From<rusqlite::Error>>(
        &self,
        inner: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        if self.connection.is_autocommit() {
            // A statement rolled the transaction back; a savepoint would begin, and commit, another.
            return Err(rolled_back().into());
        }
        let depth = self.savepoints_open.get();
        let name = format!("{}_{depth}", self.own.name);
        self.speak(&format!("SAVEPOINT {name}"))?;
        self.savepoints_open.set(depth + 1);
        let mut undo = Undo { tx: self, name: &name, depth, ended: false };
        let result = inner(self);
        undo.end(result.is_ok())?;
        result
    }

    /// Runs SQL of the engine's own.
    pub(crate) fn speak(&self, sql: &str) -> rusqlite::Result<()> {
        self.guard.as_engine(|| {
            self.connection.prepare_cached(sql)?.execute(())?;
            Ok(())
        })
    }

    /// Begins a write transaction: from here on nobody else writes.
    pub(crate) fn begin(&self) -> rusqlite::Result<()> {
        self.has_changed_schema.set(false);
        uninterrupted(|| self.speak(&self.own.begin))
    }

    pub(crate) fn commit(&self) -> rusqlite::Result<()> {
        self.speak(&self.own.commit)
    }

    /// Rolls back if a transaction is open.
    pub(crate) fn roll_back(&self) -> rusqlite::Result<()> {
        self.savepoints_open.set(0);
        uninterrupted(|| {
            if self.connection.is_autocommit() {
                return Ok(());
            }
            self.speak(&self.own.roll_back)
        })?;
        if self.has_changed_schema.replace(false) {
            self.forget_statements();
        }
        Ok(())
    }

    /// Has `changes()` return 0, as on a connection on which nothing was changed yet: what it returns
    /// is set by statements that count, of which this one counts nothing.
    pub(crate) fn forget_changes(&self) -> rusqlite::Result<()> {
        uninterrupted(|| self.speak(&self.own.changes_nothing))
    }

    /// Before the closure can ask the connection itself, or a statement, what was changed.
    fn hide_changes(&self) {
        if self.total_changes() == 0
            && !self.connection.is_autocommit()
            && let Err(error) = self.forget_changes()
        {
            tracing::warn!(%error, "could not hide the count of a neighbour's changes");
        }
    }

    /// Has virtual tables write what they keep to themselves, as at a commit, so that it counts for
    /// the member that wrote it, and fails it where it fails.
    pub(crate) fn fence(&self) -> rusqlite::Result<()> {
        self.own.fence.iter().try_for_each(|sql| uninterrupted(|| self.speak(sql)))
    }

    /// Says what the member that has just run may have left, and forgets it.
    pub(crate) fn end_member(&self) -> Left {
        self.savepoints_open.set(0);
        let anything = self.is_lent.replace(false);
        if self.guard.take_schema_change() {
            self.is_schema_in_doubt.set(self.is_schema_in_doubt.get() || anything);
            self.forget_statements();
        }
        Left {
            anything,
            cursor: self.is_statement_lent.replace(false) || anything,
            trace: self.left_a_trace.replace(false) || anything,
        }
    }

    /// Whether a schema change of the member may have failed, so that the connection may have another
    /// schema than the database; forgets it.
    pub(crate) fn take_schema_doubt(&self) -> bool {
        self.is_schema_in_doubt.replace(false)
    }

    /// Has SQLite read the schema again. REQUIRES: no transaction is open.
    pub(crate) fn reload_schema(&self) -> rusqlite::Result<()> {
        self.forget_statements();
        uninterrupted(|| self.speak("PRAGMA writable_schema = RESET"))
    }

    /// Whether a savepoint of the member could not be ended as it should; forgets it.
    pub(crate) fn take_spoiled(&self) -> bool {
        self.is_spoiled.replace(false)
    }

    /// Runs plain data: each statement in turn.
    ///
    /// # Errors
    ///
    /// What SQLite says of the first statement that fails.
    pub fn run(
        &self,
        statements: &[crate::Statement],
    ) -> rusqlite::Result<Vec<crate::StatementResult>> {
        statements.iter().map(|statement| crate::statement::run(statement, self)).collect()
    }
}

/// Runs what the engine cannot go on without again while it is interrupted: a closure may have handed
/// the connection's interrupt handle to another thread.
pub(crate) fn uninterrupted<T>(
    mut run: impl FnMut() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let mut left = INTERRUPTS_MAX;
    loop {
        match run() {
            Err(error)
                if left > 0
                    && error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) =>
            {
                left -= 1;
            }
            result => return result,
        }
    }
}

/// How often in a row the engine lets itself be interrupted.
const INTERRUPTS_MAX: u32 = 10_000;

fn rolled_back() -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(Error::RolledBack))
}

/// Ends a savepoint, also when its closure panics.
struct Undo<'a, 'g> {
    tx: &'a Transaction<'g>,
    name: &'a str,
    depth: u32,
    ended: bool,
}

impl Undo<'_, '_> {
    fn end(&mut self, keep: bool) -> rusqlite::Result<()> {
        self.ended = true;
        self.tx.savepoints_open.set(self.depth);
        if self.tx.connection.is_autocommit() {
            // A statement rolled the whole transaction back, and the savepoint with it.
            return if keep { Err(rolled_back()) } else { Ok(()) };
        }
        let verbs: &[&str] = if keep { &["RELEASE"] } else { &["ROLLBACK TO", "RELEASE"] };
        let ended = verbs
            .iter()
            .try_for_each(|verb| uninterrupted(|| self.tx.speak(&format!("{verb} {}", self.name))));
        if ended.is_err() {
            // The closure may keep the error to itself; its transaction must not be kept.
            self.tx.is_spoiled.set(true);
        }
        ended
    }
}

impl Drop for Undo<'_, '_> {
    fn drop(&mut self) {
        if !self.ended
            && let Err(error) = self.end(false)
        {
            tracing::warn!(%error, "could not undo a savepoint whose closure panicked");
        }
    }
}
