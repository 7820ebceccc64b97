//! The database as a caller sees it, whichever it is.

use std::{convert::Infallible, fmt};

use super::{
    Engine, Error, Rows, Settled, Statement, StatementResult, StatementsFailure, StatementsOutcome,
    StatementsTicket,
    speak::{Plan, Speak},
};
use crate::{
    Failure, Limits, Once, OnceError, Stats, Terms, Tickets, Token, TokenLimits, TokenRecord,
    Unknown,
};

/// A database that speaks SQL, opened by a URL. Cheap to clone; clones are the same database.
///
/// A transaction is plain data: statements with their parameters, which run in turn, all or none.
/// What only one engine has (closures, a connection of its own) is reached through that engine's
/// own `Database`.
///
/// Dropping the last clone stops admission and lets what was admitted finish in the background;
/// [`close`](Self::close) waits for it.
///
/// # Durability
///
/// A ticket resolves to `Ok` only when the transaction is committed and durable, as the engine's
/// own `Database` says what that is.
#[derive(Clone)]
pub struct Database {
    opened: Opened,
    terms: Terms,
}

#[derive(Clone)]
enum Opened {
    #[cfg(feature = "sqlite")]
    Sqlite(super::sqlite::Sqlite),
    #[cfg(feature = "mysql")]
    Mysql(super::remote::Remote<groupcommit_mysql::MySql>),
    #[cfg(feature = "postgres")]
    Postgres(super::remote::Remote<groupcommit_postgres::Postgres>),
}

/// Does the same with whichever engine it is.
macro_rules! with {
    ($database:expr, $engine:ident => $run:expr) => {
        match &$database.opened {
            #[cfg(feature = "sqlite")]
            Opened::Sqlite($engine) => $run,
            #[cfg(feature = "mysql")]
            Opened::Mysql($engine) => $run,
            #[cfg(feature = "postgres")]
            Opened::Postgres($engine) => $run,
        }
    };
}

/// How to open a database otherwise than [`Database::connect`] does.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub(super) limits: Option<Limits>,
    pub(super) readers: Option<usize>,
    pub(super) tokens: Option<TokenLimits>,
}

impl Options {
    /// How much may be in flight at once.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// How many connections asynchronous reads share, however many read at once: on a server all
    /// reads.
    #[must_use]
    pub fn readers(mut self, connections: usize) -> Self {
        self.readers = Some(connections.max(1));
        self
    }

    /// How long the tokens of [`transact_once`](Database::transact_once) are kept, and how many. A server
    /// keeps them only where this is given: opening then creates the table `_groupcommit_tokens`.
    #[must_use]
    pub fn tokens(mut self, limits: TokenLimits) -> Self {
        self.tokens = Some(limits);
        self
    }

    /// Opens the database at `url`; see [`Database::connect`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn connect(&self, url: &str) -> Result<Database, Error> {
        let opened = match Engine::of_url(url)? {
            #[cfg(feature = "sqlite")]
            Engine::Sqlite => Opened::Sqlite(super::sqlite::Sqlite::connect(url, self)?),
            #[cfg(feature = "mysql")]
            Engine::Mysql => {
                Opened::Mysql(super::remote::Remote::connect(&super::url::as_mysql(url), self)?)
            }
            #[cfg(feature = "postgres")]
            Engine::Postgres => Opened::Postgres(super::remote::Remote::connect(url, self)?),
            #[cfg(not(all(feature = "sqlite", feature = "mysql", feature = "postgres")))]
            engine => {
                return Err(Error::url(format!(
                    "this program was built without {engine}; add the feature `{engine}` of groupcommit"
                )));
            }
        };
        Ok(Database { opened, terms: Terms::new() })
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("engine", &self.engine()).finish_non_exhaustive()
    }
}

impl Database {
    /// Opens the database at `url`: a file is created if it is missing; a server is connected to.
    ///
    /// # Errors
    ///
    /// What keeps the database from being used so that every promise holds.
    pub fn connect(url: &str) -> Result<Self, Error> {
        Options::default().connect(url)
    }

    /// How to open a database otherwise than [`Database::connect`] does.
    #[must_use]
    pub fn options() -> Options {
        Options::default()
    }

    /// Which engine it is.
    #[must_use]
    pub fn engine(&self) -> Engine {
        match &self.opened {
            #[cfg(feature = "sqlite")]
            Opened::Sqlite(_) => Engine::Sqlite,
            #[cfg(feature = "mysql")]
            Opened::Mysql(_) => Engine::Mysql,
            #[cfg(feature = "postgres")]
            Opened::Postgres(_) => Engine::Postgres,
        }
    }

    /// The engine's own database, where it is SQLite: for closures.
    #[cfg(feature = "sqlite")]
    #[must_use]
    pub fn as_sqlite(&self) -> Option<&crate::sqlite::Database> {
        match &self.opened {
            Opened::Sqlite(engine) => Some(engine.database()),
            #[cfg(feature = "_remote")]
            _ => None,
        }
    }

    /// Reasons to doubt what a commit promises here, as sentences; none as it is installed.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        with!(self, engine => engine.warnings())
    }

    /// The same database, for transactions under `terms`. What statements hold in memory is added to
    /// [`Terms::bytes`].
    #[must_use]
    pub fn with(&self, terms: Terms) -> Self {
        Self { opened: self.opened.clone(), terms }
    }

    /// Submits a transaction and returns its ticket at once: its statements run in turn, all or
    /// none. Blocks only while admission is full ([`Limits`]).
    pub fn submit(&self, statements: Vec<Statement>) -> StatementsTicket {
        with!(self, engine => {
            let (terms, plan) = self.prepared(engine, statements);
            engine.database().with(terms).submit(plan)
        })
    }

    /// As [`submit`](Self::submit), waiting for admission without blocking.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready submits nothing.
    pub async fn submit_async(&self, statements: Vec<Statement>) -> StatementsTicket {
        with!(self, engine => {
            let (terms, plan) = self.prepared(engine, statements);
            engine.database().with(terms).submit_async(plan).await
        })
    }

    /// As [`submit`](Self::submit), but refuses instead of waiting for room.
    ///
    /// # Errors
    ///
    /// [`NotRun`](crate::NotRun), as why it was not admitted.
    pub fn try_submit(
        &self,
        statements: Vec<Statement>,
    ) -> Result<StatementsTicket, crate::NotRun> {
        with!(self, engine => {
            let (terms, plan) = self.prepared(engine, statements);
            engine.database().with(terms).try_submit(plan).map_err(|refused| refused.reason)
        })
    }

    /// Runs a transaction and blocks until it is durable.
    ///
    /// # Errors
    ///
    /// The [`Failure`] that it came to.
    pub fn transact(&self, statements: Vec<Statement>) -> StatementsOutcome {
        with!(self, engine => {
            let (terms, plan) = self.prepared(engine, statements);
            engine.database().with(terms).transact(plan)
        })
    }

    /// Runs a transaction and returns, without blocking, when it is durable.
    ///
    /// # Errors
    ///
    /// The [`Failure`] that it came to.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before the transaction is admitted submits nothing. Afterwards the
    /// transaction goes on, and its outcome is discarded.
    pub async fn transact_async(&self, statements: Vec<Statement>) -> StatementsOutcome {
        self.submit_async(statements).await.await
    }

    /// As [`submit`](Self::submit), with a callback in place of a ticket; it is called once, off
    /// the critical path.
    pub fn submit_then(
        &self,
        statements: Vec<Statement>,
        callback: impl FnOnce(StatementsOutcome) + Send + 'static,
    ) {
        with!(self, engine => {
            let (terms, plan) = self.prepared(engine, statements);
            engine.database().with(terms).submit_then(plan, callback);
        });
    }

    /// Submits many transactions at once, each with an outcome of its own, and one
    /// wake-up of the task that waits for all. Blocks as [`submit`](Self::submit) does.
    pub fn submit_many(
        &self,
        transactions: impl IntoIterator<Item = Vec<Statement>>,
    ) -> Tickets<Vec<StatementResult>, Error> {
        with!(self, engine => {
            let (terms, plans) = self.prepared_many(engine, transactions);
            engine.database().with(terms).submit_many(plans)
        })
    }

    /// As [`submit_many`](Self::submit_many), waiting for admission without blocking.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready discards the tickets; those of the transactions that
    /// had room are submitted.
    pub async fn submit_many_async(
        &self,
        transactions: impl IntoIterator<Item = Vec<Statement>>,
    ) -> Tickets<Vec<StatementResult>, Error> {
        with!(self, engine => {
            let (terms, plans) = self.prepared_many(engine, transactions);
            engine.database().with(terms).submit_many_async(plans).await
        })
    }

    /// As [`submit_many`](Self::submit_many), with one callback for all in place of the tickets.
    pub fn submit_many_then(
        &self,
        transactions: impl IntoIterator<Item = Vec<Statement>>,
        callback: impl FnOnce(Vec<StatementsOutcome>) + Send + 'static,
    ) {
        with!(self, engine => {
            let (terms, plans) = self.prepared_many(engine, transactions);
            engine.database().with(terms).submit_many_then(plans, callback);
        });
    }

    /// As [`transact_async`](Self::transact_async), but the transaction takes effect once however
    /// often it is submitted under `token`; see [`Submitter::once`](crate::Submitter::once). What
    /// `encode` makes of its results is kept with the token. On a server it is
    /// [`NotRun::Unavailable`](crate::NotRun::Unavailable) unless the database was opened with
    /// [`Options::tokens`].
    ///
    /// # Errors
    ///
    /// The [`Failure`] that the transaction came to.
    ///
    /// # Cancel safety
    ///
    /// As of [`transact_async`](Self::transact_async).
    pub async fn transact_once(
        &self,
        token: Token,
        statements: Vec<Statement>,
        encode: impl Fn(&[StatementResult]) -> Vec<u8> + Send + 'static,
    ) -> Result<Once, Failure<OnceError<Error>>> {
        let terms = self.terms.bytes(bytes_of(&statements));
        with!(self, engine => engine.transact_once(terms, token, statements, encode).await)
    }

    /// What became of the transaction with the token of this id; see
    /// [`Submitter::outcome_of`](crate::Submitter::outcome_of).
    ///
    /// # Errors
    ///
    /// The [`Failure`] of looking for it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is safe.
    pub async fn outcome_of(
        &self,
        id: &[u8],
    ) -> Result<Option<TokenRecord>, Failure<OnceError<Infallible>>> {
        with!(self, engine => engine.outcome_of(id).await)
    }

    /// Runs statements alone, between groups and outside any transaction, each committing by
    /// itself: for what cannot share a transaction, such as `VACUUM`.
    ///
    /// # Durability
    ///
    /// When it returns `Ok`, everything that they committed is durable.
    ///
    /// # Errors
    ///
    /// What the first came to that failed. What those before it committed stays.
    pub fn exclusive(
        &self,
        statements: Vec<Statement>,
    ) -> Result<Vec<StatementResult>, StatementsFailure> {
        with!(self, engine => engine.exclusive(statements))
    }

    /// Runs one statement that only reads, in a snapshot of its own, and blocks until its rows are
    /// here.
    ///
    /// Sees every transaction whose ticket resolved before the call, and possibly some that are
    /// committed and not yet durable; [`read_durable`](Self::read_durable) waits until they are.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub fn read(&self, read: &Statement) -> Result<StatementResult, StatementsFailure> {
        with!(self, engine => engine.read(read))
    }

    /// As [`read`](Self::read), without blocking, and over a bounded number of connections however
    /// many read at once.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future discards the rows; the database may still run the statement.
    pub async fn read_async(&self, read: &Statement) -> Result<StatementResult, StatementsFailure> {
        with!(self, engine => engine.read_async(read).await)
    }

    /// As [`read_async`](Self::read_async), and hands out the rows as they arrive.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// As there.
    pub async fn read_rows(&self, read: &Statement) -> Result<Rows, StatementsFailure> {
        with!(self, engine => engine.read_rows(read).await)
    }

    /// As [`read`](Self::read), and returns when nothing that it saw can be lost any more.
    ///
    /// # Errors
    ///
    /// As there, and when it could not be made durable.
    pub fn read_durable(&self, read: &Statement) -> Result<StatementResult, StatementsFailure> {
        with!(self, engine => engine.read_durable(read))
    }

    /// Settles an outcome that was [unknown](crate::Failure::Unknown), here or before the database was
    /// opened again, from the database's own record. `None` where there is no such record, as of
    /// SQLite: there, what a database opened again holds is the answer.
    ///
    /// # Errors
    ///
    /// When the database has a record and cannot be asked.
    pub fn settle(&self, unknown: &Unknown) -> Result<Option<Settled>, Error> {
        with!(self, engine => engine.resolve(unknown))
    }

    /// Blocks until everything submitted before this call is resolved.
    ///
    /// # Errors
    ///
    /// When a commit or a flush failed, now or before.
    pub fn flush(&self) -> Result<(), StatementsFailure> {
        with!(self, engine => engine.flush())
    }

    /// What the database has done since it was opened.
    #[must_use]
    pub fn stats(&self) -> Stats {
        with!(self, engine => engine.database().stats())
    }

    /// Stops admission, waits until everything admitted is resolved and every callback has returned,
    /// and closes the database. Inside a callback it does not wait for callbacks.
    /// Other clones then refuse everything.
    ///
    /// # Errors
    ///
    /// When a commit or a flush had failed.
    pub fn close(&self) -> Result<(), Error> {
        with!(self, engine => engine.close())
    }

    fn prepared<S: Speak>(
        &self,
        _: &S,
        statements: Vec<Statement>,
    ) -> (Terms, impl Plan<S> + use<S>) {
        (self.terms.bytes(bytes_of(&statements)), S::plan(statements))
    }

    /// All have the same terms, so each is charged the mean of their bytes.
    fn prepared_many<S: Speak, I: IntoIterator<Item = Vec<Statement>>>(
        &self,
        _: &S,
        transactions: I,
    ) -> (Terms, Vec<impl Plan<S> + use<S, I>>) {
        let mut bytes = 0;
        let plans = transactions.into_iter().map(|statements| {
            bytes += bytes_of(&statements);
            S::plan(statements)
        });
        let plans: Vec<_> = plans.collect();
        (self.terms.bytes(bytes.div_ceil(plans.len().max(1))), plans)
    }
}

fn bytes_of(statements: &[Statement]) -> usize {
    statements.iter().map(Statement::bytes).sum()
}
