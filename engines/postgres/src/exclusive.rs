//! What an exclusive is given.

use std::sync::Arc;

use crate::{
    Error, Statement, StatementResult,
    session::{Answer, Session, is_lost, run},
};

/// A connection of its own, between groups and outside any transaction: for what cannot share one,
/// such as `VACUUM` or `CREATE INDEX CONCURRENTLY`, or for several schema changes in one text. Each
/// statement commits by itself unless a transaction was begun. The connection ends with it.
pub struct Exclusive {
    pub(crate) session: Session,
}

impl std::fmt::Debug for Exclusive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exclusive").finish_non_exhaustive()
    }
}

impl Exclusive {
    /// Runs one statement.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn run(&mut self, statement: &Statement) -> Result<StatementResult, Error> {
        let prepared = match self.session.prepare(statement.sql())? {
            Ok(prepared) => prepared,
            Err(error) => return Err(Error::Server(error)),
        };
        let (expected, given) = (prepared.params().len(), statement.params().len());
        if expected != given {
            return Err(Error::Parameters { expected, given });
        }
        self.session
            .block_on(run(&self.session.client, &prepared, statement.params()))
            .map_err(Error::Server)
    }

    /// Runs SQL of any number of statements, without parameters and results.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn batch(&mut self, sql: impl Into<Arc<str>>) -> Result<(), Error> {
        let sql = sql.into();
        self.session.block_on(self.session.client.batch_execute(&sql)).map_err(Error::Server)
    }

    /// Whether it left a transaction open that has written: nothing of that is kept.
    pub(crate) fn has_open_transaction(&mut self) -> Answer<bool> {
        let sql = "SELECT pg_current_xact_id_if_assigned() IS NOT NULL";
        match self.session.block_on(self.session.client.query_one(sql, &[])) {
            Ok(row) => row.try_get(0),
            // In a transaction that has failed every statement does.
            Err(error) if !is_lost(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }
}
