//! The connection that an exclusive is given.

use groupcommit_remote::Alone;
use groupcommit_statement::{Statement, StatementResult};

use crate::{
    Error, MySql,
    session::{Answer, Failed, Session},
};

/// A connection that one caller has to himself.
pub struct AloneSession {
    session: Session,
    protocol: MySql,
    /// What ran may have changed how texts are read.
    may_read_otherwise: bool,
}

impl AloneSession {
    pub(crate) fn new(session: Session, protocol: MySql) -> Self {
        Self { session, protocol, may_read_otherwise: false }
    }

    fn run_text(&mut self, text: &[u8]) -> Result<Vec<StatementResult>, Error> {
        let mut results = Vec::new();
        let ran = self.session.run_now(text, |_, result| results.push(result));
        ran.map_err(|Failed { error, .. }| Error::of_server(error))?;
        Ok(results)
    }
}

impl Alone<MySql> for AloneSession {
    fn run(&mut self, statement: &Statement) -> Result<StatementResult, Error> {
        if std::mem::take(&mut self.may_read_otherwise) {
            self.session.look_again().map_err(Error::of_server)?;
        }
        let mut text = Vec::new();
        match self.protocol.template_now(&mut self.session, statement.sql()) {
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

    fn batch(&mut self, sql: &str) -> Result<(), Error> {
        self.may_read_otherwise = true;
        self.run_text(sql.as_bytes()).map(drop)
    }

    fn end(mut self) -> Answer<bool> {
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

/// Whether the text makes something whose body holds statements of its own.
fn makes_routine(sql: &str) -> bool {
    let mut words = sql.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let mut has = |name: &str| words.any(|word| word.eq_ignore_ascii_case(name));
    has("CREATE") && has("BEGIN")
}
