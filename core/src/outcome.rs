//! The four outcomes of a transaction, and the types that tell them apart.
//!
//! | outcome | type | what the caller may do |
//! |---|---|---|
//! | committed | `Ok(value)` | rely on it: it is on disk |
//! | rejected | [`Failure::Rejected`] | mend the transaction; it was rolled back |
//! | not run | [`Failure::NotRun`] | submit it again: it had no effect and never will |
//! | unknown | [`Failure::Unknown`] | open the database again and look: it may or may not be there |

use std::{error::Error, fmt, sync::Arc};

/// What went wrong in the engine, kept as the engine's own error type.
///
/// Shared, because one failed flush can be the cause of many outcomes.
pub type Cause = Arc<dyn Error + Send + Sync + 'static>;

/// The name of an outcome, without what comes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Committed and flushed.
    Committed,
    /// Rolled back.
    Rejected,
    /// Never had an effect and never will.
    NotRun,
    /// Handed to the engine, but its commit or flush could not be confirmed.
    Unknown,
}

impl Outcome {
    /// Every outcome, in the order in which counters list them.
    pub const ALL: [Self; 4] = [Self::Committed, Self::Rejected, Self::NotRun, Self::Unknown];

    /// The outcome as one lower-case word, as metrics label it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Rejected => "rejected",
            Self::NotRun => "not_run",
            Self::Unknown => "unknown",
        }
    }

    /// The outcome that a ticket's result stands for.
    #[must_use]
    pub const fn of<T, E>(result: &Result<T, Failure<E>>) -> Self {
        match result {
            Ok(_) => Self::Committed,
            Err(failure) => failure.outcome(),
        }
    }
}

/// Why a transaction is not committed; `E` is the caller's own error type.
#[derive(Debug, Clone)]
pub enum Failure<E> {
    /// The transaction was rolled back; nothing of it is in the database.
    Rejected(Rejected<E>),
    /// The transaction had no effect and never will: it is safe to submit it again.
    NotRun(NotRun),
    /// The transaction was handed to the engine, but its commit or its flush could not be
    /// confirmed. It is never retried for the caller; opening the database again shows what is
    /// there.
    Unknown(Unknown),
}

/// Who rejected a transaction.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Rejected<E> {
    /// The transaction's own closure returned this error.
    Caller(E),
    /// The closure succeeded, but the engine refused the transaction, for example because of a
    /// deferred constraint.
    Engine(Cause),
    /// The closure panicked with this message.
    Panicked(String),
}

/// Why a transaction was not run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum NotRun {
    /// The database is closed or closing.
    Closed,
    /// Admission is full; only `try_submit` says so, `submit` waits.
    Overloaded,
    /// The caller cancelled it while it was queued.
    Cancelled,
    /// Its deadline passed before it was committed.
    DeadlinePassed,
    /// A blocking call from inside a transaction that would wait for that transaction itself: on its
    /// own database, or on another that waits for it.
    Reentrant,
    /// Another process kept the database locked for too long.
    Busy(Cause),
    /// The engine could not begin a transaction for another reason.
    Unavailable(Cause),
    /// An earlier flush or commit failed, so this database accepts nothing more until it is
    /// opened again.
    Failed(Cause),
}

/// Why an outcome is unknown.
#[derive(Debug, Clone)]
pub struct Unknown {
    cause: Cause,
}

impl Unknown {
    /// An outcome that is unknown because of `cause`.
    #[must_use]
    pub fn new(cause: Cause) -> Self {
        Self { cause }
    }

    /// What failed.
    #[must_use]
    pub fn cause(&self) -> &Cause {
        &self.cause
    }
}

/// What an [unknown](Unknown) outcome turned out to be, for engines whose database keeps a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It is in the database, and durable.
    Committed,
    /// It is not, and never will be.
    RolledBack,
}

impl<E> Failure<E> {
    /// The name of the outcome.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Rejected(_) => Outcome::Rejected,
            Self::NotRun(_) => Outcome::NotRun,
            Self::Unknown(_) => Outcome::Unknown,
        }
    }

    /// The caller's own error, where the transaction's closure returned one.
    #[must_use]
    pub fn into_caller(self) -> Option<E> {
        match self {
            Self::Rejected(Rejected::Caller(error)) => Some(error),
            _ => None,
        }
    }

    /// What failed in the engine, where that is why.
    #[must_use]
    pub fn cause(&self) -> Option<&Cause> {
        match self {
            Self::Rejected(Rejected::Engine(cause))
            | Self::NotRun(
                NotRun::Busy(cause) | NotRun::Unavailable(cause) | NotRun::Failed(cause),
            ) => Some(cause),
            Self::Unknown(unknown) => Some(&unknown.cause),
            _ => None,
        }
    }
}

impl<E> Failure<E> {
    /// The same failure with the caller's own error in another type.
    pub fn map_caller<F>(self, map: impl FnOnce(E) -> F) -> Failure<F> {
        match self {
            Self::Rejected(Rejected::Caller(error)) => {
                Failure::Rejected(Rejected::Caller(map(error)))
            }
            Self::Rejected(Rejected::Engine(cause)) => Failure::Rejected(Rejected::Engine(cause)),
            Self::Rejected(Rejected::Panicked(message)) => {
                Failure::Rejected(Rejected::Panicked(message))
            }
            Self::NotRun(reason) => Failure::NotRun(reason),
            Self::Unknown(unknown) => Failure::Unknown(unknown),
        }
    }
}

impl<E> From<NotRun> for Failure<E> {
    fn from(reason: NotRun) -> Self {
        Self::NotRun(reason)
    }
}

/// Shows the caller's own error too, with `{:#}`, for which some errors show what caused them: as a
/// source it would have to be an [`Error`] itself, which `anyhow::Error` and `Box<dyn Error>` are not.
impl<E: fmt::Display> fmt::Display for Failure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(Rejected::Panicked(message)) => {
                write!(f, "rejected: it panicked ({message}); nothing of it is kept")
            }
            Self::Rejected(Rejected::Caller(error)) => {
                write!(f, "rejected: {error:#}")
            }
            Self::Rejected(Rejected::Engine(_)) => {
                f.write_str("rejected by the database; nothing of it is kept")
            }
            Self::NotRun(reason) => write!(f, "not run: {reason}"),
            Self::Unknown(_) => f.write_str(
                "unknown: the commit or its flush could not be confirmed; \
                 open the database again to see what is there",
            ),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for Failure<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Rejected(Rejected::Engine(cause)) => Some(cause.as_ref()),
            Self::Rejected(Rejected::Caller(_) | Rejected::Panicked(_)) => None,
            Self::NotRun(reason) => reason.source(),
            Self::Unknown(unknown) => Some(unknown.cause.as_ref()),
        }
    }
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the database is closed",
            Self::Overloaded => "the queue is full; submit again later, or wait with `submit`",
            Self::Cancelled => "it was cancelled while it was queued",
            Self::DeadlinePassed => "its deadline passed before it was committed",
            Self::Reentrant => {
                "a transaction may not block on its own database, or on one that waits for it; \
                 use the transaction it was given"
            }
            Self::Busy(_) => "the database is locked by another process; submit again",
            Self::Unavailable(_) => "the database could not begin a transaction",
            Self::Failed(_) => {
                "an earlier commit or flush of this database failed; open it again to recover"
            }
        })
    }
}

impl Error for NotRun {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Busy(cause) | Self::Unavailable(cause) | Self::Failed(cause) => {
                Some(cause.as_ref())
            }
            _ => None,
        }
    }
}
