//! What can be wrong, said so that the reader knows what to do.

use std::fmt;

use groupcommit_core::{Cause, NotRun};
use groupcommit_remote::runtime::NoThread;

use crate::remedy;

/// Why a database could not be opened or used, or a statement was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL cannot be read.
    #[error("the URL is none of PostgreSQL's (postgres://user:password@host:port/database)")]
    Url(#[source] tokio_postgres::Error),

    /// The server could not be reached, or did not let us in.
    #[error("could not connect to {server}{}", remedy::to_append(.source))]
    Connect {
        /// Where it should be.
        server: String,
        /// What was said.
        source: Cause,
    },

    /// A setting of the server would make every ticket a lie.
    #[error("the server's `{name}` is `{value}`, under which a commit is not durable; {remedy}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// What to do.
        remedy: &'static str,
    },

    /// The server is one that repeats another.
    #[error("{0} is a replica, which takes no writes; connect to the primary")]
    Replica(String),

    /// The server is older than the record of transactions that lost commits are settled from.
    #[error("the server is PostgreSQL {0}; 13 or newer is needed")]
    TooOld(String),

    /// The server refused a statement, or a transaction at its commit.
    #[error("the server refused the transaction")]
    Server(#[source] tokio_postgres::Error),

    /// The statement is not one for a transaction that shares its commit.
    #[error("`{0}` may not be used in a transaction that shares its commit; see `exclusive`")]
    Forbidden(&'static str),

    /// The statement's text holds a NUL, which the protocol ends a text with.
    #[error("the statement's text holds a NUL character; give what needs it as a parameter")]
    Nul,

    /// The number of parameters is wrong.
    #[error("the statement has {expected} parameters, and was given {given}")]
    Parameters {
        /// How many it has.
        expected: usize,
        /// How many it was given.
        given: usize,
    },

    /// A column is of a type that no value has a place for.
    #[error("the column `{column}` is of type {ty}; cast it in the statement: `{column}::text`")]
    Column {
        /// Its name.
        column: String,
        /// Its type.
        ty: String,
    },

    /// A statement of the transaction failed before, so nothing of it can be committed.
    #[error("a statement of the transaction failed, so nothing of it is kept")]
    Aborted,

    /// The group is rolled back because of a neighbour or the connection, and runs again.
    #[error("the transaction was interrupted and will be run again")]
    Interrupted,

    /// The connection was lost.
    #[error("the connection to the server was lost")]
    Lost(#[source] Option<tokio_postgres::Error>),

    /// A commit was sent, the connection was lost, and the server's record could not be asked.
    #[error("{0}")]
    Unsettled(#[source] Unsettled),

    /// The thread for connections could not be started.
    #[error("could not start the thread for connections: {0}")]
    Runtime(String),

    /// The certificates to trust could not be read.
    #[error("could not set up TLS: {0}")]
    Tls(String),

    /// Closing failed because of what happened before.
    #[error("the database did not close cleanly")]
    Close {
        /// What had happened.
        source: Cause,
    },

    /// The read was not run.
    #[error("{0}")]
    NotRun(NotRun),
}

impl From<NoThread> for Error {
    fn from(why: NoThread) -> Self {
        Self::Runtime(why.to_string())
    }
}

/// Within which a transaction's number means one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct History {
    /// The cluster and its timeline.
    pub(crate) cluster: String,
    /// When the connection began, by the server's clock.
    pub(crate) began: String,
    /// When the server last began its statistics anew, which it does after a crash.
    pub(crate) reset: String,
}

/// A commit whose outcome is open: what [`Database::resolve`](crate::Database::resolve) needs to
/// settle it later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsettled {
    pub(crate) xid: String,
    pub(crate) history: Box<History>,
    pub(crate) why: String,
}

impl Unsettled {
    /// The transaction's number, as `pg_xact_status` takes it.
    #[must_use]
    pub fn xid(&self) -> &str {
        &self.xid
    }
}

impl fmt::Display for Unsettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the connection was lost while transaction {} was being committed, and its outcome \
             could not be asked for: {}; open the database again and use `resolve`",
            self.xid, self.why
        )
    }
}

impl std::error::Error for Unsettled {}

/// An error with all its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
