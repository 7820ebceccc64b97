//! Connecting: what has to be true of the server before anything is promised over it, and what is
//! known of statements.

use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use groupcommit_remote::{Purpose, runtime::Driver};
use mysql_async::{Conn, DriverError, Error as ServerError, Opts, prelude::Queryable as _};

use crate::{
    Error,
    literal::Mode,
    record,
    session::{
        ATTEMPTS_MAX, Answer, Server, Session, TOO_MANY_PREPARED, UNPREPARED, code, is_lost,
        is_transient, wait,
    },
    sql::Template,
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

/// The servers of one MySQL or MariaDB database, as a URL names them.
#[derive(Clone)]
pub struct MySql {
    /// One for each server; all take writes.
    hosts: Arc<[Opts]>,
    /// The server that was reached last.
    last: Arc<AtomicUsize>,
    templates: Arc<Mutex<Templates>>,
    pub(crate) record: record::Pipeline,
}

impl fmt::Debug for MySql {
    /// Never with a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MySql").field(&self.shown()).finish()
    }
}

/// The use of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Groups create the table of [`record`] where it is missing.
    Of(Purpose),
    Read,
}

impl MySql {
    pub(crate) fn new(hosts: Vec<Opts>) -> Self {
        let record = record::Pipeline::new();
        Self { hosts: hosts.into(), last: Arc::default(), templates: Arc::default(), record }
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

    pub(crate) fn failed(&self, source: ServerError) -> Error {
        Error::Connect { server: self.shown(), remedy: "", source: Arc::new(source) }
    }

    /// Connects, and verifies that a commit on this server is what a ticket says.
    pub(crate) fn connect_now(&self, used: Use) -> Result<Session, Error> {
        let driver = Driver::new()?;
        let mut session = driver.block_on(self.connect_async(used))?;
        session.driver = Some(Arc::new(driver));
        Ok(session)
    }

    /// As [`Self::connect_now`]; the runtime that it is called in serves the connection. Tries each server
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
        Err(trouble.unwrap_or_else(|| Error::url("it names no server")))
    }

    async fn connect_to(&self, index: usize, used: Use) -> Result<Session, Error> {
        let conn = Conn::new(self.hosts[index].clone()).await;
        let mut conn = conn.map_err(|error| self.failed(error))?;
        let server = self.examine(&mut conn, used).await?;
        Ok(Session::new(conn, server))
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
            has_record: used == Use::Of(Purpose::Write)
                && look_for_record(conn).await.map_err(failed)?,
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
        Use::Of(Purpose::Write | Purpose::Ask) => {
            "SET SESSION autocommit = 0, completion_type = 'NO_CHAIN'"
        }
        Use::Read => "SET SESSION TRANSACTION READ ONLY; SET SESSION autocommit = 1",
        Use::Of(Purpose::Alone) => "SET SESSION autocommit = 1, completion_type = 'NO_CHAIN'",
    };
    if is_clustered {
        // All that the cluster had committed before is here before anything is looked at: once for
        // those that stay on this node, at every statement for those that follow another's tickets.
        text += match used {
            Use::Read => "; SET SESSION wsrep_sync_wait = 1",
            Use::Of(_) => {
                "; SET SESSION wsrep_sync_wait = 15; SELECT 1; SET SESSION wsrep_sync_wait = 0"
            }
        };
    }
    text
}

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
