//! What a transaction's closure is given.

use std::{ops::Deref, sync::Arc};

use rusqlite::{CachedStatement, Connection, Params, Row};

use crate::{Error, guard::Guard};

/// The transaction that a closure runs in: rusqlite's own [`Connection`], by reference, inside an
/// open transaction that is not the closure's to end.
///
/// [`execute`](Self::execute) and [`query_row`](Self::query_row) keep their statements prepared;
/// everything else of rusqlite is reached through `Deref`. Statements that would reach beyond the
/// transaction (`BEGIN`, `COMMIT`, `SAVEPOINT`, `PRAGMA`, `ATTACH`, temporary tables) are refused
/// with "not authorized"; use [`savepoint`](Self::savepoint) to undo a part, and
/// [`Database::exclusive`](crate::Database::exclusive) for the rest.
pub struct Transaction {
    pub(crate) connection: Connection,
    pub(crate) guard: Arc<Guard>,
    /// Makes the names of savepoints impossible to guess, so that no SQL of a closure can mean them.
    pub(crate) nonce: u64,
    pub(crate) savepoints_open: std::cell::Cell<u32>,
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

impl Deref for Transaction {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Transaction {
    /// Runs one statement and returns the number of rows it changed.
    ///
    /// # Errors
    ///
    /// What SQLite says; see [`rusqlite::Connection::execute`].
    pub fn execute<P: Params>(&self, sql: &str, params: P) -> rusqlite::Result<usize> {
        self.connection.prepare_cached(sql)?.execute(params)
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
        self.connection.prepare_cached(sql)?.query_row(params, read)
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
            let mut statement: CachedStatement<'_> = self.connection.prepare_cached(sql)?;
            statement.execute(())?;
            Ok(())
        })
    }

    /// Begins a write transaction: from here on nobody else writes.
    pub(crate) fn begin(&self) -> rusqlite::Result<()> {
        self.speak(&format!("BEGIN IMMEDIATE /* {:016x} */", self.nonce))
    }

    pub(crate) fn commit(&self) -> rusqlite::Result<()> {
        self.speak(&format!("COMMIT /* {:016x} */", self.nonce))
    }

    /// Rolls back if a transaction is open.
    pub(crate) fn roll_back(&self) -> rusqlite::Result<()> {
        self.savepoints_open.set(0);
        if self.connection.is_autocommit() {
            return Ok(());
        }
        self.speak(&format!("ROLLBACK /* {:016x} */", self.nonce))
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
        statements.iter().map(|statement| statement.run(self)).collect()
    }
}

/// Ends a savepoint, also when its closure panics.
struct Undo<'a> {
    tx: &'a Transaction,
    name: &'a str,
    depth: u32,
    ended: bool,
}

impl Undo<'_> {
    fn end(&mut self, keep: bool) -> rusqlite::Result<()> {
        self.ended = true;
        self.tx.savepoints_open.set(self.depth);
        if self.tx.connection.is_autocommit() {
            // A statement rolled the whole transaction back, and the savepoint with it.
            return if keep {
                Err(rusqlite::Error::ToSqlConversionFailure(Box::new(Error::RolledBack)))
            } else {
                Ok(())
            };
        }
        if !keep {
            self.tx.speak(&format!("ROLLBACK TO {}", self.name))?;
        }
        self.tx.speak(&format!("RELEASE {}", self.name))
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if !self.ended
            && let Err(error) = self.end(false)
        {
            // The panic goes on, and the engine then rolls back the whole member.
            tracing::warn!(%error, "could not undo a savepoint whose closure panicked");
        }
    }
}
