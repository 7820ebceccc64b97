//! MySQL and MariaDB behind a URL.

use std::{error::Error as StdError, sync::Arc};

use groupcommit_mysql::{Database, Error as MysqlError, Exclusive, mysql_async};

use super::{
    Error, Kind, Options, Rows, Settled, Statement, StatementResult, kind,
    rows::Inner,
    speak::{Plan, Results, Speak},
    url,
};
use crate::{Failure, Unknown};

#[derive(Clone)]
pub(super) struct Mysql(Database);

impl Mysql {
    pub(super) fn connect(address: &str, options: &Options) -> Result<Self, Error> {
        let mut settings = Database::options();
        if let Some(limits) = options.limits {
            settings = settings.limits(limits);
        }
        if let Some(readers) = options.readers {
            settings = settings.readers(readers);
        }
        settings.open(&url::as_mysql(address)).map(Self).map_err(Error::from_engine)
    }
}

impl Speak for Mysql {
    type Submit = Database;

    fn database(&self) -> &Database {
        &self.0
    }

    fn plan(statements: Arc<[Statement]>) -> impl Plan<Self> {
        move |tx| tx.plan(&statements).map_err(Error::from_engine)
    }

    fn read(&self, read: &Statement) -> Result<StatementResult, Failure<Error>> {
        self.0.read(read).map_err(Error::from_failure)
    }

    async fn read_async(&self, read: &Statement) -> Result<StatementResult, Failure<Error>> {
        self.0.read_async(read).await.map_err(Error::from_failure)
    }

    async fn read_rows(&self, read: &Statement) -> Result<Rows, Failure<Error>> {
        let rows = self.0.read_rows(read).await.map_err(Error::from_failure)?;
        Ok(Rows::new(Inner::Mysql(rows)))
    }

    fn read_durable(&self, read: &Statement) -> Result<StatementResult, Failure<Error>> {
        self.0.read_durable(read).map_err(Error::from_failure)
    }

    fn exclusive(&self, statements: Vec<Statement>) -> Result<Results, Failure<Error>> {
        let run = move |alone: &mut Exclusive| {
            statements.iter().map(|statement| alone.run(statement)).collect()
        };
        self.0.exclusive::<Results, MysqlError, _>(run).map_err(Error::from_failure)
    }

    fn resolve(&self, unknown: &Unknown) -> Result<Option<Settled>, Error> {
        self.0.resolve(unknown).map_err(Error::from_engine)
    }

    fn warnings(&self) -> Vec<String> {
        self.0.warnings().iter().map(ToString::to_string).collect()
    }

    fn flush(&self) -> Result<(), Failure<Error>> {
        self.0.flush().map_err(Error::from_failure)
    }

    fn close(&self) -> Result<(), Error> {
        self.0.close().map_err(Error::from_engine)
    }
}

/// The kind and the code, of an error of MySQL's engine or client.
pub(super) fn classify(error: &(dyn StdError + 'static)) -> Option<(Kind, Option<String>)> {
    if let Some(error) = error.downcast_ref::<mysql_async::Error>() {
        return Some(of_client(error));
    }
    Some(match error.downcast_ref::<MysqlError>()? {
        MysqlError::Url(_) => (Kind::Url, None),
        MysqlError::Connect { source, .. } => of_connecting(source.as_ref()),
        MysqlError::Setting { .. } => (Kind::Undurable, None),
        MysqlError::ReadOnly(_) => (Kind::ReadOnly, None),
        MysqlError::Server(error) => of_client(error),
        MysqlError::Forbidden(_) | MysqlError::Ended | MysqlError::LeftOpen => {
            (Kind::Forbidden, None)
        }
        MysqlError::Several | MysqlError::Unfinished(_) => (Kind::Statement, None),
        MysqlError::Parameters { .. } => (Kind::Parameters, None),
        MysqlError::Value(_) | MysqlError::TooLarge { .. } => (Kind::Value, None),
        MysqlError::Interrupted => (Kind::Conflict, None),
        MysqlError::Lost(_) | MysqlError::Unsettled(_) => (Kind::Lost, None),
        MysqlError::Runtime(_) => (Kind::Resources, None),
        MysqlError::Tls(_) => (Kind::Unreachable, None),
        MysqlError::Close { source } => super::error::classify(source.as_ref()),
        _ => (Kind::Other, None),
    })
}

/// Who was not let in was at least answered.
fn of_connecting(error: &(dyn StdError + 'static)) -> (Kind, Option<String>) {
    match classify(error) {
        Some((kind, Some(code))) => (kind, Some(code)),
        _ => (Kind::Unreachable, None),
    }
}

fn of_client(error: &mysql_async::Error) -> (Kind, Option<String>) {
    match error {
        mysql_async::Error::Server(said) => {
            (kind::of_mysql(said.code, &said.state), Some(said.code.to_string()))
        }
        _ => (Kind::Lost, None),
    }
}
