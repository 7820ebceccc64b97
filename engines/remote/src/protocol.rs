//! What is different from one protocol to the next.

use std::{
    fmt::{Debug, Display},
    future::Future,
    sync::Arc,
    time::Duration,
};

use groupcommit_core::Settled;
use groupcommit_statement::{Statement, StatementResult, Value};

use crate::{
    Error, TokenSql, Unsettled,
    engine::{Attempt, Setback, Writer},
};

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Executing groups.
    Write,
    /// Asking what became of a commit, or making one durable.
    Ask,
    /// An exclusive.
    Alone,
}

/// A protocol, and how to reach the servers of one database over it. Clones share what they learn.
pub trait Protocol: Clone + Debug + Send + Sync + 'static {
    /// The form of a URL, for messages.
    const URL: &'static str;

    /// How tokens are kept.
    const TOKENS: TokenSql;

    /// The client's own error, which holds the server's.
    type ServerError: std::error::Error + Send + Sync + 'static;

    /// What TLS trusts, in place of the system's certificates.
    type Tls: Clone + Debug;

    /// A reason to doubt what a commit promises on this server, as a sentence.
    type Warning: Debug + Display + Clone + PartialEq + Send + Sync;

    /// An open connection that writes.
    type Session: Send;

    /// One attempt at a group.
    type Execution: Execution<Self>;

    /// What an exclusive is given.
    type Alone: Alone<Self>;

    /// Identifies one commit on the server. Its text is a noun, for messages.
    type Commit: Debug + Display + Clone + PartialEq + Eq + Send + Sync;

    /// What the writer keeps from one group to the next.
    type Memory: Default + Send;

    /// The connections that reads share.
    type Readers: Readers<Self>;

    /// The rows of a read.
    type Rows: RowSource<Self>;

    /// Reads the URL.
    ///
    /// # Errors
    ///
    /// [`Error::Url`] or [`Error::Tls`].
    fn parse(url: &str, tls: Option<&Self::Tls>) -> Result<Self, Error<Self>>;

    /// The address of the servers, for messages; never with a password.
    fn shown(&self) -> String;

    /// Connects, and verifies that a commit on this server is durable.
    ///
    /// # Errors
    ///
    /// [`Error::Connect`], or what the server lacks.
    fn connect(&self, purpose: Purpose) -> Result<Self::Session, Error<Self>>;

    /// Whether the connection is still there, as far as this end was told.
    fn is_usable(_session: &Self::Session) -> bool {
        true
    }

    /// Reasons to doubt what a commit promises on this server.
    fn warnings(session: &Self::Session) -> Vec<Self::Warning>;

    /// Whether [`barrier`](Self::barrier) works on this server.
    fn has_barrier(_session: &Self::Session) -> bool {
        true
    }

    /// Whether the connection was lost with this error.
    fn is_lost(error: &Self::ServerError) -> bool;

    /// Prepares a new connection for groups.
    ///
    /// # Errors
    ///
    /// Why the connection is of no use.
    fn begin_writing(
        &self,
        _memory: &mut Self::Memory,
        _session: &mut Self::Session,
    ) -> Result<(), Error<Self>> {
        Ok(())
    }

    /// The most members of the next attempt.
    fn members_max(_memory: &Self::Memory) -> usize {
        usize::MAX
    }

    /// Attempts a group: runs the members, and more of the group, in one transaction, and returns how
    /// many commits that took.
    ///
    /// REQUIRES of it: with an error, nothing of the attempt is in the database, and members are
    /// rejected only for what does not depend on the attempt.
    ///
    /// # Errors
    ///
    /// Why there was no commit.
    fn attempt(attempt: Attempt<'_, Self>) -> Result<u64, Setback<Self>>;

    /// The connection that an exclusive is given.
    ///
    /// # Errors
    ///
    /// Why there is none.
    fn alone(writer: &mut Writer<Self>) -> Result<Self::Alone, Error<Self>>;

    /// Ends the writing: the database is being closed.
    fn end_writing(&self, _memory: &Self::Memory, _session: Option<Self::Session>) {}

    /// Waits until everything that is committed on the server now is durable.
    ///
    /// # Errors
    ///
    /// What went wrong, and the connection over which to try again, where that may help.
    fn barrier(
        &self,
        session: &mut Self::Session,
    ) -> Result<(), (Self::ServerError, Option<Purpose>)>;

    /// Finds out, for at most `within`, what became of a commit that was left open before.
    ///
    /// # Errors
    ///
    /// Why that is not known.
    fn settle(&self, commit: &Self::Commit, within: Duration) -> Result<Settled, Unsettled<Self>>;
}

/// One attempt at a group, as its members see it.
pub trait Execution<P: Protocol>: Send {
    /// Runs statements and waits for their results.
    ///
    /// # Errors
    ///
    /// See [`Transaction::run`](crate::Transaction::run).
    fn run_now(&mut self, plan: &Arc<[Statement]>) -> Result<Vec<StatementResult>, Error<P>>;

    /// Sends statements whose results are delivered after the commit.
    ///
    /// # Errors
    ///
    /// What keeps them from being sent.
    fn send_plan(&mut self, plan: &Arc<[Statement]>) -> Result<(), Error<P>>;
}

/// A connection that one caller has to himself.
pub trait Alone<P: Protocol>: Send {
    /// Runs one statement.
    ///
    /// # Errors
    ///
    /// The server's.
    fn run(&mut self, statement: &Statement) -> Result<StatementResult, Error<P>>;

    /// Runs SQL of any number of statements.
    ///
    /// # Errors
    ///
    /// The server's.
    fn batch(&mut self, sql: &str) -> Result<(), Error<P>>;

    /// Ends the use of the connection, and says whether a transaction was left open.
    ///
    /// # Errors
    ///
    /// The connection was lost.
    fn end(self) -> Result<bool, P::ServerError>;
}

/// The connections that reads share.
pub trait Readers<P: Protocol>: Send + Sync {
    /// At most so many connections, none of them open yet.
    fn new(protocol: P, connections: usize) -> Self;

    /// Refuses every read from now on.
    fn close(&self);

    /// Sends a read and returns its rows as they arrive.
    fn stream(&self, read: &Statement) -> impl Future<Output = Result<P::Rows, Error<P>>> + Send;

    /// Runs a read to its end.
    fn whole(
        &self,
        read: &Statement,
    ) -> impl Future<Output = Result<StatementResult, Error<P>>> + Send;
}

/// The rows of a read, as they arrive.
pub trait RowSource<P: Protocol>: Send {
    /// The names of the columns.
    fn columns(&self) -> Vec<String>;

    /// The next row; `None` at the end.
    ///
    /// # Cancel safety
    ///
    /// No row is lost when the future is dropped before it is ready.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<Value>>, Error<P>>> + Send;
}
