//! What a transaction's closure is given.

use std::{
    cell::{Cell, RefCell},
    ops::Deref,
};

use rusqlite::{CachedStatement, Connection, ErrorCode, Params, Row, Statement};

use crate::{Error, error::code, guard::Guard};

/// The transaction that a closure runs in: rusqlite's own [`Connection`], by reference, inside an
/// open transaction that is not the closure's to end.
///
/// [`execute`](Self::execute) and [`query_row`](Self::query_row) keep their statements prepared;
/// everything else of rusqlite is reached through `Deref`. A transaction that uses only the methods
/// of this type and then fails without having changed anything costs its neighbours nothing; after
/// `Deref` those before it in the group run again, since nobody can tell what it changed. Statements that would reach beyond the
/// transaction (`BEGIN`, `COMMIT`, `SAVEPOINT`, `PRAGMA`, `ATTACH`, temporary tables) are refused
/// with "not authorized"; use [`savepoint`](Self::savepoint) to undo a part, and
/// [`Database::exclusive`](crate::Database::exclusive) for the rest.
pub struct Transaction<'g> {
    connection: &'g Connection,
    guard: &'g Guard,
    /// Makes the engine's own SQL impossible to guess, so that no SQL of a closure can mean it.
    nonce: u64,
    savepoints_open: Cell<u32>,
    /// The running member used the connection itself, and so may have left a cursor open, turned a
    /// switch, or written through a blob handle.
    is_lent: Cell<bool>,
    /// The running member was given a statement, and so may have left a cursor open.
    is_statement_lent: Cell<bool>,
    recent: RefCell<Vec<Recent<'g>>>,
}

/// A statement that a member of this group used: the next that uses it takes it from here, which
/// costs a comparison instead of a search in the connection's cache.
struct Recent<'g> {
    sql: String,
    /// `None` while it is lent.
    statement: Option<CachedStatement<'g>>,
}

/// Statements that a group keeps at hand.
const RECENT_MAX: usize = 8;

/// What of the connection a member used otherwise than through [`Transaction`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lent {
    /// All of it.
    pub(crate) connection: bool,
    /// A statement, and so perhaps a cursor.
    pub(crate) statement: bool,
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.is_lent.set(true);
        self.connection
    }
}

impl<'g> Transaction<'g> {
    pub(crate) fn new(connection: &'g Connection, guard: &'g Guard, nonce: u64) -> Self {
        Self {
            connection,
            guard,
            nonce,
            savepoints_open: Cell::new(0),
            is_lent: Cell::new(false),
            is_statement_lent: Cell::new(false),
            recent: RefCell::new(Vec::new()),
        }
    }

    /// Runs one statement and returns the number of rows it changed.
    ///
    /// # Errors
    ///
    /// What SQLite says; see [`rusqlite::Connection::execute`].
    pub fn execute<P: Params>(&self, sql: &str, params: P) -> rusqlite::Result<usize> {
        self.with_statement(sql, |statement| statement.execute(params))
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

    /// As [`rusqlite::Connection::prepare`].
    ///
    /// # Errors
    ///
    /// What SQLite says.
    pub fn prepare(&self, sql: &str) -> rusqlite::Result<Statement<'_>> {
        self.is_statement_lent.set(true);
        self.connection.prepare(sql)
    }

    /// As [`rusqlite::Connection::prepare_cached`].
    ///
    /// # Errors
    ///
    /// What SQLite says.
    pub fn prepare_cached(&self, sql: &str) -> rusqlite::Result<CachedStatement<'_>> {
        self.is_statement_lent.set(true);
        self.connection.prepare_cached(sql)
    }

    /// Runs statements separated by semicolons; see [`rusqlite::Connection::execute_batch`].
    ///
    /// # Errors
    ///
    /// What SQLite says of the first that fails.
    pub fn execute_batch(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.execute_batch(sql)
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

    /// Lends the prepared statement of `sql`; a second use inside the first gets one of its own.
    pub(crate) fn with_statement<R>(
        &self,
        sql: &str,
        run: impl FnOnce(&mut CachedStatement<'g>) -> rusqlite::Result<R>,
    ) -> rusqlite::Result<R> {
        let taken = self
            .recent
            .borrow_mut()
            .iter_mut()
            .find(|recent| recent.sql == sql)
            .and_then(|recent| recent.statement.take());
        let mut statement = match taken {
            Some(statement) => statement,
            None => self.connection.prepare_cached(sql)?,
        };
        let result = run(&mut statement);
        self.keep(sql, statement);
        result
    }

    fn keep(&self, sql: &str, mut statement: CachedStatement<'g>) {
        // What a named parameter is not given must be NULL, not what a neighbour gave it.
        statement.clear_bindings();
        let mut recent = self.recent.borrow_mut();
        if let Some(slot) = recent.iter_mut().find(|recent| recent.sql == sql) {
            slot.statement = Some(statement);
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
        let name = format!("groupcommit_{:016x}_{depth}", self.nonce);
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
        uninterrupted(|| self.speak(&format!("BEGIN IMMEDIATE /* {:016x} */", self.nonce)))
    }

    pub(crate) fn commit(&self) -> rusqlite::Result<()> {
        self.speak(&format!("COMMIT /* {:016x} */", self.nonce))
    }

    /// Rolls back if a transaction is open.
    pub(crate) fn roll_back(&self) -> rusqlite::Result<()> {
        self.savepoints_open.set(0);
        uninterrupted(|| {
            if self.connection.is_autocommit() {
                return Ok(());
            }
            self.speak(&format!("ROLLBACK /* {:016x} */", self.nonce))
        })
    }

    /// Forgets what the member that has just run may have left, and says what it used.
    pub(crate) fn end_member(&self) -> Lent {
        self.savepoints_open.set(0);
        let connection = self.is_lent.replace(false);
        Lent { connection, statement: self.is_statement_lent.replace(false) || connection }
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
            Err(error) if left > 0 && code(&error) == Some(ErrorCode::OperationInterrupted) => {
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
        if !keep {
            self.tx.speak(&format!("ROLLBACK TO {}", self.name))?;
        }
        self.tx.speak(&format!("RELEASE {}", self.name))
    }
}

impl Drop for Undo<'_, '_> {
    fn drop(&mut self) {
        if !self.ended
            && let Err(error) = self.end(false)
        {
            // The panic goes on, and the engine then rolls back the whole member.
            tracing::warn!(%error, "could not undo a savepoint whose closure panicked");
        }
    }
}
