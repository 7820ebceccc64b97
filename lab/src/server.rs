//! A place of its own on a server for what is measured: a schema that is dropped at the end.

use std::time::{SystemTime, UNIX_EPOCH};

use groupcommit::sql::{Database, Engine, Statement, without_password};

use crate::error::LabError;

/// A schema on a server.
#[derive(Debug)]
pub(crate) struct Schema {
    database: Database,
    name: String,
    url: String,
}

impl Schema {
    /// Creates one on the server at `url`.
    pub(crate) fn create(url: &str) -> Result<Self, LabError> {
        let failed = failed("create a schema on", url);
        let database = Database::connect(url).map_err(|error| failed(error.into()))?;
        // Unlike any other's: of another process, or of this one before.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("lab_{}_{}", std::process::id(), since.as_nanos());
        let create = vec![Statement::new(format!("CREATE SCHEMA {name}"), [])];
        database.exclusive(create).map_err(|failure| failed(failure.into()))?;
        let url = match database.engine() {
            Engine::Postgres => {
                let joint = if url.contains('?') { '&' } else { '?' };
                format!("{url}{joint}options=-c%20search_path%3D{name}")
            }
            // A schema is a database there.
            _ => with_database(url, &name),
        };
        Ok(Self { database, name, url })
    }

    /// The server's URL with this schema.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Drops it with all that is in it.
    pub(crate) fn drop_all(self) -> Result<(), LabError> {
        let cascade = if self.database.engine() == Engine::Postgres { " CASCADE" } else { "" };
        let drop = vec![Statement::new(format!("DROP SCHEMA {}{cascade}", self.name), [])];
        let dropped = self.database.exclusive(drop).map(|_| ());
        dropped.map_err(|failure| failed("drop the schema on", &self.url)(failure.into()))?;
        self.database
            .close()
            .map_err(|error| failed("close the connections to", &self.url)(error.into()))
    }
}

/// The URL with that database in place of its own, if it has one, and with its options.
fn with_database(url: &str, name: &str) -> String {
    let (before, options) = url.find('?').map_or((url, ""), |at| url.split_at(at));
    let place = before.find("://").map_or(0, |at| at + 3);
    // A slash before it would be a part of the password.
    let host = before.rfind('@').map_or(place, |at| at + 1);
    let end = before[host..].find('/').map_or(before.len(), |at| host + at);
    format!("{}/{name}{options}", &before[..end])
}

/// The error of what was tried on the server at `url`.
pub(crate) fn failed(
    action: &'static str,
    url: &str,
) -> impl Fn(crate::error::Cause) -> LabError + use<> {
    let path = without_password(url).into();
    move |source| LabError::Database { action, path: std::path::PathBuf::clone(&path), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_gets_a_database_whether_it_has_one_or_not() {
        for (url, expected) in [
            ("mysql://root@host:1/test", "mysql://root@host:1/new"),
            ("mysql://root@host:1", "mysql://root@host:1/new"),
            ("mysql://host/", "mysql://host/new"),
            ("mysql://a:b/c@x:1,y:2/db?pem=/a/b&c=d", "mysql://a:b/c@x:1,y:2/new?pem=/a/b&c=d"),
            ("mysql://root@host?ssl-mode=required", "mysql://root@host/new?ssl-mode=required"),
        ] {
            assert_eq!(with_database(url, "new"), expected, "{url}");
        }
    }
}
