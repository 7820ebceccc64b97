//! SQLite behind a URL.
//!
//! SQLite is called on the caller's own thread, so asynchronous reads go over a bounded bridge: a
//! few threads, each of which borrows from the engine's own pool of reading connections. The pool
//! stays below it, because a blocking read needs no second thread, and may borrow what its caller
//! owns, which a call that is sent to a thread may not.

use std::{convert::Infallible, error::Error as StdError, sync::Arc, thread};

use groupcommit_bridge::{Bridge, Connect, Failure as BridgeFailure, Limits as BridgeLimits};
use groupcommit_sqlite::{
    Database, Error as SqliteError, Part, Transaction, read_each, run_statement, rusqlite,
};
use tokio::sync::mpsc;

use super::{
    Error, Kind, Options, Rows, Settled, Statement, StatementResult, Value, kind,
    rows::Inner,
    speak::{OnceFailure, Plan, Results, Speak},
    url,
};
use crate::{Failure, NotRun, Once, Rejected, Terms, Token, TokenRecord, Unknown};

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

/// Sends the read, and then only says how it ended.
type Reading =
    std::pin::Pin<Box<dyn Future<Output = Result<(), BridgeFailure<Infallible>>> + Send>>;

/// The rows that a thread of the bridge reads, a few ahead.
pub(super) struct SqliteRows {
    pub(super) columns: Vec<String>,
    parts: mpsc::Receiver<Result<Part, Failure<Error>>>,
    /// Until it has ended.
    reading: Option<Reading>,
}

impl SqliteRows {
    async fn part(&mut self) -> Result<Option<Part>, Failure<Error>> {
        let Self { parts, reading, .. } = self;
        // Polled first, since that is what has the thread begin.
        let part = std::future::poll_fn(|cx| {
            if let Some(running) = reading
                && let std::task::Poll::Ready(ended) = running.as_mut().poll(cx)
            {
                *reading = None;
                if let Err(failure) = ended {
                    return std::task::Poll::Ready(Some(Err(not_read(failure))));
                }
            }
            parts.poll_recv(cx)
        });
        part.await.transpose()
    }

    pub(super) async fn next(&mut self) -> Result<Option<Vec<Value>>, Error> {
        match self.part().await {
            Ok(Some(Part::Row(row))) => Ok(Some(row)),
            Ok(_) => Ok(None),
            Err(failure) => {
                Err(Error::of_failure(&failure).unwrap_or_else(|| Error::from_engine(failure)))
            }
        }
    }
}

fn not_read(failure: BridgeFailure<Infallible>) -> Failure<Error> {
    match failure {
        BridgeFailure::Closed => Failure::NotRun(NotRun::Closed),
        BridgeFailure::Panicked(message) => Failure::Rejected(Rejected::Panicked(message)),
        other => Failure::NotRun(NotRun::Unavailable(Arc::new(other))),
    }
}

/// The kind and the code, of an error of SQLite's engine or client.
pub(super) fn classify(error: &(dyn StdError + 'static)) -> Option<(Kind, Option<String>)> {
    if let Some(error) = error.downcast_ref::<rusqlite::Error>() {
        return Some(of_client(error));
    }
    Some(match error.downcast_ref::<SqliteError>()? {
        SqliteError::FolderMissing(_) | SqliteError::Missing(_) => (Kind::Unreachable, None),
        SqliteError::ReadOnly(_) => (Kind::ReadOnly, None),
        SqliteError::Held { source, .. } => (Kind::Busy, of_client(source).1),
        SqliteError::NotRecovered(_) => (Kind::Busy, None),
        SqliteError::DiskFull { source, .. } => (Kind::Resources, of_client(source).1),
        SqliteError::RollbackJournal { .. }
        | SqliteError::NotAFile
        | SqliteError::FileSystem { .. }
        | SqliteError::SqliteTooOld { .. } => (Kind::Undurable, None),
        SqliteError::NotADatabase(_)
        | SqliteError::LogReplaced(_)
        | SqliteError::ExclusiveIo(_)
        | SqliteError::Io { .. } => (Kind::Storage, None),
        SqliteError::ForeignKey => (Kind::ForeignKey, None),
        SqliteError::ConfigurationChanged | SqliteError::LeftOpen => (Kind::Forbidden, None),
        SqliteError::Sqlite { source, .. } => of_client(source),
        SqliteError::Close { source } => super::error::classify(source.as_ref()),
        _ => (Kind::Other, None),
    })
}

fn of_client(error: &rusqlite::Error) -> (Kind, Option<String>) {
    use rusqlite::Error as Said;
    let (failure, message) = match error {
        Said::SqliteFailure(failure, message) => (failure, message.as_deref().unwrap_or_default()),
        Said::SqlInputError { error, msg, .. } => (error, msg.as_str()),
        Said::InvalidParameterCount(..) | Said::InvalidParameterName(_) => {
            return (Kind::Parameters, None);
        }
        Said::MultipleStatement => return (Kind::Statement, None),
        Said::ToSqlConversionFailure(_) | Said::NulError(_) => return (Kind::Value, None),
        Said::FromSqlConversionFailure(..) | Said::InvalidColumnType(..) | Said::Utf8Error(..) => {
            return (Kind::Column, None);
        }
        _ => return (Kind::Other, None),
    };
    let code = failure.extended_code;
    (kind::of_sqlite(code, message), Some(code.to_string()))
}
