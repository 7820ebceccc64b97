//! The connection that an exclusive is given.

use groupcommit_remote::Alone;

use crate::{
    Error, Postgres, Statement, StatementResult,
    session::{Answer, Session, is_lost, run},
};

impl Alone<Postgres> for Session {
    fn run(&mut self, statement: &Statement) -> Result<StatementResult, Error> {
        let prepared = self.prepare(statement.sql())?.map_err(Error::Server)?;
        let (expected, given) = (prepared.params().len(), statement.params().len());
        if expected != given {
            return Err(Error::Parameters { expected, given });
        }
        let ran = self.block_on(run(&self.client, &prepared, statement.params()));
        ran.map_err(Error::Server)
    }

    fn batch(&mut self, sql: &str) -> Result<(), Error> {
        self.block_on(self.client.batch_execute(sql)).map_err(Error::Server)
    }

    /// Only a transaction that has written counts as left open.
    fn end(self) -> Answer<bool> {
        let sql = "SELECT pg_current_xact_id_if_assigned() IS NOT NULL";
        match self.block_on(self.client.query_one(sql, &[])) {
            Ok(row) => row.try_get(0),
            // In a transaction that has failed every statement does.
            Err(error) if !is_lost(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }
}
