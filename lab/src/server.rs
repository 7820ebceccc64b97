//! Servers: a schema for what is measured, which is dropped at the end.

use std::time::{SystemTime, UNIX_EPOCH};

use groupcommit::sql::{Database, Engine, Statement, StatementsFailure, Value, without_password};

use crate::error::LabError;

/// The type that a sum of integers is cast to.
pub(crate) fn integer(database: &Database) -> &'static str {
    if database.engine() == Engine::Mysql { "SIGNED" } else { "BIGINT" }
}

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

/// What the server at `url` calls itself, and how many others take part in a commit.
pub(crate) fn describe(url: &str) -> Result<String, LabError> {
    let failed = failed("ask for the version of", url);
    let database = Database::connect(url).map_err(|error| failed(error.into()))?;
    let described = match database.engine() {
        Engine::Postgres => of_postgres(&database),
        _ => of_mysql(&database),
    };
    let described = described.map_err(|failure| failed(failure.into()))?;
    database.close().map_err(|error| failed(error.into()))?;
    Ok(described)
}

fn of_postgres(database: &Database) -> Result<String, StatementsFailure> {
    let version = first_text(database, "SELECT split_part(version(), ' on ', 1)")?;
    let standbys = first_text(database, "SELECT current_setting('synchronous_standby_names')")?;
    // Some that speak the protocol are no PostgreSQL: what they do not know is left out.
    Ok(match (version, standbys.unwrap_or_default()) {
        (version, none) if none.is_empty() => version.unwrap_or_default(),
        (version, names) => {
            format!("{}, synchronous replicas: {names}", version.unwrap_or_default())
        }
    })
}

fn of_mysql(database: &Database) -> Result<String, StatementsFailure> {
    let version = first_text(database, "SELECT version()")?.unwrap_or_default();
    let name = if version.contains("MariaDB") { "MariaDB" } else { "MySQL" };
    let number = version.split('-').next().unwrap_or_default();
    let nodes = first_text(database, "SHOW STATUS LIKE 'wsrep_cluster_size'")?;
    let nodes = nodes.filter(|nodes| nodes != "0");
    let cluster = nodes.map(|nodes| format!(", Galera with {nodes} nodes")).unwrap_or_default();
    Ok(format!("{name} {number}{cluster}"))
}

/// The last column of the first row, if it is a text.
fn first_text(database: &Database, sql: &str) -> Result<Option<String>, StatementsFailure> {
    let found = database.read(&Statement::new(sql, []))?;
    let value = found.rows.into_iter().next().and_then(|row| row.into_iter().last());
    Ok(match value {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    })
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
