//! Advice where a server cannot be reached or rejects the connection.

use std::{error::Error as StdError, io};

use rustls::CertificateError;
use tokio_postgres::error::SqlState;

use crate::Error;

const NO_WRITES: &str = "the server takes no writes; connect to the primary";

/// Whether the server was reached and takes no writes.
pub(crate) fn is_of_replica(error: &Error) -> bool {
    match error {
        Error::ReadOnly(_) => true,
        Error::Connect { remedy, .. } => *remedy == NO_WRITES,
        _ => false,
    }
}

/// What is wrong, in a few words, and what to do.
pub(crate) fn remedy(said: &(dyn StdError + 'static)) -> Option<&'static str> {
    let mut next = Some(said);
    while let Some(error) = next {
        let found = of_server(error).or_else(|| of_system(error)).or_else(|| of_client(error));
        if found.is_some() {
            return found;
        }
        next = error.source();
    }
    None
}

fn of_server(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    let code = error.downcast_ref::<tokio_postgres::Error>()?.code()?;
    Some(match *code {
        SqlState::TOO_MANY_CONNECTIONS => {
            "the server has no free connection; close some, or raise its `max_connections` or the \
             limit of the account"
        }
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "authentication failed; check the user and password in the URL, and `pg_hba.conf` on the \
             server"
        }
        SqlState::INVALID_CATALOG_NAME => {
            "the database does not exist; create it, or name another in the URL"
        }
        SqlState::CANNOT_CONNECT_NOW => "the server is starting or stopping; try again later",
        _ => return None,
    })
}

fn of_system(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    let error = error.downcast_ref::<io::Error>()?;
    // What it carries is no source of it.
    if let Some(rustls::Error::InvalidCertificate(why)) =
        error.get_ref().and_then(|inner| inner.downcast_ref())
    {
        return Some(of_certificate(why));
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            Some("nothing listens there; start the server, or correct the host and port in the URL")
        }
        io::ErrorKind::PermissionDenied if error.to_string().contains("not allow writes") => {
            Some(NO_WRITES)
        }
        io::ErrorKind::PermissionDenied if error.to_string().contains("not read only") => {
            Some("remove `target_session_attrs=read-only` from the URL")
        }
        _ => None,
    }
}

fn of_certificate(why: &CertificateError) -> &'static str {
    match why {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the server's certificate is for another name; connect by a name that it lists"
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid now; renew it, or set the clock"
        }
        _ => {
            "the server's certificate is not signed by a trusted CA; add \
             `sslrootcert=/path/to/ca.pem` to the URL"
        }
    }
}

/// The client has no codes for these.
fn of_client(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    match error.to_string().as_str() {
        "server does not support TLS" => Some(
            "the server does not support TLS; turn its `ssl` on, or add `sslmode=disable` to the URL",
        ),
        "no hostname provided for TLS handshake" => {
            Some("a certificate needs a host name; add `host` to the URL, next to `hostaddr`")
        }
        "password missing" => Some("the server asks for a password; add it to the URL"),
        _ => None,
    }
}
