//! What a transaction's closure is given.

use std::sync::Arc;

use groupcommit_statement::{Statement, StatementResult, Value};

use crate::{Error, execution::Execution};

/// The transaction that a closure runs in: a part of its group's transaction on the server.
///
/// Each [`run`](Self::run) waits for the server's answer. Statements that need none of each other's
/// answers should go in one call, which is one round trip; where the whole transaction is known
/// beforehand, [`Database::submit_statements`](crate::Database::submit_statements) waits for
/// nothing, and its group travels as one.
pub struct Transaction<'g> {
    pub(crate) part: Part<'g>,
}

pub(crate) enum Part<'g> {
    /// The group is being sent.
    Live(&'g mut Execution),
    /// The group is decided, and this is what the member's plan came to.
    Deliver(Option<Result<Vec<StatementResult>, Error>>),
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

impl Transaction<'_> {
    /// Runs statements in turn and returns what each came to.
    ///
    /// # Errors
    ///
    /// What the server says of the first that fails. That statement then has no effect, and those
    /// before it keep theirs, as in any transaction on this server; the closure may go on, or return
    /// the error, which undoes all it did.
    pub fn run(&mut self, statements: &[Statement]) -> Result<Vec<StatementResult>, Error> {
        match &mut self.part {
            Part::Live(execution) => execution.run_now(statements),
            Part::Deliver(_) => Err(Error::Interrupted),
        }
    }

    /// Runs one statement and returns the rows that it affected.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn execute(
        &mut self,
        sql: impl Into<Arc<str>>,
        params: impl IntoIterator<Item = Value>,
    ) -> Result<u64, Error> {
        let results = self.run(&[Statement::new(sql, params)])?;
        Ok(results.first().map_or(0, |result| result.rows_affected))
    }

    /// Runs one statement and returns its rows.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn query(
        &mut self,
        sql: impl Into<Arc<str>>,
        params: impl IntoIterator<Item = Value>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let mut results = self.run(&[Statement::new(sql, params)])?;
        Ok(results.pop().map(|result| result.rows).unwrap_or_default())
    }

    /// Sends a plan without waiting for it. What it came to is known when the group is decided, and
    /// the closure is then called once more. A closure may do nothing else.
    #[doc(hidden)]
    pub fn plan(&mut self, plan: &[Statement]) -> Result<Vec<StatementResult>, Error> {
        match &mut self.part {
            Part::Live(execution) => execution.send_plan(plan).map(|()| Vec::new()),
            Part::Deliver(result) => result.take().unwrap_or(Err(Error::Interrupted)),
        }
    }
}
