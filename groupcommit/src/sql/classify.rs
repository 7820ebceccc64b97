//! What kind an error of an engine or of its client is.

use std::error::Error as StdError;

#[cfg(feature = "_remote")]
use groupcommit_remote::{Error as RemoteError, Protocol};
#[cfg(feature = "sqlite")]
use groupcommit_sqlite::{Error as SqliteError, rusqlite};

use super::kind::{self, Kind};

/// The kind, and the database's own code.
pub(super) fn classify(error: &(dyn StdError + 'static)) -> (Kind, Option<String>) {
    let mut known = None;
    #[cfg(feature = "sqlite")]
    {
        known = known.or_else(|| of_sqlite(error));
    }
    #[cfg(feature = "mysql")]
    {
        known = known.or_else(|| of_remote::<groupcommit_mysql::MySql>(error));
    }
    #[cfg(feature = "postgres")]
    {
        known = known.or_else(|| of_remote::<groupcommit_postgres::Postgres>(error));
    }
    known.unwrap_or((Kind::Other, None))
}

/// A protocol whose client's errors are known.
#[cfg(feature = "_remote")]
trait Classify: Protocol {
    /// The kind and the code of the client's own error.
    fn classify(error: &Self::ServerError) -> (Kind, Option<String>);
}

#[cfg(feature = "postgres")]
impl Classify for groupcommit_postgres::Postgres {
    fn classify(error: &Self::ServerError) -> (Kind, Option<String>) {
        match error.code() {
            Some(state) => (kind::of_sqlstate(state.code()), Some(state.code().to_owned())),
            None => (Kind::Lost, None),
        }
    }
}

#[cfg(feature = "mysql")]
impl Classify for groupcommit_mysql::MySql {
    fn classify(error: &Self::ServerError) -> (Kind, Option<String>) {
        match error {
            groupcommit_mysql::mysql_async::Error::Server(said) => {
                (kind::of_mysql(said.code, &said.state), Some(said.code.to_string()))
            }
            _ => (Kind::Lost, None),
        }
    }
}

/// The kind and the code of an error of the protocol's engine or client.
#[cfg(feature = "_remote")]
fn of_remote<P: Classify>(error: &(dyn StdError + 'static)) -> Option<(Kind, Option<String>)> {
    if let Some(error) = error.downcast_ref::<P::ServerError>() {
        return Some(P::classify(error));
    }
    Some(match error.downcast_ref::<RemoteError<P>>()? {
        RemoteError::Url(_) => (Kind::Url, None),
        // A server that rejected the connection was reached.
        RemoteError::Connect { source, .. } => match of_remote::<P>(source.as_ref()) {
            Some((kind, Some(code))) => (kind, Some(code)),
            _ => (Kind::Unreachable, None),
        },
        RemoteError::Setting { .. } | RemoteError::TooOld { .. } => (Kind::Undurable, None),
        RemoteError::ReadOnly(_) => (Kind::ReadOnly, None),
        RemoteError::Server(error) => P::classify(error),
        RemoteError::Forbidden(_) | RemoteError::Ended | RemoteError::LeftOpen => {
            (Kind::Forbidden, None)
        }
        RemoteError::Nul | RemoteError::Several | RemoteError::Unfinished(_) => {
            (Kind::Statement, None)
        }
        RemoteError::Parameters { .. } => (Kind::Parameters, None),
        RemoteError::Value(_) | RemoteError::TooLarge { .. } => (Kind::Value, None),
        RemoteError::Column { .. } => (Kind::Column, None),
        RemoteError::Interrupted => (Kind::Conflict, None),
        RemoteError::Lost(_) | RemoteError::Unsettled(_) => (Kind::Lost, None),
        RemoteError::Runtime(_) => (Kind::Resources, None),
        RemoteError::Tls(_) => (Kind::Unreachable, None),
        RemoteError::Close { source } => classify(source.as_ref()),
        _ => (Kind::Other, None),
    })
}

/// The kind and the code, of an error of SQLite's engine or client.
#[cfg(feature = "sqlite")]
fn of_sqlite(error: &(dyn StdError + 'static)) -> Option<(Kind, Option<String>)> {
    if let Some(error) = error.downcast_ref::<rusqlite::Error>() {
        return Some(of_client(error));
    }
    Some(match error.downcast_ref::<SqliteError>()? {
        SqliteError::FolderMissing(_) | SqliteError::Missing(_) => (Kind::Unreachable, None),
        SqliteError::ReadOnly(_) => (Kind::ReadOnly, None),
        SqliteError::Held { source, .. } => (Kind::Busy, of_client(source).1),
        SqliteError::NotRecovered(_) => (Kind::Busy, None),
        SqliteError::DiskFull { source, .. } => (Kind::Resources, of_client(source).1),
        SqliteError::RollbackJournal { .. }
        | SqliteError::NotAFile
        | SqliteError::FileSystem { .. }
        | SqliteError::SqliteTooOld { .. } => (Kind::Undurable, None),
        SqliteError::NotADatabase(_)
        | SqliteError::LogReplaced(_)
        | SqliteError::ExclusiveIo(_)
        | SqliteError::Io { .. } => (Kind::Storage, None),
        SqliteError::ForeignKey => (Kind::ForeignKey, None),
        SqliteError::ConfigurationChanged | SqliteError::LeftOpen => (Kind::Forbidden, None),
        SqliteError::Sqlite { source, .. } => of_client(source),
        SqliteError::Close { source } => classify(source.as_ref()),
        _ => (Kind::Other, None),
    })
}

#[cfg(feature = "sqlite")]
fn of_client(error: &rusqlite::Error) -> (Kind, Option<String>) {
    use rusqlite::Error as Said;
    let (failure, message) = match error {
        Said::SqliteFailure(failure, message) => (failure, message.as_deref().unwrap_or_default()),
        Said::SqlInputError { error, msg, .. } => (error, msg.as_str()),
        Said::InvalidParameterCount(..) | Said::InvalidParameterName(_) => {
            return (Kind::Parameters, None);
        }
        Said::MultipleStatement => return (Kind::Statement, None),
        Said::ToSqlConversionFailure(_) | Said::NulError(_) => return (Kind::Value, None),
        Said::FromSqlConversionFailure(..) | Said::InvalidColumnType(..) | Said::Utf8Error(..) => {
            return (Kind::Column, None);
        }
        _ => return (Kind::Other, None),
    };
    let code = failure.extended_code;
    (kind::of_sqlite(code, message), Some(code.to_string()))
}
