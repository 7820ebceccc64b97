//! What to do where a server cannot be reached, or does not let us in.

use std::{error::Error as StdError, io};

use rustls::CertificateError;
use tokio_postgres::error::SqlState;

use crate::Error;

const NO_WRITES: &str = "it takes no writes; connect to the primary";

/// Whether the server was reached and takes no writes.
pub(crate) fn is_of_replica(error: &Error) -> bool {
    match error {
        Error::ReadOnly(_) => true,
        Error::Connect { remedy, .. } => *remedy == NO_WRITES,
        _ => false,
    }
}

/// What the trouble is, in a few words, and what to do.
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
            "it has as many connections as it allows; close some, or raise its `max_connections` or \
             the limit of the account"
        }
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "it does not let the account in; look at the user and the password in the URL, and at \
             `pg_hba.conf` on the server"
        }
        SqlState::INVALID_CATALOG_NAME => {
            "it has no such database; create it, or name another in the URL"
        }
        SqlState::CANNOT_CONNECT_NOW => "it is starting or stopping; try again in a while",
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
            Some("leave `target_session_attrs=read-only` out of the URL, for a writer needs more")
        }
        _ => None,
    }
}

fn of_certificate(why: &CertificateError) -> &'static str {
    match why {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name; connect by a name that is in it"
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid at this time; give the server another, or set the clock"
        }
        _ => {
            "its certificate is from nobody who is trusted here; name the file with the certificate \
             of who signed it as `sslrootcert` in the URL"
        }
    }
}

/// The client has no codes for these.
fn of_client(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    match error.to_string().as_str() {
        "server does not support TLS" => {
            Some("it does not encrypt; turn `ssl` on there, or say `sslmode=disable` in the URL")
        }
        "no hostname provided for TLS handshake" => {
            Some("its certificate is for a name; give that as `host`, beside `hostaddr`")
        }
        "password missing" => Some("it asks for a password; give one in the URL"),
        _ => None,
    }
}
