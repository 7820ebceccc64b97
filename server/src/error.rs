//! Errors: those that travel in a response, and those that refuse a whole request.

use std::borrow::Cow;

use groupcommit::sqlite::rusqlite::{self, ErrorCode, ffi};
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
                    code: name_of(error.extended_code & 0xff),
                    extended_code: (error.extended_code > 0xff)
                        .then(|| name_of(error.extended_code)),
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

macro_rules! names {
    ($($name:ident),+ $(,)?) => {
        /// The name of a result code of SQLite.
        fn name_of(code: i32) -> &'static str {
            match code {
                $(ffi::$name => stringify!($name),)+
                _ => "SQLITE_ERROR",
            }
        }
    };
}

names!(
    SQLITE_INTERNAL,
    SQLITE_PERM,
    SQLITE_ABORT,
    SQLITE_BUSY,
    SQLITE_LOCKED,
    SQLITE_NOMEM,
    SQLITE_READONLY,
    SQLITE_INTERRUPT,
    SQLITE_IOERR,
    SQLITE_CORRUPT,
    SQLITE_NOTFOUND,
    SQLITE_FULL,
    SQLITE_CANTOPEN,
    SQLITE_PROTOCOL,
    SQLITE_EMPTY,
    SQLITE_SCHEMA,
    SQLITE_TOOBIG,
    SQLITE_CONSTRAINT,
    SQLITE_MISMATCH,
    SQLITE_MISUSE,
    SQLITE_NOLFS,
    SQLITE_AUTH,
    SQLITE_FORMAT,
    SQLITE_RANGE,
    SQLITE_NOTADB,
    SQLITE_ABORT_ROLLBACK,
    SQLITE_AUTH_USER,
    SQLITE_BUSY_RECOVERY,
    SQLITE_BUSY_SNAPSHOT,
    SQLITE_BUSY_TIMEOUT,
    SQLITE_CANTOPEN_FULLPATH,
    SQLITE_CANTOPEN_ISDIR,
    SQLITE_CANTOPEN_NOTEMPDIR,
    SQLITE_CONSTRAINT_CHECK,
    SQLITE_CONSTRAINT_COMMITHOOK,
    SQLITE_CONSTRAINT_DATATYPE,
    SQLITE_CONSTRAINT_FOREIGNKEY,
    SQLITE_CONSTRAINT_FUNCTION,
    SQLITE_CONSTRAINT_NOTNULL,
    SQLITE_CONSTRAINT_PINNED,
    SQLITE_CONSTRAINT_PRIMARYKEY,
    SQLITE_CONSTRAINT_ROWID,
    SQLITE_CONSTRAINT_TRIGGER,
    SQLITE_CONSTRAINT_UNIQUE,
    SQLITE_CONSTRAINT_VTAB,
    SQLITE_CORRUPT_INDEX,
    SQLITE_CORRUPT_SEQUENCE,
    SQLITE_CORRUPT_VTAB,
    SQLITE_ERROR_MISSING_COLLSEQ,
    SQLITE_ERROR_RETRY,
    SQLITE_ERROR_SNAPSHOT,
    SQLITE_IOERR_FSYNC,
    SQLITE_IOERR_NOMEM,
    SQLITE_IOERR_READ,
    SQLITE_IOERR_SHORT_READ,
    SQLITE_IOERR_WRITE,
    SQLITE_LOCKED_SHAREDCACHE,
    SQLITE_LOCKED_VTAB,
    SQLITE_READONLY_DBMOVED,
    SQLITE_READONLY_DIRECTORY,
    SQLITE_READONLY_RECOVERY,
    SQLITE_READONLY_ROLLBACK,
);

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
