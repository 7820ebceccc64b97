//! Opening a database.

use std::{fmt, time::Duration};

use groupcommit_core::{Limits, Pipeline, Settings, TokenLimits};

use crate::{
    Database, Error, Protocol, Purpose, Readers as _, Sizes, database::Inner, engine::Writer,
    flusher::Flusher, tokens,
};

/// Options for opening a database.
#[derive(Clone)]
pub struct Options<P: Protocol> {
    readers: usize,
    settings: Settings,
    reconnect_timeout: Duration,
    settle_timeout: Duration,
    tls: Option<P::Tls>,
    keeps_tokens: bool,
}

impl<P: Protocol> fmt::Debug for Options<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").finish_non_exhaustive()
    }
}

impl<P: Protocol> Default for Options<P> {
    /// The defaults: two connections for reads, [`Limits::default`], 10 s to reconnect, 30 s to find
    /// out what became of a lost commit.
    fn default() -> Self {
        Self {
            readers: 2,
            settings: Settings::default(),
            reconnect_timeout: Duration::from_secs(10),
            settle_timeout: Duration::from_secs(30),
            tls: None,
            keeps_tokens: false,
        }
    }
}

#[cfg(feature = "experiments")]
impl<P: Protocol> groupcommit_core::Experiments for Options<P> {
    fn settings(&mut self) -> &mut Settings {
        &mut self.settings
    }
}

impl<P: Protocol> Options<P> {
    /// How many connections reads share (default: 2). One more connection writes, and one more is
    /// opened for [`Database::read_durable`] and [`Database::exclusive`].
    #[must_use]
    pub fn readers(mut self, connections: usize) -> Self {
        self.readers = connections.max(1);
        self
    }

    /// How much may be in flight at once.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// How long to reconnect, with growing pauses, before waiting transactions are
    /// [not run](groupcommit_core::NotRun::Unavailable) (default: 10 s).
    #[must_use]
    pub fn reconnect_timeout(mut self, timeout: Duration) -> Self {
        self.reconnect_timeout = timeout;
        self
    }

    /// How long to ask what became of a commit whose connection was lost, before its tickets resolve
    /// to [unknown](groupcommit_core::Unknown) (default: 30 s). The server is asked at least once, and
    /// replicas that have yet to confirm the commit get at least 1 s.
    #[must_use]
    pub fn settle_timeout(mut self, timeout: Duration) -> Self {
        self.settle_timeout = timeout;
        self
    }

    /// Keeps tokens, so that transactions can take effect [once](groupcommit_core::Submitter::once), within
    /// these limits. Opening creates the table `_groupcommit_tokens` if it is missing. Without this option
    /// and without the table, transactions with a token are rejected.
    #[must_use]
    pub fn tokens(mut self, limits: TokenLimits) -> Self {
        self.settings.tokens = limits;
        self.keeps_tokens = true;
        self
    }

    /// What TLS trusts, in place of the system's certificates and of what the URL says. To encrypt
    /// connections on the loopback too, ask for TLS in the URL.
    #[must_use]
    pub fn tls(mut self, trusted: P::Tls) -> Self {
        self.tls = Some(trusted);
        self
    }

    /// Connects to the server at `url`. The engine's crate describes the URL.
    ///
    /// # Durability
    ///
    /// The server's settings that make a commit durable are checked here and at every later
    /// connection.
    ///
    /// # Errors
    ///
    /// [`Error`] says why the promises could not be kept on this server.
    pub fn open(&self, url: &str) -> Result<Database<P>, Error<P>> {
        let protocol = P::parse(url, self.tls.as_ref())?;
        let mut session = protocol.connect(Purpose::Write)?;
        let mut memory = P::Memory::default();
        protocol.begin_writing(&mut memory, &mut session)?;
        let warnings = P::warnings(&session);
        for warning in &warnings {
            tracing::warn!(server = protocol.shown(), "{warning}");
        }
        let settings = Settings { label: protocol.shown(), ..self.settings.clone() };
        let has_barrier = P::has_barrier(&session);
        let mut writer = Writer {
            flusher: Flusher::new(protocol.clone(), self.reconnect_timeout, has_barrier),
            protocol: protocol.clone(),
            session: Some(session),
            memory,
            reconnect_timeout: self.reconnect_timeout,
            settle_timeout: self.settle_timeout,
            sizes: Sizes::new(1),
        };
        if self.keeps_tokens {
            tokens::create(&mut writer)?;
        }
        let readers = P::Readers::new(protocol.clone(), self.readers);
        let pipeline = Pipeline::new(writer, settings);
        let settle_timeout = self.settle_timeout;
        Ok(Database::new(Inner {
            readers,
            pipeline,
            protocol,
            settle_timeout,
            has_barrier,
            warnings,
        }))
    }
}
