//! The one error type, which keeps what the database itself said.

use std::{error::Error as StdError, fmt, sync::Arc};

use super::{classify::classify, kind::Kind};
use crate::{Cause, Failure, Rejected};

/// What went wrong: its [`Kind`], the same for every database, and as its
/// [source](StdError::source) what the database itself said, in the error type of its engine.
#[derive(Debug, Clone)]
pub struct Error {
    kind: Kind,
    code: Option<Box<str>>,
    cause: Cause,
}

impl Error {
    /// What sort of error it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The database's own code, where it gave one: SQLite's extended result code, PostgreSQL's
    /// SQLSTATE, MySQL's number.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// What the database said, in the error type of its engine or of its client.
    #[must_use]
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// What the database said of a transaction or a read that came to `failure`, whoever noticed:
    /// the statement, or the commit. `None` where it is not the database that said no.
    #[must_use]
    pub fn of_failure(failure: &Failure<Self>) -> Option<Self> {
        match failure {
            Failure::Rejected(Rejected::Caller(error)) => Some(error.clone()),
            other => other.cause().cloned().map(Self::of),
        }
    }

    /// What `cause` is, which an engine or its client gave.
    #[must_use]
    pub fn of(cause: Cause) -> Self {
        if let Some(known) = cause.downcast_ref::<Self>() {
            return known.clone();
        }
        let (kind, code) = classify(cause.as_ref());
        Self { kind, code: code.map(Into::into), cause }
    }

    pub(super) fn from_engine(error: impl StdError + Send + Sync + 'static) -> Self {
        Self::of(Arc::new(error))
    }

    /// A failure of an engine's own error type, in this one.
    pub(super) fn from_failure<E>(failure: Failure<E>) -> Failure<Self>
    where
        E: StdError + Send + Sync + 'static,
    {
        failure.map_caller(Self::from_engine)
    }

    pub(super) fn url(why: impl Into<String>) -> Self {
        Self { kind: Kind::Url, code: None, cause: message_cause(why.into()) }
    }
}

fn message_cause(message: String) -> Cause {
    Arc::from(Box::<dyn StdError + Send + Sync>::from(message))
}

/// `{:#}` shows also what the database said.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(code) = &self.code {
            write!(f, " (code {code})")?;
        }
        if f.alternate() { write!(f, ": {:#}", self.cause) } else { Ok(()) }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.cause.as_ref())
    }
}
