//! What can be wrong, said so that the reader knows what to do.

use std::fmt;

use groupcommit_core::{Cause, NotRun};
use groupcommit_remote::runtime::NoThread;

use crate::record::Key;

/// Why a database could not be opened or used, or a statement was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL cannot be read.
    #[error("the URL is none of MySQL's (mysql://user:password@host:port,host:port/database): {0}")]
    Url(String),

    /// The server could not be reached, or did not let us in.
    #[error("could not connect to {server}")]
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

    /// The server takes no writes.
    #[error("{0} is set to `read_only`; connect to the primary")]
    ReadOnly(String),

    /// The server refused a statement, or a transaction at its commit.
    #[error("the server refused the transaction")]
    Server(#[source] mysql_async::Error),

    /// The statement is not one for a transaction that shares its commit.
    #[error("`{0}` may not be used in a transaction that shares its commit; see `exclusive`")]
    Forbidden(String),

    /// The text holds more than one statement.
    #[error("the text holds more than one statement; give each as one of its own")]
    Several,

    /// A quotation or a comment is not ended.
    #[error("the statement ends within what `{0}` begins")]
    Unfinished(&'static str),

    /// The number of parameters is wrong.
    #[error("the statement has {expected} parameters, and was given {given}")]
    Parameters {
        /// How many it has.
        expected: usize,
        /// How many it was given.
        given: usize,
    },

    /// The server has no such number.
    #[error("the parameter {0} is no finite number, and the server has no other")]
    NotFinite(f64),

    /// A value of a kind that this engine does not know.
    #[error("a parameter is of a kind that this engine does not know")]
    Value,

    /// The statement is larger than the server takes.
    #[error(
        "the statement is of {bytes} bytes, and the server takes {bytes_max}; raise its `max_allowed_packet`"
    )]
    TooLarge {
        /// Its size, in bytes.
        bytes: usize,
        /// What the server takes, in bytes.
        bytes_max: usize,
    },

    /// Something ended the transaction of a group, or left one open.
    #[error("a statement ended the transaction that it ran in, or left one open behind it")]
    Ended,

    /// The group is rolled back because of a neighbour or the connection, and runs again.
    #[error("the transaction was interrupted and will be run again")]
    Interrupted,

    /// The connection was lost.
    #[error("the connection to the server was lost")]
    Lost(#[source] Option<mysql_async::Error>),

    /// A commit was sent, the connection was lost, and it could not be found out what became of it.
    #[error("{0}")]
    Unsettled(#[source] Unsettled),

    /// The read cannot be made durable.
    #[error(
        "there is no table `groupcommit_outcome` to wait for the log with; create it, or let this account do so"
    )]
    NoRecord,

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

/// A commit whose outcome is open: what [`Database::resolve`](crate::Database::resolve) needs to
/// settle it later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsettled {
    /// `None` where nothing is recorded.
    pub(crate) key: Option<Key>,
    pub(crate) why: String,
}

impl fmt::Display for Unsettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the connection was lost while a transaction was being committed, and its outcome \
             could not be found out: {}; open the database again and {}",
            self.why,
            if self.key.is_some() { "use `resolve`" } else { "look" }
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
