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
            _ => url
                .rsplit_once('/')
                .map_or_else(|| url.to_owned(), |(server, _)| format!("{server}/{name}")),
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

/// The error of what was tried on the server at `url`.
pub(crate) fn failed(
    action: &'static str,
    url: &str,
) -> impl Fn(crate::error::Cause) -> LabError + use<> {
    let path = without_password(url).into();
    move |source| LabError::Database { action, path: std::path::PathBuf::clone(&path), source }
}
