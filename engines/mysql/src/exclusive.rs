//! What an exclusive is given.

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
    /// What ran may have changed how texts are read.
    may_read_otherwise: bool,
}

impl std::fmt::Debug for Exclusive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exclusive").finish_non_exhaustive()
    }
}

impl Exclusive {
    pub(crate) fn new(session: Session, connector: Connector) -> Self {
        Self { session, connector, may_read_otherwise: false }
    }

    /// Runs one statement. One that makes a routine, a trigger or an event may hold others.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn run(&mut self, statement: &Statement) -> Result<StatementResult, Error> {
        if std::mem::take(&mut self.may_read_otherwise) {
            self.session.look_again().map_err(said)?;
        }
        let mut text = Vec::new();
        match self.connector.template_now(&mut self.session, statement.sql()) {
            Ok(template) => {
                self.may_read_otherwise = template.is_shared().is_err();
                template.render(statement.params(), &mut text)?;
            }
            Err(Error::Several)
                if statement.params().is_empty() && makes_routine(statement.sql()) =>
            {
                text.extend_from_slice(statement.sql().as_bytes());
            }
            Err(error) => return Err(error),
        }
        let mut results = self.run_text(&text)?;
        Ok(if results.is_empty() { StatementResult::default() } else { results.remove(0) })
    }

    /// Runs SQL of any number of statements, without parameters and results.
    ///
    /// # Errors
    ///
    /// What the server says of the first that fails.
    pub fn batch(&mut self, sql: impl AsRef<str>) -> Result<(), Error> {
        self.may_read_otherwise = true;
        self.run_text(sql.as_ref().as_bytes()).map(drop)
    }

    fn run_text(&mut self, text: &[u8]) -> Result<Vec<StatementResult>, Error> {
        let mut results = Vec::new();
        let ran = self.session.run_now(text, |_, result| results.push(result));
        ran.map_err(|Failed { error, .. }| said(error))?;
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

fn said(error: mysql_async::Error) -> Error {
    if is_lost(&error) { Error::Lost(Some(error)) } else { Error::Server(error) }
}

/// Whether the text makes something whose body holds statements of its own.
fn makes_routine(sql: &str) -> bool {
    let mut words = sql.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let mut has = |name: &str| words.any(|word| word.eq_ignore_ascii_case(name));
    has("CREATE") && has("BEGIN")
}
