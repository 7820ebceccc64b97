//! The transaction that a closure is given.

use std::{fmt, sync::Arc};

use groupcommit_statement::{Statement, StatementResult, Value};

use crate::{Error, Execution as _, Protocol};

/// The transaction that a closure runs in: a part of its group's transaction on the server.
///
/// Each [`run`](Self::run) waits for the server's answer, so pass statements that do not need each
/// other's results in one call, which takes one round trip. Where all statements are known
/// beforehand, use [`Database::submit_statements`](crate::Database::submit_statements): it waits for
/// no answer in between.
pub struct Transaction<'g, P: Protocol>(Part<'g, P>);

enum Part<'g, P: Protocol> {
    /// The group is being sent.
    Live(&'g mut P::Execution),
    /// The group is decided, and this is the result of the member's plan.
    Deliver(Option<Result<Vec<StatementResult>, Error<P>>>),
}

impl<P: Protocol> fmt::Debug for Transaction<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

impl<'g, P: Protocol> Transaction<'g, P> {
    pub(crate) fn live(execution: &'g mut P::Execution) -> Self {
        Self(Part::Live(execution))
    }

    pub(crate) fn deliver(result: Result<Vec<StatementResult>, Error<P>>) -> Self {
        Self(Part::Deliver(Some(result)))
    }

    /// Runs statements in turn and returns their results.
    ///
    /// # Errors
    ///
    /// The server's error for the first statement that fails. PostgreSQL then rolls the whole
    /// transaction back, whatever the closure does with the error. MySQL undoes only that
    /// statement: the closure may go on, or return the error to roll back the transaction.
    pub fn run(&mut self, statements: &[Statement]) -> Result<Vec<StatementResult>, Error<P>> {
        match &mut self.0 {
            Part::Live(execution) => execution.run_now(&statements.into()),
            Part::Deliver(_) => Err(Error::Interrupted),
        }
    }

    /// Runs one statement and returns the number of rows that it affected.
    ///
    /// # Errors
    ///
    /// See [`run`](Self::run).
    pub fn execute(
        &mut self,
        sql: impl Into<Arc<str>>,
        params: impl IntoIterator<Item = Value>,
    ) -> Result<u64, Error<P>> {
        let results = self.run(&[Statement::new(sql, params)])?;
        Ok(results.first().map_or(0, |result| result.rows_affected))
    }

    /// Runs one statement and returns its rows.
    ///
    /// # Errors
    ///
    /// See [`run`](Self::run).
    pub fn query(
        &mut self,
        sql: impl Into<Arc<str>>,
        params: impl IntoIterator<Item = Value>,
    ) -> Result<Vec<Vec<Value>>, Error<P>> {
        let mut results = self.run(&[Statement::new(sql, params)])?;
        Ok(results.pop().map(|result| result.rows).unwrap_or_default())
    }

    /// Sends a plan without waiting for its answers. The closure may do nothing else. It is called
    /// once more when the group is decided, and then gets the plan's results.
    #[doc(hidden)] // The facade submits statements through it.
    pub fn plan(&mut self, plan: &Arc<[Statement]>) -> Result<Vec<StatementResult>, Error<P>> {
        match &mut self.0 {
            Part::Live(execution) => execution.send_plan(plan).map(|()| Vec::new()),
            Part::Deliver(result) => result.take().unwrap_or(Err(Error::Interrupted)),
        }
    }
}
