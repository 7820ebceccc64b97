//! MySQL's protocol, as the engine for remote databases uses it.

use std::{fmt, time::Duration};

use groupcommit_core::Settled;
use groupcommit_remote::{Attempt, Protocol, Purpose, Setback, TokenSql, Unsettled};

use crate::{
    Error, MySql,
    attempt::{self, Memory},
    connect::Use,
    exclusive::AloneSession,
    execution::Execution,
    readers::{MySqlRows, Readers},
    record::Commit,
    session::{Failed, NO_TABLE, Session, code, is_lost, is_transient},
    settle, url,
};

/// A reason to doubt what a commit promises on this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// `innodb_doublewrite` is off.
    TornPages,
    /// The table in which commits are recorded could not be created.
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
                "the table `groupcommit_outcome` is missing and could not be created: the URL names \
                 no database, or this account may not create it. A commit whose connection is lost \
                 stays unknown, and `read_durable` is refused"
            }
        })
    }
}

type Writer = groupcommit_remote::Writer<MySql>;

impl Protocol for MySql {
    const URL: &'static str = "mysql://user:password@host:port,host:port/database";

    const TOKENS: TokenSql = TokenSql {
        create: "CREATE TABLE IF NOT EXISTS _groupcommit_tokens (
            number BIGINT AUTO_INCREMENT PRIMARY KEY,
            id VARBINARY(255) NOT NULL UNIQUE,
            fingerprint LONGBLOB NOT NULL,
            result LONGBLOB NOT NULL,
            created_unix_s BIGINT NOT NULL
        ) ENGINE=InnoDB",
        find: "SELECT fingerprint, result, created_unix_s FROM _groupcommit_tokens WHERE id = ?",
        keep: "INSERT INTO _groupcommit_tokens (id, fingerprint, result, created_unix_s)
            VALUES (?, ?, ?, ?)",
        forget: "DELETE FROM _groupcommit_tokens WHERE number <= ?",
    };

    type ServerError = mysql_async::Error;
    type Tls = Vec<Vec<u8>>;
    type Warning = Warning;
    type Session = Session;
    type Execution = Execution;
    type Alone = AloneSession;
    type Commit = Commit;
    type Memory = Memory;
    type Readers = Readers;
    type Rows = MySqlRows;

    fn parse(url: &str, tls: Option<&Self::Tls>) -> Result<Self, Error> {
        Ok(Self::new(url::servers(url, tls.map(Vec::as_slice))?))
    }

    fn shown(&self) -> String {
        Self::shown(self)
    }

    fn connect(&self, purpose: Purpose) -> Result<Session, Error> {
        self.connect_now(Use::Of(purpose))
    }

    fn warnings(session: &Session) -> Vec<Warning> {
        let torn = (!session.server.has_doublewrite).then_some(Warning::TornPages);
        let unrecorded = (!session.server.has_record).then_some(Warning::NoRecord);
        torn.into_iter().chain(unrecorded).collect()
    }

    fn has_barrier(session: &Session) -> bool {
        session.server.has_record
    }

    fn is_lost(error: &mysql_async::Error) -> bool {
        is_lost(error)
    }

    fn begin_writing(&self, memory: &mut Memory, session: &mut Session) -> Result<(), Error> {
        if let Some(lost) = memory.lost.take() {
            session.end(&lost);
        }
        if session.server.has_record {
            // The table may be another one now. No outcome is unknown here, or nothing would run.
            session.begin_record(self.record).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    fn attempt(attempt: Attempt<'_, Self>) -> Result<u64, Setback<Self>> {
        attempt::attempt(attempt)
    }

    fn alone(writer: &mut Writer) -> Result<AloneSession, Error> {
        let session = writer.connect_beside(Purpose::Alone)?;
        Ok(AloneSession::new(session, writer.protocol.clone()))
    }

    /// Removes the rows of the record, over another connection where this one was lost.
    fn end_writing(&self, memory: &Memory, session: Option<Session>) {
        let has_record = session.as_ref().is_none_or(|session| session.server.has_record);
        if !has_record || memory.has_unsettled {
            return;
        }
        let text = self.record.close();
        let remove = |mut session: Session| session.run_now(text.as_bytes(), |_, _| {});
        let removed = match session.map(remove) {
            Some(Err(Failed { error, .. })) if !is_lost(&error) => Err(Error::Server(error)),
            Some(Ok(())) => Ok(()),
            _ => self.connect(Purpose::Ask).and_then(|session| {
                remove(session).map_err(|Failed { error, .. }| Error::Server(error))
            }),
        };
        if let Err(error) = removed {
            tracing::debug!(%error, "the record was left behind");
        }
    }

    fn barrier(&self, session: &mut Session) -> Result<(), (mysql_async::Error, Option<Purpose>)> {
        session.run_now(self.record.open().as_bytes(), |_, _| {}).map_err(
            |Failed { error, .. }| {
                let again = match code(&error) {
                    _ if is_lost(&error) || is_transient(&error) => Some(Purpose::Ask),
                    // The table was dropped; a connection that writes creates it.
                    Some(NO_TABLE) => Some(Purpose::Write),
                    _ => None,
                };
                (error, again)
            },
        )
    }

    fn settle(&self, commit: &Commit, within: Duration) -> Result<Settled, Unsettled<Self>> {
        let settled = match commit.0 {
            Some(key) => settle::settle(self, None, key, within),
            None => Err(format!("there is no table `{}`", crate::record::TABLE)),
        };
        settled.map_err(|why| Unsettled { commit: commit.clone(), why })
    }
}
