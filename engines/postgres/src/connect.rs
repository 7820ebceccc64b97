//! Connecting: reading the URL, encryption, and what has to be true of the server before anything is
//! promised.

use std::{
    future::Future,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use groupcommit_core::Cause;
use groupcommit_remote::runtime::Driver;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use tokio_postgres::{
    Client, Config, SimpleQueryMessage,
    config::{Host, SslMode, TargetSessionAttrs},
    tls::NoTls,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{
    Error,
    hosts::{self, are_sockets},
    remedy,
    session::{
        DEFERRED, HAS_DEFERRING_FUNCTIONS, HAS_SETTING_FUNCTIONS, History, ONLY_READ, Process,
        Server, Session, drive,
    },
    url::{self, Roots},
};

/// How long connecting takes at most, unless the URL says otherwise.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How long a server may say nothing before it is asked whether it is there, how often it is asked,
/// and how many times.
const SILENCE: Duration = Duration::from_secs(30);
const SILENCE_ASKED_EVERY: Duration = Duration::from_secs(10);
const SILENCE_ASKED: u32 = 3;

/// A PostgreSQL server, as a URL names it.
#[derive(Debug, Clone)]
pub struct Postgres {
    config: Config,
    tls: Option<Arc<rustls::ClientConfig>>,
}

impl Postgres {
    /// Reads the URL; see the crate's documentation.
    pub(crate) fn of_url(
        url: &str,
        tls: Option<&Arc<rustls::ClientConfig>>,
    ) -> Result<Self, Error> {
        let (mut config, roots) = url::read(url)?;
        if config.get_application_name().is_none() {
            config.application_name("groupcommit");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_MAX);
        }
        notice_silence(&mut config);
        if config.get_hosts().len() > 1
            && config.get_target_session_attrs() == TargetSessionAttrs::Any
        {
            // Any would be the first that answers, a replica or not.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        if are_sockets(&config) {
            config.ssl_mode(SslMode::Disable);
        }
        let names_roots = roots.is_some() && config.get_ssl_mode() != SslMode::Disable;
        let tls = match (tls, wants_tls(&config) || names_roots) {
            (_, false) => None,
            (Some(tls), true) => Some(tls.clone()),
            (None, true) => Some(Arc::new(tls_that_trusts(&roots.unwrap_or(Roots::System))?)),
        };
        if tls.is_some() {
            // Never in the clear because the server would rather not.
            config.ssl_mode(SslMode::Require);
        }
        Ok(Self { config, tls })
    }

    /// Where the server is, for messages; never with a password.
    pub(crate) fn shown(&self) -> String {
        hosts::shown(&self.config)
    }

    fn failed(&self, source: tokio_postgres::Error) -> Error {
        connect_error(&self.config, source)
    }

    /// Connects, and verifies that a commit on this server is what a ticket says.
    pub(crate) fn connect(&self) -> Result<Session, Error> {
        let driver = Driver::new()?;
        let (client, cancelled_waits, server) = driver.block_on(self.within_limit(async {
            let (client, cancelled_waits) = self.open().await?;
            let server = self.examine(&client).await?;
            Ok((Arc::new(client), cancelled_waits, server))
        }))?;
        Ok(Session::new(driver, client, server, cancelled_waits))
    }

    /// Connects for reading, which writes nothing: what a commit is on this server does not matter.
    /// The runtime that it is called in serves the connection.
    /// Also says whether a read may change settings through a function.
    pub(crate) async fn connect_for_reads(&self) -> Result<(Client, Process, bool), Error> {
        self.within_limit(async {
            let (client, _) = self.open().await?;
            let (process, may_set) = self.examine_for_reads(&client).await?;
            Ok((client, process, may_set))
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
        connect_error(config, source)
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
        let failed = |source| connect_error(config, source);
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
    async fn examine_for_reads(&self, client: &Client) -> Result<(Process, bool), Error> {
        let sql = format!(
            "{ONLY_READ}; SELECT pg_is_in_recovery(), pid, backend_start, {HAS_SETTING_FUNCTIONS} \
             FROM pg_stat_get_activity(pg_backend_pid())"
        );
        let messages = client.simple_query(&sql).await.map_err(|error| self.failed(error))?;
        let row = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let text = |column: usize| row.and_then(|row| row.get(column)).unwrap_or_default();
        if text(0) == "t" {
            return Err(Error::ReadOnly(self.shown()));
        }
        let process = Process { pid: text(1).to_owned(), began: text(2).to_owned() };
        Ok((process, text(3) == "t"))
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
            return Err(Error::TooOld {
                found: format!("PostgreSQL {}", version / 10_000),
                needed: "13",
            });
        }
        if row.try_get(1).map_err(failed)? {
            return Err(Error::ReadOnly(self.shown()));
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
             {HAS_DEFERRING_FUNCTIONS}, {HAS_SETTING_FUNCTIONS}"
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
            has_setting_functions: row.try_get(10).map_err(failed)?,
        })
    }
}

/// A connection that failed, with what to do about it.
fn connect_error(config: &Config, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    let remedy = remedy::remedy(&source).unwrap_or_default();
    Error::Connect { server: hosts::shown(config), remedy, source: Arc::new(source) as Cause }
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
fn wants_tls(config: &Config) -> bool {
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

/// Has a connection end whose server fell silent, where the URL says nothing of that: after a minute,
/// and not after the two hours of the system, and more, for which nobody would know.
fn notice_silence(config: &mut Config) {
    let untold = Config::new();
    if config.get_keepalives_idle() == untold.get_keepalives_idle() {
        config.keepalives_idle(SILENCE);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(SILENCE_ASKED_EVERY);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(SILENCE_ASKED);
    }
    if config.get_tcp_user_timeout().is_none() {
        // What was sent is not known to have arrived: nothing is asked then.
        config.tcp_user_timeout(SILENCE + SILENCE_ASKED_EVERY * SILENCE_ASKED);
    }
}

fn tls_that_trusts(trusted: &Roots) -> Result<rustls::ClientConfig, Error> {
    let mut roots = rustls::RootCertStore::empty();
    match trusted {
        Roots::System => {
            let found = rustls_native_certs::load_native_certs();
            if roots.add_parsable_certificates(found.certs).0 == 0 {
                return Err(Error::Tls(
                    "the system has no certificates to trust; install `ca-certificates`, add \
                     `sslrootcert=FILE` to the URL, or add `sslmode=disable`"
                        .to_owned(),
                ));
            }
        }
        Roots::File(path) => {
            let unfit = |why: String| {
                let path = path.display();
                Error::Tls(format!(
                    "cannot use `sslrootcert={path}`: {why}; name a file in PEM format"
                ))
            };
            let certificates = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| unfit(format!("the file cannot be read ({error})")))?;
            if certificates.is_empty() {
                return Err(unfit("the file holds no certificate".to_owned()));
            }
            for certificate in certificates {
                roots.add(certificate).map_err(|error| {
                    unfit(format!("the file holds an invalid certificate ({error})"))
                })?;
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Tls(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_falls_silent_is_noticed_when_the_url_says_or_soon() {
        let told = |url: &str| {
            let mut config: Config = url.parse().unwrap();
            notice_silence(&mut config);
            (
                config.get_keepalives_idle(),
                config.get_keepalives_interval(),
                config.get_keepalives_retries(),
                config.get_tcp_user_timeout().copied(),
            )
        };
        let seconds = Duration::from_secs;
        let untold = (seconds(30), Some(seconds(10)), Some(3), Some(seconds(60)));
        assert_eq!(told("postgres://a@b/c"), untold);
        let url = "postgres://a@b/c?keepalives_idle=5&keepalives_interval=6&keepalives_retries=7\
                   &tcp_user_timeout=8";
        assert_eq!(told(url), (seconds(5), Some(seconds(6)), Some(7), Some(seconds(8))));
    }

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
