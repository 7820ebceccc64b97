//! SQLite behind a URL.
//!
//! SQLite is called on the caller's own thread, so asynchronous reads go over a bounded bridge: a
//! few threads, each of which borrows from the engine's own pool of reading connections. The pool
//! stays below it, because a blocking read needs no second thread, and may borrow what its caller
//! owns, which a call that is sent to a thread may not.

use std::{convert::Infallible, sync::Arc, thread};

use groupcommit_bridge::{Bridge, Connect, Limits as BridgeLimits};
use groupcommit_sqlite::{Database, Part, Transaction, read_each, run_statement, rusqlite};
use tokio::sync::mpsc;

use super::{
    Error, Options, Rows, Settled, Statement, StatementResult,
    rows::Inner,
    speak::{OnceFailure, Plan, Results, Speak},
    sqlite_rows::{SqliteRows, not_read},
    url,
};
use crate::{Failure, Once, Terms, Token, TokenRecord, Unknown};

/// Rows that are read ahead of who takes them.
const ROWS_AHEAD: usize = 64;

#[derive(Clone)]
pub(super) struct Sqlite {
    database: Database,
    reads: Bridge<Reads>,
}

/// What a thread of the bridge reads with.
struct Reads(Database);

impl Connect for Reads {
    type Connection = Database;
    type Error = Infallible;

    fn connect(&self) -> Result<Database, Infallible> {
        Ok(self.0.clone())
    }
}

impl Sqlite {
    pub(super) fn connect(url: &str, options: &Options) -> Result<Self, Error> {
        let url = url::parse_sqlite(url)?;
        let mut settings =
            Database::options().create(url.create).convert_to_wal(url.convert_to_wal);
        if let Some(limits) = options.limits {
            settings = settings.limits(limits);
        }
        if let Some(limits) = options.tokens {
            settings = settings.tokens(limits);
        }
        if let Some(timeout) = url.busy_timeout {
            settings = settings.busy_timeout(timeout);
        }
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let connections = options.readers.unwrap_or(cores).max(1);
        // A thread of the bridge that has a call has a connection for it.
        let settings = settings.readers_at_least(connections);
        let database = settings.open(&url.path).map_err(Error::from_engine)?;
        let limits = BridgeLimits { connections, ..BridgeLimits::default() };
        let reads = Bridge::new(Reads(database.clone()), limits);
        Ok(Self { database, reads })
    }
}

impl Speak for Sqlite {
    type Submit = Database;

    fn database(&self) -> &Database {
        &self.database
    }

    fn plan(statements: Vec<Statement>) -> impl Plan<Self> {
        move |tx| tx.run(&statements).map_err(Error::from_engine)
    }

    async fn transact_once(
        &self,
        terms: Terms,
        token: Token,
        statements: Vec<Statement>,
        encode: impl Fn(&[StatementResult]) -> Vec<u8> + Send + 'static,
    ) -> Result<Once, OnceFailure<Error>> {
        let run = move |tx: &mut Transaction<'_>| {
            let results = tx.run(&statements).map_err(Error::from_engine)?;
            Ok(encode(&results))
        };
        self.database.with(terms).transact_async(self.database.once(token, run)).await
    }

    async fn outcome_of(&self, id: &[u8]) -> Result<Option<TokenRecord>, OnceFailure<Infallible>> {
        self.database.outcome_of_async(id).await
    }

    fn read(&self, read: &Statement) -> Result<StatementResult, Failure<Error>> {
        self.database
            .read(|connection| run_statement(connection, read))
            .map_err(Error::from_failure)
    }

    /// In one piece: each hand-over between two threads may have to wait until another thread's time
    /// on a processor is over, so there is one to the bridge and one back, however many rows there are.
    async fn read_async(&self, read: &Statement) -> Result<StatementResult, Failure<Error>> {
        let read = read.clone();
        let wanted = Arc::new(());
        let is_wanted = Arc::downgrade(&wanted);
        let reading = self.reads.call(move |database: &mut Database| {
            let mut result = StatementResult::default();
            let collect = |part| {
                match part {
                    Part::Columns(names) => result.columns = names,
                    Part::Row(row) => result.rows.push(row),
                }
                is_wanted.strong_count() > 0
            };
            database
                .read(|connection| read_each(connection, &read, collect))
                .map_err(Error::from_failure)?;
            Ok(result)
        });
        let read = reading.await.unwrap_or_else(|failure| Err(not_read(failure)));
        drop(wanted);
        read
    }

    async fn read_rows(&self, read: &Statement) -> Result<Rows, Failure<Error>> {
        let (sender, parts) = mpsc::channel(ROWS_AHEAD);
        let read = read.clone();
        let reading = self.reads.call(move |database: &mut Database| {
            let send = |part| sender.blocking_send(part).is_ok();
            let result =
                database.read(|connection| read_each(connection, &read, |part| send(Ok(part))));
            if let Err(failure) = result {
                // Nobody may be there to take it.
                send(Err(Error::from_failure(failure)));
            }
        });
        let mut rows = SqliteRows { columns: Vec::new(), parts, reading: Some(Box::pin(reading)) };
        if let Some(Part::Columns(names)) = rows.part().await? {
            rows.columns = names;
        }
        Ok(Rows::new(Inner::Sqlite(rows)))
    }

    fn read_durable(&self, read: &Statement) -> Result<StatementResult, Failure<Error>> {
        self.database
            .read_durable(|connection| run_statement(connection, read))
            .map_err(Error::from_failure)
    }

    fn exclusive(&self, statements: Vec<Statement>) -> Result<Results, Failure<Error>> {
        let run = move |connection: &rusqlite::Connection| {
            statements.iter().map(|statement| run_statement(connection, statement)).collect()
        };
        self.database.exclusive::<Results, rusqlite::Error, _>(run).map_err(Error::from_failure)
    }

    /// Opening the file again recovers it, and shows what is there.
    fn resolve(&self, _: &Unknown) -> Result<Option<Settled>, Error> {
        Ok(None)
    }

    fn warnings(&self) -> Vec<String> {
        self.database.warnings().iter().map(ToString::to_string).collect()
    }

    fn flush(&self) -> Result<(), Failure<Error>> {
        self.database.flush().map_err(Error::from_failure)
    }

    fn close(&self) -> Result<(), Error> {
        // Not waited for: rows that nobody takes any more would keep it for ever.
        self.reads.stop();
        self.database.close().map_err(Error::from_engine)
    }
}
