//! Opening a database: everything that has to be true before the first promise is made.

use std::{path::Path, sync::Arc};

use groupcommit_core::{Limits, Pipeline, Settings, TokenLimits};
use groupcommit_medium::{Unusable, Warning, folder_of};
use rocksdb::{ColumnFamilyDescriptor, DB, ErrorKind};

use crate::{
    Database, Error, UnloggedDatabase,
    database::Inner,
    engine::Writer,
    families::{self, DEFAULT},
    log::Log,
    place::{Claim, Handle, prepare, real_folder},
    settings,
    store::{Store, Wal},
    tokens::TOKENS,
};

/// How to open a database.
#[derive(Clone)]
pub struct Options {
    create: bool,
    rocksdb: rocksdb::Options,
    families: Vec<(String, rocksdb::Options)>,
    settings: Settings,
    times_log: bool,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").finish_non_exhaustive()
    }
}

impl Default for Options {
    /// Creates the database when it is missing, uses RocksDB's own defaults, and admits
    /// [`Limits::default`].
    fn default() -> Self {
        Self {
            create: true,
            rocksdb: rocksdb::Options::default(),
            families: Vec::new(),
            settings: Settings::default(),
            times_log: false,
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

    /// RocksDB's options, for the database and for every column family that is not given its own.
    /// Opening refuses those under which a ticket could be wrong ([`Error::Setting`]).
    #[must_use]
    pub fn rocksdb(mut self, options: rocksdb::Options) -> Self {
        self.rocksdb = options;
        self
    }

    /// A column family, created when it is missing, and its options.
    #[must_use]
    pub fn column_family(mut self, name: impl Into<String>, options: rocksdb::Options) -> Self {
        self.families.push((name.into(), options));
        self
    }

    /// How much may be in flight at once.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Keeps tokens, so that transactions can take effect [once](groupcommit_core::Submitter::once), within
    /// these limits. Opening creates the column family `_groupcommit_tokens` if it is missing.
    #[must_use]
    pub fn tokens(mut self, limits: TokenLimits) -> Self {
        self.settings.tokens = limits;
        self.column_family(TOKENS, rocksdb::Options::default())
    }

    /// Counts how long RocksDB takes to write its log.
    #[cfg(feature = "experiments")]
    #[must_use]
    pub fn time_log(mut self, times: bool) -> Self {
        self.times_log = times;
        self
    }

    /// Opens the database in the folder `path`.
    ///
    /// # Durability
    ///
    /// What an earlier process left in the log is written into table files and synced before this
    /// returns: it may have been readable without being durable.
    ///
    /// # Errors
    ///
    /// What keeps the database from being used so that every promise holds; see [`Error`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Database, Error> {
        self.open_with(path.as_ref(), Wal::On)
    }

    /// Opens the database in the folder `path` without a write-ahead log: a transaction survives
    /// the process, and a power cut, only after [`UnloggedDatabase::flush`].
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_unlogged(&self, path: impl AsRef<Path>) -> Result<UnloggedDatabase, Error> {
        self.open_with(path.as_ref(), Wal::Off).map(UnloggedDatabase::new)
    }

    fn open_with(&self, path: &Path, wal: Wal) -> Result<Database, Error> {
        settings::check(&self.rocksdb)?;
        self.families.iter().try_for_each(|(_, options)| settings::check(options))?;
        let real = real_folder(path)?;
        let warnings = check_path(path, &real, self.create)?;
        for warning in &warnings {
            tracing::warn!(path = %path.display(), "{warning}");
        }
        prepare(&real)?;
        let claim = Claim::of(&real)?;
        let db = Handle::new(self.open_rocksdb(path, &real, wal)?, &real, claim)?;
        let families = families::families(&real)?;
        settings::check_families(&families)?;
        let store = Arc::new(Store::new(&real, db, wal, self.times_log));
        let writer = Writer {
            store: store.clone(),
            families,
            log: Log::default(),
            clock: self.settings.clock.clone(),
        };
        let settings = Settings { label: path.display().to_string(), ..self.settings.clone() };
        Ok(Database::new(Inner { pipeline: Pipeline::new(writer, settings), store, warnings }))
    }

    fn open_rocksdb(&self, path: &Path, real: &Path, wal: Wal) -> Result<DB, Error> {
        let mut options = self.rocksdb.clone();
        options.create_if_missing(self.create);
        options.create_missing_column_families(true);
        // A log that should be there and is not, or is shorter than it was when it was synced, is
        // then an error, not the end of what is recovered.
        options.set_track_and_verify_wals_in_manifest(true);
        if wal == Wal::Off {
            // Without a log, families flushed one by one would tear transactions apart.
            options.set_atomic_flush(true);
        }
        let explain = |source: rocksdb::Error| explain(path, source);
        let mut names = vec![DEFAULT.to_owned()];
        if real.join("CURRENT").exists() {
            names.extend(DB::list_cf(&options, real).map_err(explain)?);
        }
        names.extend(self.families.iter().map(|(name, _)| name.clone()));
        names.sort_unstable();
        names.dedup();
        let descriptors = names.into_iter().map(|name| {
            let own = self.families.iter().rev().find(|(family, _)| *family == name);
            let options = own.map_or(&options, |(_, options)| options).clone();
            ColumnFamilyDescriptor::new(name, options)
        });
        DB::open_cf_descriptors(&options, real, descriptors).map_err(explain)
    }
}

/// Refuses what cannot be used, and says what speaks against the rest. What counts is where the
/// folder lies, not where a link to it does.
fn check_path(path: &Path, real: &Path, create: bool) -> Result<Vec<Warning>, Error> {
    if !create && !real.join("CURRENT").exists() {
        return Err(Error::Missing(path.to_owned()));
    }
    let folder = if real.is_dir() { real } else { folder_of(real) };
    groupcommit_medium::examine(folder)
        .map_err(|Unusable(file_system)| Error::FileSystem { path: path.to_owned(), file_system })
}

/// The error of an attempt to open, in the words of the one who must mend it.
fn explain(path: &Path, source: rocksdb::Error) -> Error {
    let path = path.to_owned();
    let text = source.as_ref();
    let is_lock = text.contains("/LOCK:") && !text.contains("open a file for lock");
    if source.kind() == ErrorKind::IOError && is_lock {
        return Error::Held { path, source };
    }
    Error::Rocksdb { doing: "open", path, source }
}
