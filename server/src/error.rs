//! Errors: those that travel in a response, and those that refuse a whole request.

use std::borrow::Cow;

use groupcommit::{
    Unknown,
    sqlite::{
        code_name,
        rusqlite::{self, ErrorCode},
    },
};
use hyper::StatusCode;
use serde::Serialize;

/// The error of one statement or one request of a pipeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct SqlError {
    pub(crate) message: Cow<'static, str>,
    pub(crate) code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extended_code: Option<&'static str>,
}

impl SqlError {
    pub(crate) fn new(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), code, extended_code: None }
    }

    /// What SQLite says itself of a statement that only the engine's own bookkeeping knows to fail.
    pub(crate) fn sqlite(message: &'static str) -> Self {
        let message = Cow::Owned(format!("SQLite error: {message}"));
        Self { message, code: "SQLITE_ERROR", extended_code: None }
    }
}

impl From<rusqlite::Error> for SqlError {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::SqlInputError { msg, offset, .. } => {
                Self::new("SQL_INPUT_ERROR", format!("SQL input error: {msg} (at offset {offset})"))
            }
            rusqlite::Error::SqliteFailure(error, message) => {
                let message = message.unwrap_or_else(|| error.to_string());
                Self {
                    message: format!("SQLite error: {message}").into(),
                    code: code_name(error.extended_code & 0xff),
                    extended_code: (error.extended_code > 0xff)
                        .then(|| code_name(error.extended_code)),
                }
            }
            rusqlite::Error::MultipleStatement => many_statements(),
            other => Self::new("SQLITE_ERROR", other.to_string()),
        }
    }
}

pub(crate) fn many_statements() -> SqlError {
    SqlError::new(
        "SQL_MANY_STATEMENTS",
        "the SQL text holds several statements; send a batch or a sequence",
    )
}

/// Whether SQLite's authorizer refused the statement.
pub(crate) fn is_denied(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::AuthorizationForStatementDenied)
}

/// Why a whole request is answered with a status other than 200.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: Cow<'static, str>,
    /// Nothing of the request has happened: the client may send it again.
    pub(crate) may_retry: bool,
}

impl Refusal {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, code, message: message.into(), may_retry: false }
    }

    pub(crate) fn bad_request(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// Nothing has happened, and the same request may succeed later.
    pub(crate) fn not_run(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message);
        Self { may_retry: true, ..refusal }
    }
}

/// Why a program has no outcomes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Failed {
    /// The request is answered with this error.
    Request(SqlError),
    /// It had no effect and may be sent again.
    NotRun(String),
    /// It may or may not have had its effect.
    Unknown(String),
}

impl Failed {
    /// What the client is told if nothing of its HTTP request has happened before.
    pub(crate) fn into_refusal(self) -> Result<SqlError, Refusal> {
        match self {
            Self::Request(error) => Ok(error),
            Self::NotRun(message) => Err(Refusal::not_run("NOT_RUN", message)),
            Self::Unknown(message) => {
                Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "OUTCOME_UNKNOWN", message))
            }
        }
    }

    /// The status that refuses a whole HTTP request.
    pub(crate) fn refusal(self) -> Refusal {
        self.into_refusal()
            .map_or_else(|refusal| refusal, |error| Refusal::bad_request(error.code, error.message))
    }

    pub(crate) fn unknown(unknown: &Unknown) -> Self {
        let cause = explain(&**unknown.cause());
        Self::Unknown(format!("the commit or its flush could not be confirmed: {cause}"))
    }

    /// The same as an error in a response, where other requests of it have been answered.
    pub(crate) fn into_error(self) -> SqlError {
        match self {
            Self::Request(error) => error,
            Self::NotRun(message) => SqlError::new("NOT_RUN", message),
            Self::Unknown(message) => SqlError::new("OUTCOME_UNKNOWN", message),
        }
    }
}

/// An error with everything that caused it.
pub(crate) fn explain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        text = format!("{text}: {deeper}");
        cause = deeper.source();
    }
    text
}
