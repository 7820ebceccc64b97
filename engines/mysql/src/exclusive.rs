//! What an exclusive is given.

use groupcommit_core::block_on;
use groupcommit_statement::{Statement, StatementResult};

use crate::{
    Error,
    session::{Answer, Connector, Failed, Session, is_lost},
};

/// A connection of its own, between groups and outside any transaction: for what cannot share one,
/// such as changes of the schema, which commit by themselves, or the call of a procedure. Each
/// statement commits by itself unless a transaction was begun. The connection ends with it.
pub struct Exclusive {
    session: Session,
    connector: Connector,
}

impl std::fmt::Debug for Exclusive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exclusive").finish_non_exhaustive()
    }
}

impl Exclusive {
    pub(crate) fn new(session: Session, connector: Connector) -> Self {
        Self { session, connector }
    }

    /// Runs one statement.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn run(&mut self, statement: &Statement) -> Result<StatementResult, Error> {
        let template = block_on(self.connector.template(&mut self.session, statement.sql()))?;
        let mut text = Vec::new();
        template.render(statement.params(), &mut text)?;
        let mut results = self.run_text(&text)?;
        Ok(if results.is_empty() { StatementResult::default() } else { results.remove(0) })
    }

    /// Runs SQL of any number of statements, without parameters and results.
    ///
    /// # Errors
    ///
    /// What the server says of the first that fails.
    pub fn batch(&mut self, sql: impl AsRef<str>) -> Result<(), Error> {
        self.run_text(sql.as_ref().as_bytes()).map(drop)
    }

    fn run_text(&mut self, text: &[u8]) -> Result<Vec<StatementResult>, Error> {
        let mut results = Vec::new();
        let ran = self.session.run_now(text, |_, result| results.push(result));
        ran.map_err(
            |Failed { error, .. }| {
                if is_lost(&error) { Error::Lost(Some(error)) } else { Error::Server(error) }
            },
        )?;
        Ok(results)
    }

    /// Undoes what it left open, and says whether that was a transaction.
    pub(crate) fn end(&mut self) -> Answer<bool> {
        let mut run = |text: &str| {
            let ran = self.session.run_now(text.as_bytes(), |_, _| {});
            ran.map_err(|failed| failed.error)
        };
        run("DO 0")?;
        let is_open = self.session.is_in_transaction();
        if is_open {
            drop(self.session.run_now(b"ROLLBACK", |_, _| {}));
        }
        Ok(is_open)
    }
}
