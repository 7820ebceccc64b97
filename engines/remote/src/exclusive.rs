//! The connection that an exclusive is given.

use std::fmt;

use groupcommit_statement::{Statement, StatementResult};

use crate::{Alone as _, Error, Protocol};

/// A connection between groups and outside any transaction: for statements that cannot share a
/// commit, such as schema changes, `VACUUM` or the call of a procedure. Each statement commits by
/// itself unless you begin a transaction. The connection is closed afterwards, so nothing that was
/// set on it lasts.
pub struct Exclusive<P: Protocol>(pub(crate) P::Alone);

impl<P: Protocol> fmt::Debug for Exclusive<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exclusive").finish_non_exhaustive()
    }
}

impl<P: Protocol> Exclusive<P> {
    /// Runs one statement. In MySQL, one that creates a routine, a trigger or an event may hold
    /// others.
    ///
    /// # Errors
    ///
    /// The server's.
    pub fn run(&mut self, statement: &Statement) -> Result<StatementResult, Error<P>> {
        self.0.run(statement)
    }

    /// Runs SQL of any number of statements, without parameters and without results.
    ///
    /// # Errors
    ///
    /// The server's error for the first statement that fails.
    pub fn batch(&mut self, sql: impl AsRef<str>) -> Result<(), Error<P>> {
        self.0.batch(sql.as_ref())
    }
}
