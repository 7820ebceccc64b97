//! One connection, with what has to be true of its server before anything is promised over it.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use groupcommit_core::block_on;
use groupcommit_remote::runtime::{self, Driver};
use groupcommit_statement::{StatementResult, Value};
use mysql_async::{
    Column, Conn, DriverError, Error as ServerError, Opts, Row, Value as Raw,
    prelude::Queryable as _,
};
use tokio::sync::{mpsc, oneshot};

use crate::{
    Error, record,
    sql::{Mode, Template},
    value,
};

/// Statements whose texts are kept taken apart, and the bytes of these; with more the cache starts
/// anew.
const TEMPLATES_MAX: usize = 1_000;
const TEMPLATES_BYTES_MAX: usize = 8 << 20;

/// How long it may take to connect to one server.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Statements by their texts, and how these are read.
#[derive(Default)]
struct Templates {
    known: HashMap<(Arc<str>, Mode), Arc<Template>>,
    bytes: usize,
}

impl Templates {
    fn insert(&mut self, key: (Arc<str>, Mode), template: Arc<Template>) {
        let bytes = key.0.len();
        if self.known.len() >= TEMPLATES_MAX || self.bytes + bytes > TEMPLATES_BYTES_MAX {
            *self = Self::default();
        }
        if bytes <= TEMPLATES_BYTES_MAX && self.known.insert(key, template).is_none() {
            self.bytes += bytes;
        }
    }
}

/// How to reach the servers.
#[derive(Clone)]
pub(crate) struct Connector {
    /// One for each server, of which any will do.
    hosts: Arc<[Opts]>,
    /// The server that was reached last.
    last: Arc<AtomicUsize>,
    templates: Arc<Mutex<Templates>>,
}

/// What was found out about the server on connecting.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) mode: Mode,
    /// The largest text that it takes, in bytes.
    pub(crate) bytes_max: usize,
    /// It certifies its transactions with other servers.
    pub(crate) is_clustered: bool,
    pub(crate) has_doublewrite: bool,
    /// The table of [`record`] is there.
    pub(crate) has_record: bool,
    /// Which connection this is, of which start of which server.
    id: u32,
    process: String,
    started_s: i64,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Groups: makes the table of [`record`] where it is missing.
    Write,
    /// To ask what became of a commit, or to make one durable.
    Ask,
    Read,
    /// What an exclusive is given.
    Alone,
}

/// An open connection.
pub(crate) struct Session {
    conn: Option<Conn>,
    pub(crate) server: Server,
    /// Of those that whoever waits for them serves; the others have a runtime that does.
    driver: Option<Arc<Driver>>,
}

pub(crate) type Answer<T> = Result<T, ServerError>;

/// A text of several statements failed at one of them.
#[derive(Debug)]
pub(crate) struct Failed {
    /// How many had been run before it.
    pub(crate) done: usize,
    pub(crate) error: ServerError,
}

impl Connector {
    pub(crate) fn new(hosts: Vec<Opts>) -> Self {
        Self { hosts: hosts.into(), last: Arc::default(), templates: Arc::default() }
    }

    /// Where the servers are, for messages; never with a password.
    pub(crate) fn shown(&self) -> String {
        let place = |opts: &Opts| match opts.ip_or_hostname() {
            address if address.contains(':') => format!("[{address}]:{}", opts.tcp_port()),
            host => format!("{host}:{}", opts.tcp_port()),
        };
        let hosts: Vec<String> = self.hosts.iter().map(place).collect();
        let database = self.hosts.first().and_then(Opts::db_name).unwrap_or_default();
        format!("mysql://{}/{database}", hosts.join(","))
    }

    fn failed(&self, source: ServerError) -> Error {
        Error::Connect { server: self.shown(), source: Arc::new(source) }
    }

    /// Connects, and verifies that a commit on this server is what a ticket says.
    pub(crate) fn connect(&self, used: Use) -> Result<Session, Error> {
        let driver = Driver::new()?;
        let mut session = driver.block_on(self.connect_async(used))?;
        session.driver = Some(Arc::new(driver));
        Ok(session)
    }

    /// As [`Self::connect`]; the runtime that it is called in serves the connection. Tries each server
    /// once, the one that was reached last before the others.
    pub(crate) async fn connect_async(&self, used: Use) -> Result<Session, Error> {
        let last = self.last.load(Ordering::Relaxed);
        let mut trouble = None;
        for index in (0..self.hosts.len()).map(|step| (last + step) % self.hosts.len()) {
            let connecting = tokio::time::timeout(CONNECT_MAX, self.connect_to(index, used));
            match connecting.await {
                Ok(Ok(session)) => {
                    self.last.store(index, Ordering::Relaxed);
                    return Ok(session);
                }
                Ok(Err(error)) => {
                    // What will not pass by itself is said, before what another server lacks.
                    if !matches!(trouble, Some(Error::Setting { .. } | Error::ReadOnly(_))) {
                        trouble = Some(error);
                    }
                }
                Err(_) => {
                    let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
                    trouble.get_or_insert(self.failed(ServerError::Io(late.into())));
                }
            }
        }
        Err(trouble.unwrap_or_else(|| Error::Url("it names no server".to_owned())))
    }

    async fn connect_to(&self, index: usize, used: Use) -> Result<Session, Error> {
        let conn = Conn::new(self.hosts[index].clone()).await;
        let mut conn = conn.map_err(|error| self.failed(error))?;
        let server = self.examine(&mut conn, used).await?;
        Ok(Session { conn: Some(conn), server, driver: None })
    }

    async fn examine(&self, conn: &mut Conn, used: Use) -> Result<Server, Error> {
        let failed = |error| self.failed(error);
        let names = "'innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'read_only', \
             'innodb_doublewrite', 'innodb_flush_method', 'max_allowed_packet', 'hostname', \
             'port', 'server_id', 'wsrep_on', 'wsrep_provider', 'sql_mode'";
        // `sql_mode` of the session, which is what its texts are read by.
        let found: Vec<(String, String)> = conn
            .query(format!("SHOW SESSION VARIABLES WHERE Variable_name IN ({names})"))
            .await
            .map_err(failed)?;
        let found: HashMap<String, String> = found.into_iter().collect();
        let setting = |name: &str| found.get(name).map(String::as_str).unwrap_or_default();
        check_settings(setting)?;
        if setting("read_only").eq_ignore_ascii_case("ON") {
            return Err(Error::ReadOnly(self.shown()));
        }
        let provider = setting("wsrep_provider");
        let is_clustered = setting("wsrep_on").eq_ignore_ascii_case("ON")
            && !provider.is_empty()
            && provider != "none";
        conn.query_drop(prepare_session(used, is_clustered)).await.map_err(failed)?;
        let started: Option<i64> = conn
            .query_first(
                "SELECT UNIX_TIMESTAMP() - CAST(variable_value AS SIGNED) FROM \
                 information_schema.global_status WHERE variable_name = 'UPTIME'",
            )
            .await
            .unwrap_or_default(); // elsewhere in MySQL; it is there to be polite only
        let process =
            format!("{}:{}/{}", setting("hostname"), setting("port"), setting("server_id"));
        Ok(Server {
            mode: Mode::of(setting("sql_mode")),
            bytes_max: setting("max_allowed_packet").parse().unwrap_or(1 << 20),
            is_clustered,
            has_doublewrite: !setting("innodb_doublewrite").eq_ignore_ascii_case("OFF"),
            has_record: used == Use::Write && look_for_record(conn).await.map_err(failed)?,
            id: conn.id(),
            process,
            started_s: started.unwrap_or_default(),
        })
    }

    /// The statement, taken apart, as `session` reads it. The first time the server is asked as
    /// well, which must find the same parameters.
    pub(crate) async fn template(
        &self,
        session: &mut Session,
        sql: &Arc<str>,
    ) -> Result<Arc<Template>, Error> {
        let key = (sql.clone(), session.server.mode);
        let lock = || self.templates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(template) = lock().known.get(&key) {
            return Ok(template.clone());
        }
        let template = Arc::new(Template::new(sql, session.server.mode)?);
        match session.count_params(sql).await {
            Ok(expected) if expected == template.params() => {}
            Ok(expected) => {
                return Err(Error::Parameters { expected, given: template.params() });
            }
            Err(error) if code(&error) == Some(UNPREPARED) => {}
            // It cannot be asked now, or not by this client, which takes a colon for a parameter: the
            // text was accepted for what it is.
            Err(error) if code(&error) == Some(TOO_MANY_PREPARED) => return Ok(template),
            Err(ServerError::Driver(DriverError::MixedParams)) => {}
            Err(error) if is_lost(&error) => return Err(Error::Lost(Some(error))),
            Err(error) => return Err(Error::Server(error)),
        }
        lock().insert(key, template.clone());
        Ok(template)
    }
}

impl Connector {
    /// As [`Self::template`], blocking.
    pub(crate) fn template_now(
        &self,
        session: &mut Session,
        sql: &Arc<str>,
    ) -> Result<Arc<Template>, Error> {
        wait(session.driver.clone().as_deref(), self.template(session, sql))
    }
}

/// What a session has to be told before it is used.
fn prepare_session(used: Use, is_clustered: bool) -> String {
    // A server may be set to ignore what the client said of its character set. A text is not what it
    // seems where a backslash can be the second half of a letter.
    let mut text = "SET NAMES utf8mb4; ".to_owned();
    // Without `autocommit` a statement that comes behind a transaction that the server rolled back
    // is not committed by itself.
    text += match used {
        Use::Write | Use::Ask => "SET SESSION autocommit = 0, completion_type = 'NO_CHAIN'",
        Use::Read => "SET SESSION TRANSACTION READ ONLY; SET SESSION autocommit = 1",
        Use::Alone => "SET SESSION autocommit = 1, completion_type = 'NO_CHAIN'",
    };
    if is_clustered {
        // All that the cluster had committed before is here before anything is looked at: once for
        // those that stay on this node, at every statement for those that follow another's tickets.
        text += match used {
            Use::Read => "; SET SESSION wsrep_sync_wait = 1",
            _ => "; SET SESSION wsrep_sync_wait = 15; SELECT 1; SET SESSION wsrep_sync_wait = 0",
        };
    }
    text
}

/// How often what others were in the way of is tried on connecting.
const ATTEMPTS_MAX: u32 = 10;

/// Whether the table of outcomes is there; makes it where that is allowed. Begins again where another
/// makes it at the same time, which in a cluster ends whatever uses it.
async fn look_for_record(conn: &mut Conn) -> Answer<bool> {
    let mut attempts = 1;
    loop {
        match look_once_for_record(conn).await {
            Err(error) if is_transient(&error) && attempts < ATTEMPTS_MAX => attempts += 1,
            other => return other,
        }
    }
}

async fn look_once_for_record(conn: &mut Conn) -> Answer<bool> {
    let look = record::look();
    for text in [&*look, record::CREATE, &*look] {
        match conn.query_drop(text).await {
            Ok(()) if text == look => {
                conn.query_drop("COMMIT").await?;
                return Ok(true);
            }
            Ok(()) => {}
            Err(error) if is_lost(&error) || is_transient(&error) => return Err(error),
            Err(error) => tracing::debug!(%error, "the table of outcomes"),
        }
    }
    Ok(false)
}

fn check_settings<'s>(setting: impl Fn(&str) -> &'s str) -> Result<(), Error> {
    let is_on = |name: &str| ["ON", "1"].contains(&setting(name).to_ascii_uppercase().as_str());
    let refused = |name, remedy| {
        let value = setting(name).to_owned();
        Err(Error::Setting { name, value, remedy })
    };
    // 3 flushes oftener than 1.
    if !["1", "3"].contains(&setting("innodb_flush_log_at_trx_commit")) {
        return refused(
            "innodb_flush_log_at_trx_commit",
            "set it to 1 in the server's options and with `SET GLOBAL`",
        );
    }
    if is_on("log_bin") && setting("sync_binlog") != "1" {
        return refused(
            "sync_binlog",
            "set it to 1 in the server's options and with `SET GLOBAL`, or turn the binary log off",
        );
    }
    if ["nosync", "littlesync"].contains(&setting("innodb_flush_method").to_lowercase().as_str()) {
        return refused(
            "innodb_flush_method",
            "take it out of the server's options and restart the server",
        );
    }
    Ok(())
}

/// Whether connections have to be encrypted, for they leave the machine.
pub(crate) fn leaves_the_machine(opts: &Opts) -> bool {
    let host = opts.ip_or_hostname();
    let is_here =
        host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    opts.socket().is_none() && !is_here
}

impl Session {
    fn conn(&mut self) -> Answer<&mut Conn> {
        let closed = || DriverError::ConnectionClosed;
        self.conn.as_mut().ok_or_else(|| closed().into())
    }

    /// Runs a text of any number of statements, up to the first that fails, and hands out what each
    /// came to.
    pub(crate) async fn run(
        &mut self,
        text: &[u8],
        mut each: impl FnMut(usize, StatementResult),
    ) -> Result<(), Failed> {
        let mut done = 0;
        let failed = |done, error| Failed { done, error };
        let conn = self.conn().map_err(|error| failed(0, error))?;
        let mut results = conn.query_iter(text).await.map_err(|error| failed(0, error))?;
        loop {
            // Before its rows are taken: then it speaks of the next.
            let last_insert_id = results.last_insert_id().filter(|id| *id != 0);
            let rows_affected = results.affected_rows();
            let Some(columns) = results.columns() else {
                // The end, or the failure of a statement behind the first.
                let rest: Answer<Vec<Row>> = results.collect().await;
                return rest.map(drop).map_err(|error| failed(done, error));
            };
            let rows: Vec<Row> = results.collect().await.map_err(|error| failed(done, error))?;
            let mut result = StatementResult::default();
            if columns.is_empty() {
                result.rows_affected = rows_affected;
                result.last_insert_id = last_insert_id.and_then(|id| i64::try_from(id).ok());
            } else {
                result.rows_affected = rows.len() as u64;
                result.columns =
                    columns.iter().map(|column| column.name_str().into_owned()).collect();
                result.rows = rows.into_iter().map(|row| decode(row, &columns)).collect();
            }
            each(done, result);
            done += 1;
        }
    }

    /// Writes the row of `record` that stays.
    pub(crate) fn begin_record(&mut self, record: record::Pipeline) -> Answer<()> {
        let mut attempts = 1;
        loop {
            match self.run_now(record.open().as_bytes(), |_, _| {}) {
                Ok(()) => return Ok(()),
                Err(Failed { error, .. }) if is_transient(&error) && attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                }
                Err(Failed { error, .. }) => return Err(error),
            }
        }
    }

    /// As [`Self::run`], blocking.
    pub(crate) fn run_now(
        &mut self,
        text: &[u8],
        each: impl FnMut(usize, StatementResult) + Send,
    ) -> Result<(), Failed> {
        wait(self.driver.clone().as_deref(), self.run(text, each))
    }

    /// Hands on the columns of a statement and then its rows, as they come.
    pub(crate) async fn stream(
        &mut self,
        text: &[u8],
        columns: &mut Option<oneshot::Sender<Answer<Vec<String>>>>,
        rows: &mpsc::Sender<Vec<Value>>,
    ) -> Answer<()> {
        let mut results = self.conn()?.query_iter(text).await?;
        let found = results.columns().unwrap_or_default();
        if let Some(columns) = columns.take() {
            let names = found.iter().map(|column| column.name_str().into_owned()).collect();
            // Whoever asked may have gone.
            drop(columns.send(Ok(names)));
        }
        while let Some(row) = results.next().await? {
            // Where nobody takes them any more the server is told to end, and these are the rest.
            drop(rows.send(decode(row, &found)).await);
        }
        Ok(())
    }

    /// Finds out how texts are read behind statements that may have changed it, and has them read as
    /// what they are: UTF-8.
    pub(crate) fn look_again(&mut self) -> Answer<()> {
        let text = b"SET SESSION character_set_client = utf8mb4, character_set_results = utf8mb4; \
                     SELECT @@SESSION.sql_mode";
        let mut mode = None;
        let looked = self.run_now(text, |_, mut result| {
            if let Some(Value::Text(found)) = result.rows.pop().and_then(|mut row| row.pop()) {
                mode = Some(Mode::of(&found));
            }
        });
        looked.map_err(|failed| failed.error)?;
        self.server.mode = mode.unwrap_or(self.server.mode);
        Ok(())
    }

    /// How many parameters the server finds in `sql`, which must be one statement.
    async fn count_params(&mut self, sql: &str) -> Answer<usize> {
        let conn = self.conn()?;
        let prepared = conn.prep(sql).await?;
        let params = usize::from(prepared.num_params());
        conn.close(prepared).await?;
        Ok(params)
    }

    /// Whether the server has a transaction open, as its last answer said.
    pub(crate) fn is_in_transaction(&self) -> bool {
        use mysql_async::consts::StatusFlags;
        let last = self.conn.as_ref().and_then(Conn::last_ok_packet);
        last.is_some_and(|ok| ok.status_flags().contains(StatusFlags::SERVER_STATUS_IN_TRANS))
    }

    /// Ends the connection of `old`, so that it keeps no locks, if it was one to this server. Where
    /// that cannot be done it ends by itself once the server notices.
    pub(crate) async fn end_of(&mut self, old: &Server) {
        let new = &self.server;
        let is_same_start = (new.started_s - old.started_s).abs() <= 1;
        if new.process != old.process || !is_same_start || new.id == old.id {
            return;
        }
        let kill = format!("KILL {}", old.id);
        if let Err(Failed { error, .. }) = self.run(kill.as_bytes(), |_, _| {}).await {
            tracing::debug!(%error, "a lost connection was left alone");
        }
    }

    /// As [`Self::end_of`], blocking.
    pub(crate) fn end(&mut self, old: &Server) {
        wait(self.driver.clone().as_deref(), self.end_of(old));
    }
}

/// Blocks until what was asked over a connection is answered.
fn wait<F>(driver: Option<&Driver>, answer: F) -> F::Output
where
    F: Future + Send,
    F::Output: Send,
{
    match driver {
        Some(driver) => driver.block_on(answer),
        None => block_on(answer),
    }
}

fn decode(row: Row, columns: &[Column]) -> Vec<Value> {
    let values = row.unwrap_raw().into_iter().map(|raw| raw.unwrap_or(Raw::NULL));
    values.zip(columns).map(|(raw, column)| value::decode(column, raw)).collect()
}

impl Drop for Session {
    /// Says good-bye.
    fn drop(&mut self) {
        let conn = self.conn.take();
        if let Some(driver) = &self.driver {
            driver.drop_in(conn);
        } else {
            let runtime = runtime::handle();
            let _entered = runtime.as_ref().map(|handle| handle.enter());
            drop(conn);
        }
    }
}

/// "This command is not supported in the prepared statement protocol yet".
const UNPREPARED: u16 = 1295;

/// The server prepares no more statements, of whomever they are.
const TOO_MANY_PREPARED: u16 = 1461;

/// The server's number for what went wrong.
pub(crate) fn code(error: &ServerError) -> Option<u16> {
    match error {
        ServerError::Server(said) => Some(said.code),
        _ => None,
    }
}

/// Whether the connection, or the use of its server, went with it: it is shutting down, left its
/// cluster, became read-only, or ended the connection.
pub(crate) fn is_lost(error: &ServerError) -> bool {
    const LOST: [u16; 7] = [1047, 1053, 1077, 1079, 1927, 3169, 4031];
    match error {
        ServerError::Server(said) if said.code == PREVENTED => is_prevented(error),
        ServerError::Server(said) => LOST.contains(&said.code),
        _ => true,
    }
}

/// An option of the server does not allow the statement.
const PREVENTED: u16 = 1290;

/// Whether the server takes no writes: what would have been written was not.
pub(crate) fn is_prevented(error: &ServerError) -> bool {
    // Options other than this one keep a single statement from being run.
    matches!(error, ServerError::Server(said)
        if said.code == PREVENTED && said.message.contains("read-only"))
}

/// Whether the whole transaction is rolled back because of others, and may be run again.
pub(crate) fn is_transient(error: &ServerError) -> bool {
    // Changed since it was read; waited too long; too many locks; deadlock or certification; was
    // interrupted; deadlock of a prepared transaction; write conflict in TiDB.
    const TRANSIENT: [u16; 8] = [1020, LOCK_WAIT, 1206, 1213, STOPPED, 1614, 8002, 9007];
    code(error).is_some_and(|code| TRANSIENT.contains(&code))
}

/// A lock was waited for in vain, for as long as the server is set to.
pub(crate) const LOCK_WAIT: u16 = 1205;

/// The statement was stopped before its end.
pub(crate) const STOPPED: u16 = 1317;

/// There is no such savepoint: so this is not the transaction that it was set in.
pub(crate) const NO_SAVEPOINT: u16 = 1305;

/// There is no such table.
pub(crate) const NO_TABLE: u16 = 1146;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_statements_is_bounded_by_number_and_by_bytes() {
        let mut templates = Templates::default();
        let mut learn = |sql: String| {
            let (sql, mode): (Arc<str>, _) = (sql.into(), Mode::default());
            let template = Arc::new(Template::new(&sql, mode).unwrap());
            templates.insert((sql, mode), template);
            let bytes = templates.known.keys().map(|(sql, _)| sql.len()).sum::<usize>();
            assert!(bytes <= TEMPLATES_BYTES_MAX && templates.known.len() <= TEMPLATES_MAX);
            assert_eq!(templates.bytes, bytes);
            templates.known.len()
        };
        for number in 0..2 * TEMPLATES_MAX {
            assert_eq!(learn(format!("SELECT {number}")), number % TEMPLATES_MAX + 1);
        }
        for number in 0..20 {
            learn(format!("SELECT '{}'", char::from(b'a' + number).to_string().repeat(1 << 20)));
        }
        learn(format!("SELECT '{}'", "z".repeat(TEMPLATES_BYTES_MAX)));
    }

    #[test]
    fn settings_under_which_a_ticket_would_lie_are_refused() {
        let check = |flush: &'static str, log_bin: &'static str, sync: &'static str, method| {
            check_settings(move |name| match name {
                "innodb_flush_log_at_trx_commit" => flush,
                "log_bin" => log_bin,
                "sync_binlog" => sync,
                "innodb_flush_method" => method,
                _ => "",
            })
        };
        assert!(check("1", "OFF", "0", "O_DIRECT").is_ok());
        assert!(check("3", "ON", "1", "fsync").is_ok());
        for (flush, log_bin, sync, method) in [
            ("0", "OFF", "0", ""),
            ("2", "OFF", "1", ""),
            ("1", "ON", "0", ""),
            ("1", "OFF", "0", "nosync"),
        ] {
            let refused = check(flush, log_bin, sync, method);
            assert!(matches!(refused, Err(Error::Setting { .. })), "{refused:?}");
        }
    }
}
