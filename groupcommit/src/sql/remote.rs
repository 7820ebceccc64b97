//! A database on a server behind a URL: PostgreSQL and MySQL.

use std::{convert::Infallible, error::Error as StdError, sync::Arc};

use groupcommit_remote::{
    Database, Error as RemoteError, Exclusive, Protocol, Rows as RemoteRows, Transaction,
};

use super::{
    Error, Options, Rows, Settled, Statement, StatementResult,
    rows::Inner,
    speak::{OnceFailure, Plan, Results, Speak},
};
use crate::{Failure, NotRun, Once, Terms, Token, TokenRecord, Unknown};

/// A protocol whose rows are told apart.
pub(super) trait Client: Protocol {
    /// The rows, told apart.
    fn rows(rows: RemoteRows<Self>) -> Inner;
}

#[cfg(feature = "postgres")]
impl Client for groupcommit_postgres::Postgres {
    fn rows(rows: RemoteRows<Self>) -> Inner {
        Inner::Postgres(rows)
    }
}

#[cfg(feature = "mysql")]
impl Client for groupcommit_mysql::MySql {
    fn rows(rows: RemoteRows<Self>) -> Inner {
        Inner::Mysql(rows)
    }
}

#[derive(Clone)]
pub(super) struct Remote<P: Client> {
    database: Database<P>,
    keeps_tokens: bool,
}

impl<P: Client> Remote<P> {
    pub(super) fn connect(url: &str, options: &Options) -> Result<Self, Error> {
        let mut settings = Database::options();
        if let Some(limits) = options.limits {
            settings = settings.limits(limits);
        }
        if let Some(readers) = options.readers {
            settings = settings.readers(readers);
        }
        if let Some(limits) = options.tokens {
            settings = settings.tokens(limits);
        }
        let database = settings.open(url).map_err(Error::from_engine)?;
        Ok(Self { database, keeps_tokens: options.tokens.is_some() })
    }
}

impl<P: Client> Speak for Remote<P> {
    type Submit = Database<P>;

    fn database(&self) -> &Database<P> {
        &self.database
    }

    fn plan(statements: Vec<Statement>) -> impl Plan<Self> {
        let statements: Arc<[Statement]> = statements.into();
        move |tx| tx.plan(&statements).map_err(Error::from_engine)
    }

    async fn transact_once(
        &self,
        terms: Terms,
        token: Token,
        statements: Vec<Statement>,
        encode: impl Fn(&[StatementResult]) -> Vec<u8> + Send + 'static,
    ) -> Result<Once, OnceFailure<Error>> {
        if !self.keeps_tokens {
            return Err(no_tokens());
        }
        let run = move |tx: &mut Transaction<'_, P>| {
            let results = tx.run(&statements).map_err(Error::from_engine)?;
            Ok(encode(&results))
        };
        self.database.with(terms).transact_async(self.database.once(token, run)).await
    }

    async fn outcome_of(&self, id: &[u8]) -> Result<Option<TokenRecord>, OnceFailure<Infallible>> {
        if !self.keeps_tokens {
            return Err(no_tokens());
        }
        self.database.outcome_of_async(id).await
    }

    fn read(&self, read: &Statement) -> Result<StatementResult, Failure<Error>> {
        self.database.read(read).map_err(Error::from_failure)
    }

    async fn read_async(&self, read: &Statement) -> Result<StatementResult, Failure<Error>> {
        self.database.read_async(read).await.map_err(Error::from_failure)
    }

    async fn read_rows(&self, read: &Statement) -> Result<Rows, Failure<Error>> {
        let rows = self.database.read_rows(read).await.map_err(Error::from_failure)?;
        Ok(Rows::new(P::rows(rows)))
    }

    fn read_durable(&self, read: &Statement) -> Result<StatementResult, Failure<Error>> {
        self.database.read_durable(read).map_err(Error::from_failure)
    }

    fn exclusive(&self, statements: Vec<Statement>) -> Result<Results, Failure<Error>> {
        let run = move |alone: &mut Exclusive<P>| {
            statements.iter().map(|statement| alone.run(statement)).collect()
        };
        self.database.exclusive::<Results, RemoteError<P>, _>(run).map_err(Error::from_failure)
    }

    fn resolve(&self, unknown: &Unknown) -> Result<Option<Settled>, Error> {
        self.database.resolve(unknown).map_err(Error::from_engine)
    }

    fn warnings(&self) -> Vec<String> {
        self.database.warnings().iter().map(ToString::to_string).collect()
    }

    fn flush(&self) -> Result<(), Failure<Error>> {
        self.database.flush().map_err(Error::from_failure)
    }

    fn close(&self) -> Result<(), Error> {
        self.database.close().map_err(Error::from_engine)
    }
}

fn no_tokens<E>() -> OnceFailure<E> {
    let message = "to keep tokens on a server, open the database with `Options::tokens`";
    Failure::NotRun(NotRun::Unavailable(Arc::from(Box::<dyn StdError + Send + Sync>::from(
        message,
    ))))
}
