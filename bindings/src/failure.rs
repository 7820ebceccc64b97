//! A failure in words that every language can build its own error from.

use std::{error::Error as StdError, fmt};

use groupcommit::{
    Failure, NotRun, OnceError, Outcome, Rejected,
    sql::{Error, Kind},
    sqlite::rusqlite,
};

/// Why something is not committed, or could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Rejected, not run or unknown.
    pub outcome: Outcome,
    /// A sentence: what the database said, where it said something.
    pub message: String,
    /// What sort of error the database reported.
    pub kind: Option<Kind>,
    /// The database's own code.
    pub code: Option<String>,
    /// Why it was not run, as one word: `closed`, `deadline_passed`.
    pub reason: Option<&'static str>,
}

impl Description {
    /// Of a transaction or a read.
    #[must_use]
    pub fn of(failure: &Failure<Error>) -> Self {
        Self::of_any(failure, |error| Some(error.clone()))
    }

    /// Of a transaction with a token.
    #[must_use]
    pub fn of_once(failure: &Failure<OnceError<Error>>) -> Self {
        Self::of_any(failure, |error| match error {
            OnceError::Caller(error) => Some(error.clone()),
            OnceError::Engine(cause) => Some(Error::of(cause.clone())),
            _ => None,
        })
    }

    /// Of a transaction whose closure returns errors of another type. `caller` says what the database
    /// said in one, where it did.
    pub fn of_any<E: fmt::Display>(
        failure: &Failure<E>,
        caller: impl FnOnce(&E) -> Option<Error>,
    ) -> Self {
        let (error, own) = match failure {
            Failure::Rejected(Rejected::Caller(error)) => (caller(error), Some(error.to_string())),
            other => (other.cause().cloned().map(Error::of), None),
        };
        let said = error.as_ref().map(|error| sentence(error.cause().as_ref()));
        let message = match (failure, said, own) {
            (Failure::Rejected(Rejected::Caller(_) | Rejected::Engine(_)), Some(said), _)
            | (_, None, Some(said)) => said,
            (_, Some(said), _) => format!("{failure} ({said})"),
            (_, None, None) => failure.to_string(),
        };
        let reason = if let Failure::NotRun(reason) = failure { Some(word(reason)) } else { None };
        Self { reason, ..Self::new(failure.outcome(), message, error.as_ref()) }
    }

    /// Of opening or closing a database.
    #[must_use]
    pub fn of_error(error: &Error) -> Self {
        Self::new(Outcome::Rejected, sentence(error.cause().as_ref()), Some(error))
    }

    fn new(outcome: Outcome, message: String, error: Option<&Error>) -> Self {
        let code = error.and_then(Error::code).map(str::to_owned);
        Self { outcome, message, kind: error.map(Error::kind), code, reason: None }
    }

    /// The name of the kind in lower case: `foreign_key`.
    #[must_use]
    pub fn kind_name(&self) -> Option<String> {
        self.kind.map(|kind| {
            let mut name = String::new();
            for letter in format!("{kind:?}").chars() {
                if letter.is_uppercase() && !name.is_empty() {
                    name.push('_');
                }
                name.extend(letter.to_lowercase());
            }
            name
        })
    }
}

fn word(reason: &NotRun) -> &'static str {
    match reason {
        NotRun::Closed => "closed",
        NotRun::Overloaded => "overloaded",
        NotRun::Cancelled => "cancelled",
        NotRun::DeadlinePassed => "deadline_passed",
        NotRun::Reentrant => "reentrant",
        NotRun::Busy(_) => "busy",
        NotRun::Failed(_) => "failed",
        _ => "unavailable",
    }
}

/// An error and what caused it. What SQLite said is a whole sentence: its source is only the code.
fn sentence(error: &(dyn StdError + 'static)) -> String {
    let mut said = error.to_string();
    let mut last = error;
    while let Some(cause) = last.source()
        && !last.is::<rusqlite::Error>()
    {
        let more = cause.to_string();
        if !said.contains(&more) {
            said = format!("{said}: {more}");
        }
        last = cause;
    }
    said
}
