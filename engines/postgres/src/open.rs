//! Opening a database.

use std::{fmt, sync::Arc, time::Duration};

use groupcommit_core::{Formation, Limits, Pipeline, Settings};
use groupcommit_remote::Sizes;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use tokio_postgres::{
    Config,
    config::{SslMode, TargetSessionAttrs},
};

use crate::{
    Database, Error,
    database::Inner,
    engine::{SAVEPOINTS_MAX, Writer},
    flusher::Flusher,
    hosts::are_sockets,
    readers::Readers,
    session::{CONNECT_MAX, Connector, wants_tls},
    url::{self, Roots},
};

/// How long a server may say nothing before it is asked whether it is there, how often it is asked,
/// and how many times.
const SILENCE: Duration = Duration::from_secs(30);
const SILENCE_ASKED_EVERY: Duration = Duration::from_secs(10);
const SILENCE_ASKED: u32 = 3;

/// How to open a database.
#[derive(Debug, Clone)]
pub struct Options {
    readers: usize,
    limits: Limits,
    formation: Formation,
    reconnect_max: Duration,
    settle_max: Duration,
    tls: Option<Arc<rustls::ClientConfig>>,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// A reason to doubt what a commit promises on this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// `full_page_writes` is off.
    TornPages,
    /// Replicas are waited for, but not until they have flushed.
    ReplicasUnflushed,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TornPages => {
                "`full_page_writes` is off: unless the file system writes pages whole, a power cut \
                 can damage what was committed"
            }
            Self::ReplicasUnflushed => {
                "`synchronous_commit` is `local` or `remote_write`: a commit is durable on the \
                 primary when it returns, and perhaps on no replica"
            }
        })
    }
}

impl Options {
    /// Two connections for reads; [`Limits::default`]; a server may be out of reach for 10 s before
    /// transactions are not run, and a lost commit is asked after for 30 s.
    #[must_use]
    pub fn new() -> Self {
        Self {
            readers: 2,
            limits: Limits::default(),
            formation: Formation::default(),
            reconnect_max: Duration::from_secs(10),
            settle_max: Duration::from_secs(30),
            tls: None,
        }
    }

    /// How many connections reads share. One more writes, and one more is opened for
    /// [`Database::read_durable`] and [`Database::exclusive`].
    #[must_use]
    pub fn readers(mut self, connections: usize) -> Self {
        self.readers = connections.max(1);
        self
    }

    /// How much may be in flight at once.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How groups are formed: for experiments.
    #[doc(hidden)]
    #[must_use]
    pub fn formation(mut self, formation: Formation) -> Self {
        self.formation = formation;
        self
    }

    /// For how long to connect anew, with growing pauses, before what waits is
    /// [not run](groupcommit_core::NotRun::Unavailable).
    #[must_use]
    pub fn reconnect_max(mut self, time: Duration) -> Self {
        self.reconnect_max = time;
        self
    }

    /// For how long to ask the server what became of a commit whose connection was lost, before its
    /// tickets say [unknown](groupcommit_core::Unknown). It is asked once at least, and replicas that
    /// have yet to confirm the commit are given a second at least.
    #[must_use]
    pub fn settle_max(mut self, time: Duration) -> Self {
        self.settle_max = time;
        self
    }

    /// What TLS trusts, in place of the system's certificates and of what the URL says. Use
    /// `sslmode=require` in the URL to have it on the loopback too.
    #[must_use]
    pub fn tls(mut self, config: Arc<rustls::ClientConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Connects to the server at `url`: `postgres://user:password@host:port/database`, or the
    /// `key=value` form.
    ///
    /// A connection that leaves the machine is encrypted, and its server's certificate is verified,
    /// unless the URL says `sslmode=disable`. With `sslrootcert=FILE` that certificate must be signed
    /// by one in this file, and connections on the machine are encrypted as well. As it is always
    /// verified, `sslmode=verify-full` and `verify-ca` are the same as `require`.
    ///
    /// Where the URL names several hosts, they are tried in turn, each for `connect_timeout` (10 s
    /// unless it says otherwise), and the first that takes writes is used.
    ///
    /// # Durability
    ///
    /// The settings of the server that a commit's durability rests on are looked at here and at
    /// every later connection.
    ///
    /// # Errors
    ///
    /// What keeps the database from being used so that every promise holds; see [`Error`].
    pub fn open(&self, url: &str) -> Result<Database, Error> {
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
        let tls = match (&self.tls, wants_tls(&config) || names_roots) {
            (_, false) => None,
            (Some(tls), true) => Some(tls.clone()),
            (None, true) => Some(Arc::new(tls_that_trusts(&roots.unwrap_or(Roots::System))?)),
        };
        if tls.is_some() {
            // Never in the clear because the server would rather not.
            config.ssl_mode(SslMode::Require);
        }
        let connector = Connector { config, tls };
        let session = connector.connect()?;
        let warnings = warnings_of(&session.server);
        for warning in &warnings {
            tracing::warn!(server = connector.shown(), "{warning}");
        }
        let settings = Settings {
            limits: self.limits,
            label: connector.shown(),
            formation: self.formation,
            ..Settings::default()
        };
        let writer = Writer {
            flusher: Flusher::new(connector.clone(), self.reconnect_max),
            connector: connector.clone(),
            session: Some(session),
            reconnect_max: self.reconnect_max,
            settle_max: self.settle_max,
            sizes: Sizes::new(1),
            unguarded: Sizes::new(SAVEPOINTS_MAX),
        };
        let readers = Readers::new(connector.clone(), self.readers);
        let pipeline = Pipeline::new(writer, settings);
        let settle_max = self.settle_max;
        Ok(Database::new(Inner { readers, pipeline, connector, settle_max, warnings }))
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

fn warnings_of(server: &crate::session::Server) -> Vec<Warning> {
    let torn = (!server.full_page_writes).then_some(Warning::TornPages);
    let mode = server.synchronous_commit.as_str();
    let unflushed = (server.is_replicated && matches!(mode, "local" | "remote_write"))
        .then_some(Warning::ReplicasUnflushed);
    torn.into_iter().chain(unflushed).collect()
}

fn tls_that_trusts(trusted: &Roots) -> Result<rustls::ClientConfig, Error> {
    let mut roots = rustls::RootCertStore::empty();
    match trusted {
        Roots::System => {
            let found = rustls_native_certs::load_native_certs();
            if roots.add_parsable_certificates(found.certs).0 == 0 {
                return Err(Error::Tls(
                    "the system has no certificates to trust; install them (`ca-certificates`), \
                     name your own with `sslrootcert=FILE` in the URL, or say `sslmode=disable` there"
                        .to_owned(),
                ));
            }
        }
        Roots::File(path) => {
            let unfit = |why: String| {
                let path = path.display();
                Error::Tls(format!("`sslrootcert` names {path}, {why}; name a file in PEM format"))
            };
            let certificates = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| unfit(format!("which cannot be read ({error})")))?;
            if certificates.is_empty() {
                return Err(unfit("in which there is no certificate".to_owned()));
            }
            for certificate in certificates {
                roots
                    .add(certificate)
                    .map_err(|error| unfit(format!("which holds one that is none ({error})")))?;
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
}
