//! Opening a database.

use std::{fmt, time::Duration};

use groupcommit_core::{Formation, Limits, Pipeline, Settings};
use groupcommit_remote::Sizes;

use crate::{
    Database, Error,
    database::Inner,
    engine::Writer,
    flusher::Flusher,
    readers::Readers,
    record,
    session::{Connector, Session, Use},
    url,
};

/// How to open a database.
#[derive(Debug, Clone)]
pub struct Options {
    readers: usize,
    limits: Limits,
    formation: Formation,
    reconnect_max: Duration,
    settle_max: Duration,
    roots: Option<Vec<Vec<u8>>>,
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
    /// `innodb_doublewrite` is off.
    TornPages,
    /// The table in which commits are recorded could not be made.
    NoRecord,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TornPages => {
                "`innodb_doublewrite` is off: unless the file system writes pages whole, a power \
                 cut can damage what was committed"
            }
            Self::NoRecord => {
                "there is no table `groupcommit_outcome`, and it could not be created, since the URL \
                 names no database, or this account may not: a commit whose connection is lost \
                 stays unknown, and `read_durable` is refused"
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
            roots: None,
        }
    }

    /// How many connections reads share. One more writes, and one more is opened for
    /// [`Database::read_durable`] and for each [`Database::exclusive`].
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

    /// For how long to ask what became of a commit whose connection was lost, before its tickets say
    /// [unknown](groupcommit_core::Unknown).
    #[must_use]
    pub fn settle_max(mut self, time: Duration) -> Self {
        self.settle_max = time;
        self
    }

    /// The certificates that TLS trusts, in place of the system's: each in PEM or DER. Use
    /// `ssl-mode=REQUIRED` in the URL to have TLS on the loopback too.
    #[must_use]
    pub fn root_certificates(mut self, roots: impl IntoIterator<Item = Vec<u8>>) -> Self {
        self.roots = Some(roots.into_iter().collect());
        self
    }

    /// Connects to the server at `url`: `mysql://user:password@host:port/database`. Of a cluster
    /// whose nodes all take writes, several may be named (`host:port,host:port`): the first is used,
    /// and the next where it cannot be reached.
    ///
    /// A connection that leaves the machine is encrypted, and its server's certificate is verified,
    /// unless the URL says `ssl-mode=DISABLED`.
    ///
    /// Creates the table `groupcommit_outcome` in the database where it is missing, in which each
    /// open database keeps a few rows of what it committed last.
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
        let connector = Connector::new(url::servers(url, self.roots.as_deref())?);
        let mut session = connector.connect(Use::Write)?;
        let record = record::Pipeline::new();
        if session.server.has_record {
            session.begin_record(record).map_err(Error::Server)?;
        }
        let warnings = warnings_of(&session);
        for warning in &warnings {
            tracing::warn!(server = connector.shown(), "{warning}");
        }
        let settings = Settings {
            limits: self.limits,
            label: connector.shown(),
            formation: self.formation,
            ..Settings::default()
        };
        let has_record = session.server.has_record;
        let flusher =
            Flusher::new(connector.clone(), self.reconnect_max, has_record.then_some(record));
        let writer = Writer {
            flusher,
            connector: connector.clone(),
            session: Some(session),
            reconnect_max: self.reconnect_max,
            settle_max: self.settle_max,
            record,
            position: 0,
            previous: Vec::new(),
            sizes: Sizes::new(1),
            has_unsettled: false,
            lost: None,
        };
        let readers = Readers::new(connector.clone(), self.readers);
        let pipeline = Pipeline::new(writer, settings);
        let settle_max = self.settle_max;
        Ok(Database::new(Inner { readers, pipeline, connector, settle_max, has_record, warnings }))
    }
}

fn warnings_of(session: &Session) -> Vec<Warning> {
    let torn = (!session.server.has_doublewrite).then_some(Warning::TornPages);
    let unrecorded = (!session.server.has_record).then_some(Warning::NoRecord);
    torn.into_iter().chain(unrecorded).collect()
}
