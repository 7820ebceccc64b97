//! Errors of the engines for remote databases, which say what failed, where, and what to do.

use std::fmt;

use groupcommit_core::{Cause, NotRun};

use crate::{Protocol, runtime::NoThread};

/// Why a database could not be opened or used, or why a statement was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error<P: Protocol> {
    /// The URL cannot be read.
    #[error("cannot read the URL; expected {}", P::URL)]
    Url(#[source] Cause),

    /// The server could not be reached, or rejected the connection.
    #[error("could not connect to {server}{}", to_append(.remedy))]
    Connect {
        /// The address of the server.
        server: String,
        /// What to do about it; empty where the source has to be enough.
        remedy: &'static str,
        /// What the client or the server said.
        source: Cause,
    },

    /// Under this setting of the server a commit is not durable.
    #[error("the server's `{name}` is `{value}`, under which a commit is not durable; {remedy}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// What to do.
        remedy: &'static str,
    },

    /// The server is a replica, or set to read-only.
    #[error("{0} takes no writes; connect to the primary")]
    ReadOnly(String),

    /// The server is too old.
    #[error("the server is {found}; {needed} or newer is needed")]
    TooOld {
        /// The server's version.
        found: String,
        /// The oldest version that works.
        needed: &'static str,
    },

    /// The server refused a statement, or a transaction at its commit.
    #[error("the server refused the statement or its commit")]
    Server(#[source] P::ServerError),

    /// The statement may not run in a transaction that shares its commit.
    #[error("`{0}` is not allowed in a transaction that shares its commit; use `exclusive`")]
    Forbidden(String),

    /// The statement's text holds a NUL character, which the protocol cannot carry.
    #[error("the statement's text holds a NUL character; pass the value as a parameter")]
    Nul,

    /// The text holds more than one statement.
    #[error("the text holds more than one statement; submit each as a statement by itself")]
    Several,

    /// A quotation or a comment has no end.
    #[error("the statement has a `{0}` without an end")]
    Unfinished(&'static str),

    /// The number of parameters is wrong.
    #[error("the statement has {expected} parameters, but {given} were given")]
    Parameters {
        /// How many the statement has.
        expected: usize,
        /// How many were given.
        given: usize,
    },

    /// The server cannot store the value.
    #[error("{0}")]
    Value(String),

    /// The statement is larger than the server accepts.
    #[error(
        "the statement is {bytes} bytes long, and the server accepts {bytes_max}; raise its \
         `max_allowed_packet`"
    )]
    TooLarge {
        /// The statement's size, in bytes.
        bytes: usize,
        /// The server's limit, in bytes.
        bytes_max: usize,
    },

    /// No [`Value`](groupcommit_statement::Value) can hold the type of a column.
    #[error("the column `{column}` has the type {ty}; cast it in the statement: `{column}::text`")]
    Column {
        /// The column's name.
        column: String,
        /// Its type.
        ty: String,
    },

    /// An earlier statement of the transaction failed, so the transaction was rolled back.
    #[error("an earlier statement of the transaction failed; the transaction was rolled back")]
    Aborted,

    /// A statement ended the transaction that it ran in.
    #[error(
        "a statement ended the transaction that it ran in; use `exclusive` for such statements"
    )]
    Ended,

    /// An exclusive left a transaction open, which was rolled back.
    #[error("`exclusive` left a transaction open, which was rolled back; end it with `COMMIT`")]
    LeftOpen,

    /// The group is rolled back because of a neighbour or the connection, and runs again.
    #[error("the transaction was interrupted and runs again")]
    Interrupted,

    /// The connection was lost.
    #[error("the connection to the server was lost")]
    Lost(#[source] Option<P::ServerError>),

    /// The connection was lost at a commit, and the outcome of the commit is not known.
    #[error("{0}")]
    Unsettled(#[source] Unsettled<P>),

    /// A read cannot be made durable without the engine's own table.
    #[error(
        "a durable read needs the table `groupcommit_outcome`; create it, or let this account \
         create it"
    )]
    NoRecord,

    /// The thread for connections could not be started.
    #[error("could not start the thread for connections: {0}")]
    Runtime(String),

    /// TLS could not be set up.
    #[error("could not set up TLS: {0}")]
    Tls(String),

    /// An earlier commit failed, so closing is not clean.
    #[error("the database did not close cleanly")]
    Close {
        /// The earlier failure.
        source: Cause,
    },

    /// The read was not run.
    #[error("{0}")]
    NotRun(NotRun),
}

fn to_append(remedy: &str) -> String {
    if remedy.is_empty() { String::new() } else { format!(": {remedy}") }
}

impl<P: Protocol> Error<P> {
    /// An error of the client or of the server, whichever lost the connection or not.
    pub fn of_server(error: P::ServerError) -> Self {
        if P::is_lost(&error) { Self::Lost(Some(error)) } else { Self::Server(error) }
    }

    /// The URL cannot be read, for this reason.
    pub fn url(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Url(Cause::from(why.into()))
    }
}

impl<P: Protocol> From<NoThread> for Error<P> {
    fn from(why: NoThread) -> Self {
        Self::Runtime(why.to_string())
    }
}

/// A commit whose outcome is not known. Pass the ticket's outcome to
/// [`Database::resolve`](crate::Database::resolve) to find it out later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsettled<P: Protocol> {
    /// Identifies the commit on the server.
    pub commit: P::Commit,
    /// Why the outcome could not be found out.
    pub why: String,
}

impl<P: Protocol> fmt::Display for Unsettled<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { commit, why } = self;
        write!(
            f,
            "the connection was lost while {commit} was being committed, and the outcome is not \
             known: {why}; open the database again and use `resolve`"
        )
    }
}

impl<P: Protocol> std::error::Error for Unsettled<P> {}

/// An error with all its causes, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
