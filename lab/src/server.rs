//! Servers: a schema for what is measured, which is dropped at the end, and many connections that are
//! used directly.

use std::time::{SystemTime, UNIX_EPOCH};
#[cfg(any(feature = "postgres", feature = "mysql"))]
use std::{path::Path, sync::Mutex, sync::PoisonError};

use groupcommit::sql::{Database, Engine, Statement, StatementsFailure, Value, without_password};

use crate::error::LabError;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use crate::{
    adapter::{Counted, Plain},
    client::{Blocking as _, Client, Lane},
    error::Cause,
    setting::Setting,
    workload::Batch,
};

/// In which words a server writes rows, and with which client.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) trait Dialect: Send + Sync + 'static {
    type Client: Client;
    const CREATE_TABLE: &'static str;
    const INSERT: &'static str;
}

/// The URL that stands for a path.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn url(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// Creates the table of the experiments.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn create_table<D: Dialect>(path: &Path) -> Result<(), Cause> {
    Lane::<D::Client>::connect(url(path))?.run(D::CREATE_TABLE, &[], None).map(drop)
}

/// Counts the rows of the table.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn count_rows(path: &Path) -> Result<Counted, Cause> {
    let database = Database::connect(url(path))?;
    let count = |sql: String| match database
        .read(&Statement::new(sql, []))?
        .rows
        .first()
        .map(|row| &row[0])
    {
        Some(&Value::Int(count)) => Ok(count),
        other => Err(Cause::from(format!("the server answered {other:?}"))),
    };
    let rows = count("SELECT count(*) FROM t".to_owned())?.cast_unsigned();
    // The sum of integers is not one.
    let key_sum =
        count(format!("SELECT CAST(coalesce(sum(k), 0) AS {}) FROM t", integer(&database)))?;
    database.close()?;
    Ok(Counted { rows, key_sum: key_sum.into() })
}

/// The type that a sum of integers is cast to.
pub(crate) fn integer(database: &Database) -> &'static str {
    if database.engine() == Engine::Mysql { "SIGNED" } else { "BIGINT" }
}

/// A connection for each thread, used directly.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) struct PlainServer<D: Dialect> {
    connections: Vec<Mutex<Lane<D::Client>>>,
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
impl<D: Dialect> Plain for PlainServer<D> {
    fn open(path: &Path, setting: &Setting) -> Result<Self, Cause> {
        create_table::<D>(path)?;
        let connect = |_| Lane::connect(url(path)).map(Mutex::new);
        Ok(Self { connections: (0..setting.threads).map(connect).collect::<Result<_, _>>()? })
    }

    fn write(&self, thread: usize, batch: &Batch) -> Result<(), Cause> {
        let lane = &self.connections[thread % self.connections.len()];
        let lane = &mut *lane.lock().unwrap_or_else(PoisonError::into_inner);
        let is_alone = batch.len() == 1;
        if !is_alone {
            lane.run("BEGIN", &[], None)?;
        }
        for (key, value) in batch.rows() {
            lane.run(D::INSERT, &[key], Some(value))?;
        }
        if !is_alone {
            lane.run("COMMIT", &[], None)?;
        }
        Ok(())
    }
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

/// The URL with the first of its hosts alone: the one that the engine writes to, and so the one that a
/// client without a list of hosts is to be measured on.
#[cfg(feature = "mysql")]
pub(crate) fn with_first_host(url: &str) -> String {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let end = url[after_scheme..].find(['/', '?']).map_or(url.len(), |at| after_scheme + at);
    // A name or a password may hold a comma, too.
    let hosts = url[after_scheme..end].rfind('@').map_or(after_scheme, |at| after_scheme + at + 1);
    let first = url[hosts..end].split(',').next().unwrap_or_default();
    format!("{}{first}{}", &url[..hosts], &url[end..])
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

    #[cfg(feature = "mysql")]
    #[test]
    fn of_several_hosts_the_first_is_left() {
        for (url, first) in [
            ("mysql://a:b,c@h:1,i:2,j:3/d?x=1,2", "mysql://a:b,c@h:1/d?x=1,2"),
            ("mysql://h,i", "mysql://h"),
            ("mysql://root@h:1/d", "mysql://root@h:1/d"),
        ] {
            assert_eq!(with_first_host(url), first);
        }
    }
}
