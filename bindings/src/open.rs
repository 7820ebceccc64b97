//! Opening a database by a path or a URL, and what only a process with other code in it has to find
//! out: that another copy of SQLite has the file open.

use std::{
    collections::HashSet,
    fmt, fs,
    path::PathBuf,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use groupcommit::{
    Failure, Limits, NotRun,
    sql::{self, Engine, Error, StatementsFailure, sqlite_path},
};
use groupcommit_medium::Identity;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::process::{self, Presence};

/// How a database is opened. A URL says the first three itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Whether a missing file is created.
    pub create: bool,
    /// Whether a database in rollback-journal mode is converted to write-ahead logging.
    pub convert_to_wal: bool,
    /// How long another process may keep the database locked.
    pub busy_timeout: Option<Duration>,
    /// See [`sql::Options::readers`].
    pub readers: Option<usize>,
    /// Transactions in flight at once.
    pub transactions_max: Option<usize>,
    /// Bytes of the transactions in flight at once.
    pub bytes_max: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            create: true,
            convert_to_wal: false,
            busy_timeout: None,
            readers: None,
            transactions_max: None,
            bytes_max: None,
        }
    }
}

/// Why a database could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// What the engine says.
    Engine(Error),
    /// Other code of this process has the file open.
    OtherCopy(PathBuf),
    /// The process was forked while a database was open.
    Forked,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => f.write_str(&crate::Description::of_error(error).message),
            Self::OtherCopy(path) => write!(
                f,
                "other code of this process has {} open, such as another copy of SQLite: each copy \
                 undoes the other's locks, which can corrupt the database; close it there first, and \
                 read through this connection or from another process",
                path.display()
            ),
            Self::Forked => f.write_str(
                "this process was forked while a database was open, so it can use none; open \
                 databases after the fork, or start processes without forking (\"spawn\")",
            ),
        }
    }
}

impl std::error::Error for OpenError {}

/// An open database; dereferences to the facade's. Dropped in a forked child, it is left as it is.
#[derive(Debug)]
pub struct Database {
    /// Taken only when it is dropped.
    sql: Option<sql::Database>,
    file: Option<Identity>,
    presence: Presence,
}

impl Database {
    /// Opens the database at `target`: a URL where it has a scheme that ends in `://` or is `sqlite:`,
    /// and else the path of an SQLite file.
    ///
    /// # Errors
    ///
    /// What keeps the database from being used so that every promise holds.
    pub fn open(target: &str, settings: &Settings) -> Result<Self, OpenError> {
        if !process::may_open() {
            return Err(OpenError::Forked);
        }
        let url = url_of(target, settings);
        let engine = Engine::of_url(&url).map_err(OpenError::Engine)?;
        let mut options = sql::Database::options();
        if settings.transactions_max.is_some() || settings.bytes_max.is_some() {
            let usual = Limits::default();
            options = options.limits(Limits::new(
                settings.transactions_max.unwrap_or(usual.transactions),
                settings.bytes_max.unwrap_or(usual.bytes),
            ));
        }
        if let Some(readers) = settings.readers {
            options = options.readers(readers);
        }
        let connect = || options.connect(&url).map_err(OpenError::Engine);
        if engine.is_server() {
            return Ok(Self { sql: Some(connect()?), file: None, presence: Presence::enter() });
        }
        let path = sqlite_path(&url).map_err(OpenError::Engine)?;
        // Held until the file is known: else another thread took our own descriptors for foreign.
        let mut ours = our_files();
        if let Ok(file) = Identity::of(&path)
            && !ours.contains(&file)
            && is_open_here(file)
        {
            return Err(OpenError::OtherCopy(path));
        }
        let sql = Some(connect()?);
        let file = Identity::of(&path).ok();
        ours.extend(file);
        Ok(Self { sql, file, presence: Presence::enter() })
    }

    /// The facade's database, for work.
    ///
    /// # Errors
    ///
    /// [`NotRun::Unavailable`] in a forked child.
    pub fn usable(&self) -> Result<&sql::Database, StatementsFailure> {
        match &self.sql {
            Some(sql) if !self.presence.is_inherited() => Ok(sql),
            _ => Err(Failure::NotRun(NotRun::Unavailable(Arc::new(OpenError::Forked)))),
        }
    }

    /// Drains and closes it; see [`sql::Database::close`]. In a forked child it does nothing.
    ///
    /// # Errors
    ///
    /// See [`sql::Database::close`].
    pub fn close(&self) -> Result<(), Error> {
        let Ok(sql) = self.usable() else { return Ok(()) };
        let closed = sql.close();
        // Rows that nobody takes keep a connection, and so the file, open.
        if let Some(file) = self.file {
            let mut ours = our_files();
            if !is_open_here(file) {
                ours.remove(&file);
                self.presence.leave();
            }
        }
        closed
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.presence.is_inherited() {
            std::mem::forget(self.sql.take());
        }
    }
}

/// The files of SQLite databases that are open through this library, or may be.
fn our_files() -> MutexGuard<'static, HashSet<Identity>> {
    static FILES: LazyLock<Mutex<HashSet<Identity>>> = LazyLock::new(Mutex::default);
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a descriptor of this process leads to `file`; `false` where they cannot be listed.
fn is_open_here(file: Identity) -> bool {
    let Ok(descriptors) = fs::read_dir("/dev/fd") else { return false };
    descriptors
        .flatten()
        .any(|descriptor| Identity::of(&descriptor.path()).is_ok_and(|other| other == file))
}

fn url_of(target: &str, settings: &Settings) -> String {
    let is_sqlite = target.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("sqlite:"));
    if is_sqlite || target.contains("://") {
        return target.to_owned();
    }
    let mut url = format!(
        "sqlite:{}?create={}&convert_to_wal={}",
        utf8_percent_encode(target, NON_ALPHANUMERIC),
        settings.create,
        settings.convert_to_wal
    );
    if let Some(timeout) = settings.busy_timeout {
        url = format!("{url}&busy_timeout_ms={}", timeout.as_millis());
    }
    url
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_path_becomes_a_url_and_a_url_stays() {
        let settings =
            Settings { busy_timeout: Some(Duration::from_secs(1)), ..Settings::default() };
        for target in ["app.db", "/a b/ä?.db", "C:x", "postgres.db"] {
            let url = url_of(target, &settings);
            assert_eq!(sqlite_path(&url).unwrap(), Path::new(target), "{url}");
        }
        for url in ["sqlite:a.db", "postgres://a@b/c", "mysql://x", "oracle://x"] {
            assert_eq!(url_of(url, &settings), url);
        }
    }

    #[test]
    fn a_file_that_other_code_has_open_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.db");
        let target = path.to_str().unwrap();
        let open = || Database::open(target, &Settings::default());
        let first = open().unwrap();
        let second = open().expect("twice through one copy is safe");
        first.close().unwrap();
        second.close().unwrap();
        let other = fs::File::open(&path).unwrap();
        assert!(matches!(open(), Err(OpenError::OtherCopy(_))));
        drop(other);
        open().unwrap().close().unwrap();
    }
}
