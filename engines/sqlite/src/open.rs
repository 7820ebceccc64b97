//! Opening a database: everything that has to be true before the first promise is made.

use std::{
    cell::Cell,
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use groupcommit_core::{Limits, Pipeline, Settings, TokenLimits};
use groupcommit_medium::{Unusable, folder_of, has_other_names, real_path};
use rusqlite::{Connection, ErrorCode, FileControl, OpenFlags, wal::CheckpointMode};
use rustix::fs::{Access, access};

use crate::{
    Database, Error, Warning,
    checkpoint::{Checkpoints, checkpoint},
    connection::{Configuration, prepare_writer},
    database::Inner,
    engine::{Ground, Writer},
    ffi,
    guard::Guard,
    readers::Readers,
    recovery::{self, Cache},
    transaction::OwnSql,
    wal::{Log, Place},
};

/// The longest wait that SQLite can count, in whole days.
const BUSY_TIMEOUT_MAX: Duration = Duration::from_hours(24 * 24);

/// How to open a database.
#[derive(Debug, Clone)]
pub struct Options {
    create: bool,
    convert_to_wal: bool,
    busy_timeout: Duration,
    settings: Settings,
    readers_at_least: usize,
}

impl Default for Options {
    /// Creates the database when it is missing, converts nothing, waits up to 5 s for other
    /// processes, and admits [`Limits::default`].
    fn default() -> Self {
        Self {
            create: true,
            convert_to_wal: false,
            busy_timeout: Duration::from_secs(5),
            settings: Settings::default(),
            readers_at_least: 0,
        }
    }
}

#[cfg(feature = "experiments")]
impl groupcommit_core::Experiments for Options {
    fn settings(&mut self) -> &mut Settings {
        &mut self.settings
    }
}

impl Options {
    /// Whether to create a database that is missing.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Whether to convert a database in rollback-journal mode to write-ahead logging. The mode is
    /// kept in the file: every program that uses it sees it.
    #[must_use]
    pub fn convert_to_wal(mut self, convert: bool) -> Self {
        self.convert_to_wal = convert;
        self
    }

    /// How long to wait for another process that holds a lock; at most 24 days.
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout.min(BUSY_TIMEOUT_MAX);
        self
    }

    /// How much may be in flight at once.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Raises the most connections that reads share, which is two a core but at least four, to so
    /// many: for who has that many threads reading at once, which would wait for each other otherwise.
    #[must_use]
    pub fn readers_at_least(mut self, connections: usize) -> Self {
        self.readers_at_least = connections;
        self
    }

    /// How long the tokens of transactions that take effect [once](crate::Submitter::once) are kept,
    /// and how many.
    #[must_use]
    pub fn tokens(mut self, limits: TokenLimits) -> Self {
        self.settings.tokens = limits;
        self
    }

    /// Opens the database at `path`.
    ///
    /// # Durability
    ///
    /// If a write-ahead log is found, it is brought into the database and synced before this
    /// returns: what an earlier process left there may have been readable without being durable.
    ///
    /// # Errors
    ///
    /// What keeps the database from being used so that every promise holds; see [`Error`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Database, Error> {
        let path = path.as_ref();
        check_sqlite_version()?;
        let (real, warnings) = check_path(path, self.create)?;
        for warning in &warnings {
            tracing::warn!(path = %path.display(), "{warning}");
        }
        let guard = Guard::new(self.settings.clock.clone());
        let (connection, log) = self.open_writer(path, &real, &guard)?;
        let own = OwnSql::new();
        own.prepare(&connection).map_err(sqlite(path, "open"))?;
        let configuration = Configuration::of(&connection);
        // What SQLite made of the path: it means the same when the process changes its directory.
        let opened = ffi::database_path(&connection).ok_or(Error::NotAFile)?;
        let writer = Writer {
            connection,
            guard: guard.clone(),
            own,
            log: log.clone(),
            checkpoints: Checkpoints::new(&opened, log.clone()),
            data_version: 0,
            ground: Ground {
                path: path.to_owned(),
                opened: opened.clone(),
                busy_timeout: self.busy_timeout,
                configuration,
                in_vain_ns: Cell::new(None),
                schema_looked_at: Cell::new(None),
            },
            exported_wal_frames: metrics::gauge!(
                "groupcommit_wal_frames",
                "database" => path.display().to_string(),
            ),
            open: Vec::new(),
        };
        let settings = Settings { label: path.display().to_string(), ..self.settings.clone() };
        let readers = Readers::new(opened, log.clone(), self.busy_timeout, self.readers_at_least);
        let pipeline = Pipeline::new(writer, settings);
        Ok(Database::new(Inner { readers, reads: OnceLock::new(), pipeline, log, guard, warnings }))
    }

    fn open_writer(
        &self,
        path: &Path,
        real: &Path,
        guard: &Arc<Guard>,
    ) -> Result<(Connection, Arc<Log>), Error> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        flags.set(OpenFlags::SQLITE_OPEN_CREATE, self.create);
        let failed = |error| explain(path, error);
        let cache = recovery::distrust_cache(real, self.busy_timeout).map_err(failed)?;
        if cache == Cache::Distrusted {
            return Err(Error::StillOpen(path.to_owned()));
        }
        let mut connection = Connection::open_with_flags(real, flags).map_err(failed)?;
        connection.busy_timeout(self.busy_timeout).map_err(failed)?;
        if connection.is_readonly("main").map_err(failed)? {
            return Err(Error::ReadOnly(path.to_owned()));
        }
        self.enter_wal_mode(path, &connection)?;
        // After a kill the log's tail may be readable but not durable, and a later commit behind it
        // would be lost with it.
        let recovered = checkpoint(&connection, CheckpointMode::TRUNCATE).map_err(failed)?;
        if recovered.busy {
            return Err(Error::NotRecovered(path.to_owned()));
        }
        prepare_writer(&mut connection, guard, self.busy_timeout).map_err(failed)?;
        // Reading opens the log, and so creates it.
        connection
            .query_row("SELECT count(*) FROM sqlite_schema", (), |_| Ok(()))
            .map_err(failed)?;
        let database = ffi::database_path(&connection).ok_or(Error::NotAFile)?;
        let place = Place::of(database.clone())?;
        // Of what is there now, and after that SQLite says whether it has the same.
        let mut has_moved = 0;
        connection
            .file_control(Some("main"), FileControl::HasMoved(&mut has_moved))
            .map_err(failed)?;
        if has_moved != 0 {
            return Err(Error::DatabaseReplaced(database));
        }
        let log = ffi::wal_path(&connection).ok_or(Error::NotAFile)?;
        let log = Log::open(log, place)?;
        Ok((connection, log))
    }

    fn enter_wal_mode(&self, path: &Path, connection: &Connection) -> Result<(), Error> {
        let failed = |error| explain(path, error);
        let mode: String =
            connection.query_row("PRAGMA journal_mode", (), |row| row.get(0)).map_err(failed)?;
        // Reads the header, which the pragma alone does not: "not a database" shows here.
        let pages: i64 =
            connection.query_row("PRAGMA page_count", (), |row| row.get(0)).map_err(failed)?;
        connection
            .query_row("SELECT count(*) FROM sqlite_schema", (), |_| Ok(()))
            .map_err(failed)?;
        if mode == "wal" {
            return Ok(());
        }
        if pages > 0 && !self.convert_to_wal {
            return Err(Error::RollbackJournal { path: path.to_owned(), mode });
        }
        let mode: String = connection
            .query_row("PRAGMA journal_mode=WAL", (), |row| row.get(0))
            .map_err(failed)?;
        if mode == "wal" { Ok(()) } else { Err(Error::NotAFile) }
    }
}

/// Refuses a version whose log can be reset while another connection checkpoints it, which is what
/// happens here all the time (fixed in 3.51.3, 3.50.7 and 3.44.6).
fn check_sqlite_version() -> Result<(), Error> {
    let number = rusqlite::version_number();
    if is_sound_version(number) {
        Ok(())
    } else {
        Err(Error::SqliteTooOld { found: rusqlite::version().to_owned() })
    }
}

fn is_sound_version(number: i32) -> bool {
    let (minor, patch) = (number / 1_000, number % 1_000);
    number >= 3_051_003 || (minor == 3_050 && patch >= 7) || (minor == 3_044 && patch >= 6)
}

/// Refuses what cannot be used; the file that `path` leads to, and what speaks against it.
fn check_path(path: &Path, create: bool) -> Result<(PathBuf, Vec<Warning>), Error> {
    let is_uri = path.as_os_str().as_encoded_bytes().starts_with(b"file:");
    if path.as_os_str().is_empty() || path == Path::new(":memory:") || is_uri {
        return Err(Error::NotAFile);
    }
    if path.is_dir() {
        return Err(Error::NotADatabase(path.to_owned()));
    }
    let real = real_path(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::FolderMissing(folder_of(path).to_owned()),
        _ => Error::Io { doing: "look at", path: path.to_owned(), source },
    })?;
    let exists = real.exists();
    if !create && !exists {
        return Err(Error::Missing(path.to_owned()));
    }
    // What counts is where the file lies, not where a link to it does.
    let folder = folder_of(&real);
    if access(folder, Access::WRITE_OK).is_err() {
        return Err(Error::ReadOnly(folder.to_owned()));
    }
    if exists && access(&real, Access::WRITE_OK).is_err() {
        return Err(Error::ReadOnly(path.to_owned()));
    }
    if exists && has_other_names(&real).is_ok_and(|has_others| has_others) {
        return Err(Error::HardLinked(path.to_owned()));
    }
    let warnings = groupcommit_medium::examine(folder).map_err(|Unusable(file_system)| {
        Error::FileSystem { path: path.to_owned(), file_system }
    })?;
    Ok((real, warnings))
}

fn sqlite(path: &Path, doing: &'static str) -> impl Fn(rusqlite::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Sqlite { doing, path: path.clone(), source }
}

/// The error of an attempt to open, in the words of the one who must mend it.
fn explain(path: &Path, error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => Error::NotADatabase(path.to_owned()),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::Held { path: path.to_owned(), source: error }
        }
        Some(ErrorCode::DiskFull) => Error::DiskFull { path: path.to_owned(), source: error },
        Some(ErrorCode::ReadOnly) => Error::ReadOnly(path.to_owned()),
        _ => Error::Sqlite { doing: "open", path: path.to_owned(), source: error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_the_log_reset_race_are_refused() {
        for sound in [3_051_003, 3_054_001, 3_050_007, 3_044_006] {
            assert!(is_sound_version(sound), "{sound}");
        }
        for racy in [3_051_002, 3_050_006, 3_049_001, 3_044_005, 3_045_000, 3_043_002] {
            assert!(!is_sound_version(racy), "{racy}");
        }
    }
}
