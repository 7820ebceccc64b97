//! One connection: what is prepared on it, and the requests that travel over it.

use std::{
    collections::HashMap,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use futures_util::TryStreamExt as _;
use groupcommit_remote::runtime::Driver;
use tokio_postgres::{
    AsyncMessage, Client, Connection, SimpleQueryMessage, Statement as Prepared,
    error::{DbError, Severity, SqlState},
};

use crate::{
    Error, Statement, StatementResult, Value,
    value::{Bound, Column, has_place_for},
};

/// Prepared statements that one connection keeps, and the bytes of their texts; with more the cache
/// starts anew.
const PREPARED_MAX: usize = 500;
const PREPARED_BYTES_MAX: usize = 8 << 20;

/// The scope in which a transaction's number means one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct History {
    /// The cluster and its timeline.
    pub(crate) cluster: String,
    /// When the connection began, by the server's clock.
    pub(crate) began: String,
    /// When the server last reset its statistics, which it does after a crash.
    pub(crate) reset: String,
}

/// What was found out about the server on connecting.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate fact")]
pub(crate) struct Server {
    pub(crate) history: History,
    pub(crate) process: Process,
    /// `synchronous_commit` as it was found, which is put back before every commit.
    pub(crate) synchronous_commit: String,
    pub(crate) full_page_writes: bool,
    /// A commit waits for other servers.
    pub(crate) is_replicated: bool,
    /// Constraints that are checked at the commit unless told otherwise, ready for `SET
    /// CONSTRAINTS`.
    pub(crate) deferred: Option<String>,
    /// A function may defer other constraints; the change outlasts its caller.
    pub(crate) has_deferring_functions: bool,
    /// A function may change settings; the change outlasts its caller.
    pub(crate) has_setting_functions: bool,
}

/// The process on the server that serves a connection.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) pid: String,
    /// When it began, as the server writes it.
    pub(crate) began: String,
}

/// What is prepared on one connection.
#[derive(Default)]
pub(crate) struct Texts {
    prepared: HashMap<Arc<str>, Prepared>,
    bytes: usize,
}

/// A connection and what is prepared on it.
pub struct Session {
    pub(crate) client: Arc<Client>,
    pub(crate) server: Server,
    pub(crate) texts: Texts,
    /// How often somebody on the server cancelled a wait for replicas of this connection's.
    cancelled_waits: Arc<AtomicU64>,
    /// Dropped behind the client, which has it say good-bye.
    driver: Driver,
}

/// How often a barrier begins again that was cancelled while it did not wait for replicas.
const INTERRUPTED_MAX: u32 = 10;

/// Where the server waits for replicas. A wait that is cancelled there ends in a warning, in the
/// server's language, and not in an error; it says where it comes from in any.
const WAIT_FOR_REPLICAS: &str = "SyncRepWaitForLSN";

/// That warning is sent whatever else the account, or a member, wants to hear of.
pub(crate) const HEAR_OF_WAITS: &str = "SET LOCAL client_min_messages = warning";

/// Whether this connection has temporary tables, sequences or views. They hide those of the same name
/// from whoever uses the connection next. Looking for them costs nothing where there never were any.
pub(crate) const HAS_TEMPORARY: &str = "(pg_my_temp_schema() <> 0 AND EXISTS \
    (SELECT FROM pg_class WHERE relnamespace = pg_my_temp_schema()))";

/// Constraints that wait for the commit, by their names; those that this account may name.
pub(crate) const DEFERRED: &str = "(SELECT string_agg(DISTINCT format('%I.%I', nspname, conname), ', ') \
    FROM pg_constraint JOIN pg_namespace n ON n.oid = connamespace WHERE condeferred \
    AND has_schema_privilege(n.oid, 'USAGE') AND NOT pg_is_other_temp_schema(n.oid))";

/// Whether there is a constraint that can be deferred, and a function that speaks of doing it.
pub(crate) const HAS_DEFERRING_FUNCTIONS: &str = "(EXISTS (SELECT FROM pg_constraint \
    WHERE condeferrable AND NOT condeferred) AND EXISTS (SELECT FROM pg_proc \
    WHERE pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) \
    AND prosrc ~* 'set[[:space:]]+constraints'))";

/// Whether there is a function that speaks of changing settings: it calls `set_config`, or has a
/// statement that begins with `SET` or `RESET` (which those of an `UPDATE` do not).
pub(crate) const HAS_SETTING_FUNCTIONS: &str = "EXISTS (SELECT FROM pg_proc \
    WHERE pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) \
    AND (prosrc ILIKE '%set_config%' OR prosrc ~* \
    '(^|[^]a-z0-9_\")[:space:]]|\\m(begin|then|else|loop)\\M)[[:space:]]*(re)?set[[:space:]]'))";

/// Puts all settings and the role back to those of a new connection.
pub(crate) const RESET: &str = "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL";

/// Has a connection for reads refuse writes.
pub(crate) const ONLY_READ: &str = "SET default_transaction_read_only = on";

/// Moves bytes until the connection ends, and counts the waits for replicas that were cancelled.
pub(crate) fn drive<S, T>(mut connection: Connection<S, T>, cancelled_waits: Arc<AtomicU64>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        loop {
            match poll_fn(|cx| connection.poll_message(cx)).await {
                // Before the answer that comes behind it is handed on.
                Some(Ok(AsyncMessage::Notice(notice))) => {
                    if says_wait_cancelled(&notice) {
                        cancelled_waits.fetch_add(1, Ordering::SeqCst);
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    tracing::debug!(%error, "a connection ended");
                    break;
                }
                None => break,
            }
        }
    });
}

fn says_wait_cancelled(notice: &DbError) -> bool {
    matches!(notice.parsed_severity(), Some(Severity::Warning))
        && notice.routine().is_none_or(|place| place == WAIT_FOR_REPLICAS)
}

/// A request that is on its way, whose answer nobody waits for yet.
pub(crate) struct Sent<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    early: Option<T>,
}

impl<T> Sent<T> {
    /// Sends: the first poll of a request hands it to the connection.
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        let mut future: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(future);
        // Nobody is woken for it: the answers are waited for in order, each when its turn comes.
        let early = match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        };
        Self { future, early }
    }

    /// Blocks until the answer is here.
    pub(crate) fn wait(self, session: &Session) -> T
    where
        T: Send,
    {
        self.early.unwrap_or_else(|| session.block_on(self.future))
    }
}

pub(crate) type Answer<T> = Result<T, tokio_postgres::Error>;

impl Texts {
    /// The statement, prepared; asks the server unless it was asked before.
    pub(crate) async fn prepare(
        &mut self,
        client: &Client,
        sql: &Arc<str>,
    ) -> Result<Answer<Prepared>, Error> {
        if let Some(prepared) = self.prepared.get(sql) {
            return Ok(Ok(prepared.clone()));
        }
        match client.prepare(sql).await {
            Ok(prepared) => self.keep(sql, prepared).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }

    fn keep(&mut self, sql: &Arc<str>, prepared: Prepared) -> Result<Prepared, Error> {
        check_columns(&prepared)?;
        let bytes = sql.len();
        if self.prepared.len() >= PREPARED_MAX || self.bytes + bytes > PREPARED_BYTES_MAX {
            self.forget();
        }
        if bytes <= PREPARED_BYTES_MAX
            && self.prepared.insert(sql.clone(), prepared.clone()).is_none()
        {
            self.bytes += bytes;
        }
        Ok(prepared)
    }

    /// Forgets what was prepared: the schema has changed.
    pub(crate) fn forget(&mut self) {
        self.prepared.clear();
        self.bytes = 0;
    }
}

impl Session {
    pub(crate) fn new(
        driver: Driver,
        client: Arc<Client>,
        server: Server,
        cancelled_waits: Arc<AtomicU64>,
    ) -> Self {
        Self { driver, client, server, texts: Texts::default(), cancelled_waits }
    }

    /// As [`Texts::prepare`]; blocks.
    pub(crate) fn prepare(&mut self, sql: &Arc<str>) -> Result<Answer<Prepared>, Error> {
        self.driver.block_on(self.texts.prepare(&self.client, sql))
    }

    /// Blocks until something that is asked over this connection is answered.
    pub(crate) fn block_on<F>(&self, future: F) -> F::Output
    where
        F: Future + Send,
        F::Output: Send,
    {
        self.driver.block_on(future)
    }

    /// Sends what waits to be sent, and takes in what has come.
    pub(crate) fn turn(&self) {
        self.driver.turn();
    }

    /// Whether the connection is still there, as far as this end was told.
    pub(crate) fn is_there(&self) -> bool {
        self.turn();
        !self.client.is_closed()
    }

    /// Whether [`Self::prepare`] need not ask.
    pub(crate) fn has_prepared(&self, sql: &str) -> bool {
        self.texts.prepared.contains_key(sql)
    }

    /// Sends a statement whose parameters were checked.
    pub(crate) fn send(
        &self,
        prepared: Prepared,
        plan: &Arc<[Statement]>,
        index: usize,
    ) -> Sent<Answer<StatementResult>> {
        let (client, plan) = (self.client.clone(), plan.clone());
        Sent::new(async move { run(&client, &prepared, plan[index].params()).await })
    }

    /// Sends commands without parameters and without an answer of interest.
    pub(crate) fn send_command(&self, sql: impl Into<String>) -> Sent<Answer<()>> {
        let (client, sql) = (self.client.clone(), sql.into());
        Sent::new(async move { client.batch_execute(&sql).await })
    }

    /// Sends commands of which one answers yes or no; returns whether it was yes.
    pub(crate) fn send_asking(&self, sql: String) -> Sent<Answer<bool>> {
        let client = self.client.clone();
        Sent::new(async move {
            let messages = client.simple_query(&sql).await?;
            let is_yes = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("t"));
            Ok(messages.iter().any(is_yes))
        })
    }

    /// Asks for one text.
    pub(crate) fn send_question(&mut self, sql: &Arc<str>) -> Result<Sent<Answer<String>>, Error> {
        let prepared = match self.prepare(sql)? {
            Ok(prepared) => prepared,
            Err(error) => return Err(Error::Server(error)),
        };
        let client = self.client.clone();
        Ok(Sent::new(async move { client.query_one(&prepared, &[]).await?.try_get(0) }))
    }

    /// Asks again which constraints are checked at a commit only, or may be, and what functions may
    /// do. Returns whether there are temporary tables.
    pub(crate) fn look_again(&mut self) -> Answer<bool> {
        let sql = format!(
            "SELECT {DEFERRED}, {HAS_DEFERRING_FUNCTIONS}, {HAS_SETTING_FUNCTIONS}, {HAS_TEMPORARY}"
        );
        let row = self.driver.block_on(self.client.query_one(&sql, &[]))?;
        self.server.deferred = row.try_get(0)?;
        self.server.has_deferring_functions = row.try_get(1)?;
        self.server.has_setting_functions = row.try_get(2)?;
        row.try_get(3)
    }

    /// How often a wait for replicas was cancelled so far.
    pub(crate) fn cancelled_waits(&self) -> u64 {
        self.cancelled_waits.load(Ordering::SeqCst)
    }

    /// Makes everything durable that is committed on the server now, here and wherever a commit
    /// waits for: a record of its own in the log, whose commit waits for all before it. A wait that
    /// is cancelled is begun again, since nothing else says when the replicas have it.
    pub(crate) fn barrier(&self) -> impl Future<Output = Answer<()>> + Send + use<> {
        let (client, cancelled_waits) = (self.client.clone(), self.cancelled_waits.clone());
        let sql = format!(
            "BEGIN READ WRITE; {HEAR_OF_WAITS}; SET LOCAL synchronous_commit = {}; \
             SELECT pg_logical_emit_message(true, 'groupcommit', ''); COMMIT",
            self.server.synchronous_commit
        );
        async move {
            let mut interrupted = 0;
            loop {
                let before = cancelled_waits.load(Ordering::SeqCst);
                match client.batch_execute(&sql).await {
                    Ok(()) if cancelled_waits.load(Ordering::SeqCst) == before => return Ok(()),
                    Ok(()) => {
                        tracing::warn!("somebody cancelled a wait for replicas; it begins again");
                    }
                    // Cancelled just before or after its wait.
                    Err(error)
                        if error.code() == Some(&SqlState::QUERY_CANCELED)
                            && interrupted < INTERRUPTED_MAX =>
                    {
                        interrupted += 1;
                        client.batch_execute("ROLLBACK").await?;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

/// Runs a statement and collects what it returns.
pub(crate) async fn run(
    client: &Client,
    prepared: &Prepared,
    params: &[Value],
) -> Answer<StatementResult> {
    let stream = client.query_raw(prepared, params.iter().map(Bound)).await?;
    let mut stream = std::pin::pin!(stream);
    let columns: Vec<String> =
        prepared.columns().iter().map(|column| column.name().to_owned()).collect();
    let mut rows = Vec::new();
    while let Some(row) = stream.try_next().await? {
        let values =
            (0..columns.len()).map(|column| row.try_get(column).map(|Column(value)| value));
        rows.push(values.collect::<Answer<_>>()?);
    }
    let mut result = StatementResult::default();
    result.rows_affected = stream.rows_affected().unwrap_or_default();
    result.columns = columns;
    result.rows = rows;
    Ok(result)
}

/// Every column must have a place among the values before anything is run: afterwards it is too
/// late to refuse.
fn check_columns(prepared: &Prepared) -> Result<(), Error> {
    match prepared.columns().iter().find(|column| !has_place_for(column.type_())) {
        Some(column) => Err(Error::Column {
            column: column.name().to_owned(),
            ty: column.type_().name().to_owned(),
        }),
        None => Ok(()),
    }
}

/// Whether the connection went with it.
pub(crate) fn is_lost(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_none_or(|said| !matches!(said.parsed_severity(), Some(Severity::Error)))
}
