//! PostgreSQL behind a URL.

use std::{error::Error as StdError, sync::Arc};

use groupcommit_postgres::{Database, Error as PostgresError, Exclusive, tokio_postgres};

use super::{
    Error, Kind, Options, Rows, Settled, Statement, StatementResult, kind,
    rows::Inner,
    speak::{Plan, Results, Speak},
};
use crate::{Failure, Unknown};

#[derive(Clone)]
pub(super) struct Postgres(Database);

impl Postgres {
    pub(super) fn connect(url: &str, options: &Options) -> Result<Self, Error> {
        let mut settings = Database::options();
        if let Some(limits) = options.limits {
            settings = settings.limits(limits);
        }
        if let Some(readers) = options.readers {
            settings = settings.readers(readers);
        }
        settings.open(url).map(Self).map_err(Error::from_engine)
    }
}

impl Speak for Postgres {
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
        Ok(Rows::new(Inner::Postgres(rows)))
    }

    fn read_durable(&self, read: &Statement) -> Result<StatementResult, Failure<Error>> {
        self.0.read_durable(read).map_err(Error::from_failure)
    }

    fn exclusive(&self, statements: Vec<Statement>) -> Result<Results, Failure<Error>> {
        let run = move |alone: &mut Exclusive| {
            statements.iter().map(|statement| alone.run(statement)).collect()
        };
        self.0.exclusive::<Results, PostgresError, _>(run).map_err(Error::from_failure)
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

/// The kind and the code, of an error of PostgreSQL's engine or client.
pub(super) fn classify(error: &(dyn StdError + 'static)) -> Option<(Kind, Option<String>)> {
    if let Some(error) = error.downcast_ref::<tokio_postgres::Error>() {
        return Some(of_client(error));
    }
    Some(match error.downcast_ref::<PostgresError>()? {
        PostgresError::Url(_) => (Kind::Url, None),
        PostgresError::Connect { source, .. } => of_connecting(source.as_ref()),
        PostgresError::Setting { .. } | PostgresError::TooOld { .. } => (Kind::Undurable, None),
        PostgresError::ReadOnly(_) => (Kind::ReadOnly, None),
        PostgresError::Server(error) => of_client(error),
        PostgresError::Forbidden(_) | PostgresError::LeftOpen => (Kind::Forbidden, None),
        PostgresError::Nul => (Kind::Statement, None),
        PostgresError::Parameters { .. } => (Kind::Parameters, None),
        PostgresError::Column { .. } => (Kind::Column, None),
        PostgresError::Interrupted => (Kind::Conflict, None),
        PostgresError::Lost(_) | PostgresError::Unsettled(_) => (Kind::Lost, None),
        PostgresError::Runtime(_) => (Kind::Resources, None),
        PostgresError::Tls(_) => (Kind::Unreachable, None),
        PostgresError::Close { source } => super::error::classify(source.as_ref()),
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

fn of_client(error: &tokio_postgres::Error) -> (Kind, Option<String>) {
    match error.code() {
        Some(state) => (kind::of_sqlstate(state.code()), Some(state.code().to_owned())),
        None => (Kind::Lost, None),
    }
}
