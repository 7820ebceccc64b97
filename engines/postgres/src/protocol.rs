//! PostgreSQL's protocol, as the engine for remote databases uses it.

use std::{fmt, sync::Arc, time::Duration};

use groupcommit_core::Settled;
use groupcommit_remote::{Attempt, Protocol, Purpose, Setback, TokenSql, Unsettled};

use crate::{
    Error, Postgres,
    attempt::{self, Memory},
    execution::Execution,
    readers::{PostgresRows, Readers},
    session::{Session, is_lost},
    settle::{self, Commit},
};

/// A reason to doubt what a commit promises on this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// `full_page_writes` is off.
    TornPages,
    /// Commits wait for replicas, but not until these have flushed.
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
                 primary when it returns, but perhaps on no replica"
            }
        })
    }
}

type Writer = groupcommit_remote::Writer<Postgres>;

impl Protocol for Postgres {
    const URL: &'static str = "postgres://user:password@host:port/database";

    const TOKENS: TokenSql = TokenSql {
        create: "CREATE TABLE IF NOT EXISTS _groupcommit_tokens (
            number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id BYTEA NOT NULL UNIQUE,
            fingerprint BYTEA NOT NULL,
            result BYTEA NOT NULL,
            created_unix_s BIGINT NOT NULL
        )",
        find: "SELECT fingerprint, result, created_unix_s FROM _groupcommit_tokens WHERE id = $1",
        keep: "INSERT INTO _groupcommit_tokens (id, fingerprint, result, created_unix_s)
            VALUES ($1, $2, $3, $4)",
        forget: "DELETE FROM _groupcommit_tokens WHERE number <= $1",
    };

    type ServerError = tokio_postgres::Error;
    type Tls = Arc<rustls::ClientConfig>;
    type Warning = Warning;
    type Session = Session;
    type Execution = Execution;
    type Alone = Session;
    type Commit = Commit;
    type Memory = Memory;
    type Readers = Readers;
    type Rows = PostgresRows;

    fn parse(url: &str, tls: Option<&Self::Tls>) -> Result<Self, Error> {
        Self::of_url(url, tls)
    }

    fn shown(&self) -> String {
        Self::shown(self)
    }

    fn connect(&self, _: Purpose) -> Result<Session, Error> {
        Self::connect(self)
    }

    fn is_usable(session: &Session) -> bool {
        session.is_there()
    }

    fn warnings(session: &Session) -> Vec<Warning> {
        let server = &session.server;
        let torn = (!server.full_page_writes).then_some(Warning::TornPages);
        let mode = server.synchronous_commit.as_str();
        let unflushed = (server.is_replicated && matches!(mode, "local" | "remote_write"))
            .then_some(Warning::ReplicasUnflushed);
        torn.into_iter().chain(unflushed).collect()
    }

    fn is_lost(error: &tokio_postgres::Error) -> bool {
        is_lost(error)
    }

    fn members_max(memory: &Memory) -> usize {
        memory.members_max()
    }

    fn attempt(attempt: Attempt<'_, Self>) -> Result<u64, Setback<Self>> {
        attempt::attempt(attempt)
    }

    /// The writer's own. The next group gets a new one, which knows the schema as it is then.
    fn alone(writer: &mut Writer) -> Result<Session, Error> {
        writer.take_session()
    }

    fn barrier(
        &self,
        session: &mut Session,
    ) -> Result<(), (tokio_postgres::Error, Option<Purpose>)> {
        session.block_on(session.barrier()).map_err(|error| {
            let again = is_lost(&error).then_some(Purpose::Ask);
            (error, again)
        })
    }

    fn settle(&self, commit: &Commit, within: Duration) -> Result<Settled, Unsettled<Self>> {
        let settled = settle::settle(self, commit, None, within);
        settled.map_err(|why| Unsettled { commit: commit.clone(), why })
    }
}
