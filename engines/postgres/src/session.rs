//! One connection, with what has to be true of its server before anything is promised over it.

use std::{
    collections::HashMap,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures_util::TryStreamExt as _;
use groupcommit_core::Cause;
use groupcommit_remote::runtime::Driver;
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, SimpleQueryMessage, Statement as Prepared,
    config::{Host, SslMode},
    error::{DbError, Severity, SqlState},
    tls::NoTls,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{
    Error, Statement, StatementResult, Value,
    error::History,
    hosts, remedy,
    value::{Bound, Column, has_place_for},
};

/// How long connecting takes at most, unless the URL says otherwise.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Prepared statements that one connection keeps, and the bytes of their texts; with more the cache
/// starts anew.
const PREPARED_MAX: usize = 500;
const PREPARED_BYTES_MAX: usize = 8 << 20;

/// How to reach the server.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) config: Config,
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
}

/// What was found out about the server on connecting.
#[derive(Debug, Clone)]
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
    /// A function may defer others, for whoever comes behind its caller too.
    pub(crate) has_deferring_functions: bool,
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
pub(crate) struct Session {
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

/// Constraints that wait for the commit, by their names; those that this account may name.
const DEFERRED: &str = "(SELECT string_agg(DISTINCT format('%I.%I', nspname, conname), ', ') \
    FROM pg_constraint JOIN pg_namespace n ON n.oid = connamespace WHERE condeferred \
    AND has_schema_privilege(n.oid, 'USAGE') AND NOT pg_is_other_temp_schema(n.oid))";

/// Whether there is a constraint that can be deferred, and a function that speaks of doing it.
const HAS_DEFERRING_FUNCTIONS: &str = "(EXISTS (SELECT FROM pg_constraint \
    WHERE condeferrable AND NOT condeferred) AND EXISTS (SELECT FROM pg_proc \
    WHERE pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) \
    AND prosrc ~* 'set[[:space:]]+constraints'))";

impl Connector {
    /// Where the server is, for messages; never with a password.
    pub(crate) fn shown(&self) -> String {
        hosts::shown(&self.config)
    }

    fn failed(&self, source: tokio_postgres::Error) -> Error {
        Error::Connect { server: self.shown(), source: Arc::new(source) }
    }

    /// Connects, and verifies that a commit on this server is what a ticket says.
    pub(crate) fn connect(&self) -> Result<Session, Error> {
        let driver = Driver::new()?;
        let (client, cancelled_waits, server) = driver.block_on(self.within_limit(async {
            let (client, cancelled_waits) = self.open().await?;
            let server = self.examine(&client).await?;
            Ok((Arc::new(client), cancelled_waits, server))
        }))?;
        Ok(Session { driver, client, server, texts: Texts::default(), cancelled_waits })
    }

    /// Connects for reading, which writes nothing: what a commit is on this server does not matter.
    /// The runtime that it is called in serves the connection.
    pub(crate) async fn connect_for_reads(&self) -> Result<(Client, Process), Error> {
        self.within_limit(async {
            let (client, _) = self.open().await?;
            let process = self.examine_for_reads(&client).await?;
            Ok((client, process))
        })
        .await
    }

    /// Within the time that connecting to every host may take.
    async fn within_limit<T>(
        &self,
        connect: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        // The client's own limit covers the socket alone, not a server that accepts and is silent.
        let connected =
            tokio::time::timeout(self.connect_max() * self.hosts_count(), connect).await;
        connected.unwrap_or_else(|_| Err(self.silent(&self.config)))
    }

    /// How long connecting to one host takes at most.
    fn connect_max(&self) -> Duration {
        self.config.get_connect_timeout().copied().unwrap_or(CONNECT_MAX)
    }

    fn hosts_count(&self) -> u32 {
        let count = self.config.get_hosts().len().max(self.config.get_hostaddrs().len());
        u32::try_from(count.max(1)).unwrap_or(u32::MAX)
    }

    fn silent(&self, config: &Config) -> Error {
        let limit = self.connect_max();
        let silent = format!("it accepted the connection and said nothing within {limit:?}");
        let source = std::io::Error::new(std::io::ErrorKind::TimedOut, silent);
        Error::Connect { server: hosts::shown(config), source: Arc::new(source) }
    }

    /// Connects to the first host that lets us in and takes writes. That one is a replica says less
    /// of why there is none than what is wrong with the others.
    async fn open(&self) -> Result<(Client, Arc<AtomicU64>), Error> {
        let cancelled_waits = Arc::new(AtomicU64::new(0));
        let mut last = None;
        for config in hosts::one_by_one(&self.config) {
            let opening = self.open_at(&config, cancelled_waits.clone());
            let error = match tokio::time::timeout(self.connect_max(), opening).await {
                Ok(Ok(client)) => return Ok((client, cancelled_waits)),
                Ok(Err(error)) => error,
                Err(_) => self.silent(&config),
            };
            tracing::debug!(%error, "a host is passed over");
            last = match last {
                Some(before) if remedy::is_of_replica(&error) => Some(before),
                _ => Some(error),
            };
        }
        Err(last.unwrap_or_else(|| self.silent(&self.config)))
    }

    async fn open_at(
        &self,
        config: &Config,
        cancelled_waits: Arc<AtomicU64>,
    ) -> Result<Client, Error> {
        let failed = |source| Error::Connect {
            server: hosts::shown(config),
            source: Arc::new(source) as Cause,
        };
        if let Some(tls) = &self.tls {
            let connect = MakeRustlsConnect::new((**tls).clone());
            let (client, connection) = config.connect(connect).await.map_err(failed)?;
            drive(connection, cancelled_waits);
            Ok(client)
        } else {
            let (client, connection) = config.connect(NoTls).await.map_err(failed)?;
            drive(connection, cancelled_waits);
            Ok(client)
        }
    }

    /// In one message, since a read waits for it.
    async fn examine_for_reads(&self, client: &Client) -> Result<Process, Error> {
        let sql = "SET default_transaction_read_only = on; \
                   SELECT pg_is_in_recovery(), pid, backend_start \
                   FROM pg_stat_get_activity(pg_backend_pid())";
        let messages = client.simple_query(sql).await.map_err(|error| self.failed(error))?;
        let row = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let text = |column: usize| row.and_then(|row| row.get(column)).unwrap_or_default();
        if text(0) == "t" {
            return Err(Error::Replica(self.shown()));
        }
        Ok(Process { pid: text(1).to_owned(), began: text(2).to_owned() })
    }

    async fn examine(&self, client: &Client) -> Result<Server, Error> {
        let failed = |error| self.failed(error);
        let row = client
            .query_one(
                "SELECT current_setting('server_version_num')::int4, pg_is_in_recovery()",
                &[],
            )
            .await
            .map_err(failed)?;
        let version: i32 = row.try_get(0).map_err(failed)?;
        if version < 130_000 {
            return Err(Error::TooOld(format!("{}", version / 10_000)));
        }
        if row.try_get(1).map_err(failed)? {
            return Err(Error::Replica(self.shown()));
        }
        let sql = format!(
            "SELECT current_setting('fsync'), current_setting('synchronous_commit'), \
             current_setting('full_page_writes'), \
             current_setting('synchronous_standby_names') <> '', \
             (SELECT system_identifier::text FROM pg_control_system()) || '/' || \
             substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), \
             pg_backend_pid()::text, \
             (SELECT backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()), \
             {DEFERRED}, (SELECT stats_reset::text FROM pg_stat_archiver), \
             {HAS_DEFERRING_FUNCTIONS}"
        );
        let row = client.query_one(&sql, &[]).await.map_err(failed)?;
        let text = |column: usize| row.try_get::<_, String>(column).map_err(failed);
        let synchronous_commit = text(1)?;
        check_settings(&text(0)?, &synchronous_commit)?;
        let reset: Option<String> = row.try_get(8).map_err(failed)?;
        let history =
            History { cluster: text(4)?, began: text(6)?, reset: reset.unwrap_or_default() };
        Ok(Server {
            history,
            process: Process { pid: text(5)?, began: text(6)? },
            synchronous_commit,
            full_page_writes: text(2)? == "on",
            is_replicated: row.try_get(3).map_err(failed)?,
            deferred: row.try_get(7).map_err(failed)?,
            has_deferring_functions: row.try_get(9).map_err(failed)?,
        })
    }
}

fn check_settings(fsync: &str, synchronous_commit: &str) -> Result<(), Error> {
    if fsync != "on" {
        return Err(Error::Setting {
            name: "fsync",
            value: fsync.to_owned(),
            remedy: "set it to `on` in postgresql.conf and restart the server",
        });
    }
    if synchronous_commit == "off" {
        return Err(Error::Setting {
            name: "synchronous_commit",
            value: synchronous_commit.to_owned(),
            remedy: "set it to `on` for this role, for example with `ALTER ROLE`, or in the URL \
                     with `?options=-c%20synchronous_commit%3Don`",
        });
    }
    Ok(())
}

/// Whether the connection is encrypted: always, unless told otherwise, where it leaves the machine.
pub(crate) fn wants_tls(config: &Config) -> bool {
    let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
    let is_here = |host: &Host| match host {
        Host::Tcp(name) => {
            name == "localhost"
                || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        Host::Unix(_) => true,
    };
    // An address goes before the name that stands beside it.
    let all_here = if addresses.is_empty() {
        hosts.iter().all(is_here)
    } else {
        addresses.iter().all(std::net::IpAddr::is_loopback)
    };
    match config.get_ssl_mode() {
        SslMode::Disable => false,
        SslMode::Prefer => !all_here,
        _ => true,
    }
}

/// Moves bytes until the connection ends, and counts the waits for replicas that were cancelled.
fn drive<S, T>(mut connection: Connection<S, T>, cancelled_waits: Arc<AtomicU64>)
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

    /// Asks for one text.
    pub(crate) fn send_question(&mut self, sql: &Arc<str>) -> Result<Sent<Answer<String>>, Error> {
        let prepared = match self.prepare(sql)? {
            Ok(prepared) => prepared,
            Err(error) => return Err(Error::Server(error)),
        };
        let client = self.client.clone();
        Ok(Sent::new(async move { client.query_one(&prepared, &[]).await?.try_get(0) }))
    }

    /// Which constraints are checked at a commit only, or may be, asked again.
    pub(crate) fn look_for_deferred(&mut self) -> Answer<()> {
        let sql = format!("SELECT {DEFERRED}, {HAS_DEFERRING_FUNCTIONS}");
        let row = self.driver.block_on(self.client.query_one(&sql, &[]))?;
        self.server.deferred = row.try_get(0)?;
        self.server.has_deferring_functions = row.try_get(1)?;
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_the_machine_is_encrypted_unless_told_otherwise() {
        for (url, expected) in [
            ("postgres://a@db.example.org/a", true),
            ("postgres://a@10.0.0.1/a?sslmode=disable", false),
            ("postgres://a@127.0.0.1/a", false),
            ("postgres://a@localhost,db.example.org/a", true),
            ("postgres://a@localhost/a?sslmode=require", true),
            ("host=/run/postgresql user=a", false),
            ("hostaddr=10.0.0.1 user=a", true),
            ("host=localhost hostaddr=10.0.0.1 user=a", true),
            ("host=db.example.org hostaddr=127.0.0.1 user=a", false),
        ] {
            assert_eq!(wants_tls(&url.parse().unwrap()), expected, "{url}");
        }
    }
}
