//! Opening a database: everything that has to be true before the first promise is made.

use std::{io, path::Path, sync::Arc};

use groupcommit_core::{Limits, Pipeline, Settings, TokenLimits};
use groupcommit_medium::{Unusable, folder_of, has_other_names, real_path};
use heed::{CommitOrAbort, Env, MdbError, WithoutTls, types::Bytes};

use crate::{
    Database, Error, Table,
    database::Inner,
    engine::Writer,
    environment::Environment,
    exclusive::Exclusive,
    ffi::{self, Shape},
    file::{DataFile, sync_folder_of},
    gate::Gate,
    tokens::TOKENS,
};

/// The unit in which a map is sized: a multiple of every page size in use.
const MAP_UNIT_BYTES: usize = 1 << 20;

/// How to open a database.
#[derive(Debug, Clone)]
pub struct Options {
    create: bool,
    map_bytes: usize,
    map_bytes_max: usize,
    tables_max: u32,
    readers_max: u32,
    keeps_tokens: bool,
    settings: Settings,
}

impl Default for Options {
    /// Creates the database when it is missing, with a map of 1 GiB that grows to at most 1 TiB,
    /// 128 tables and 512 readers at once, and admits [`Limits::default`].
    fn default() -> Self {
        Self {
            create: true,
            map_bytes: 1 << 30,
            map_bytes_max: 1 << 40,
            tables_max: 128,
            readers_max: 512,
            keeps_tokens: false,
            settings: Settings::default(),
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

    /// How much address space the map has at first, in bytes, rounded up to whole MiB. It takes no
    /// memory and no room on the disk; when it is full it grows by itself, which waits for reads to
    /// end.
    #[must_use]
    pub fn map_bytes(mut self, bytes: usize) -> Self {
        self.map_bytes = bytes;
        self
    }

    /// How far the map may grow, in bytes.
    #[must_use]
    pub fn map_bytes_max(mut self, bytes: usize) -> Self {
        self.map_bytes_max = bytes;
        self
    }

    /// How many named tables may be opened.
    #[must_use]
    pub fn tables_max(mut self, tables: u32) -> Self {
        self.tables_max = tables;
        self
    }

    /// How many reads may run at once, in all processes together; the first process that opens the
    /// environment decides.
    #[must_use]
    pub fn readers_max(mut self, readers: u32) -> Self {
        self.readers_max = readers.max(1);
        self
    }

    /// How much may be in flight at once.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Keeps tokens, so that transactions can take effect [once](groupcommit_core::Submitter::once), within
    /// these limits. Opening creates the table `_groupcommit_tokens` if it is missing.
    #[must_use]
    pub fn tokens(mut self, limits: TokenLimits) -> Self {
        self.settings.tokens = limits;
        self.keeps_tokens = true;
        self
    }

    /// Opens the database at `path`: a folder that holds `data.mdb`, as is LMDB's custom, or, where
    /// there is one already, a data file without a folder.
    ///
    /// # Durability
    ///
    /// What an earlier process left in the file is synced before this returns: it may have been
    /// readable without being durable.
    ///
    /// # Errors
    ///
    /// What keeps the database from being used so that every promise holds; see [`Error`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Database, Error> {
        let path = path.as_ref();
        // LMDB makes the name of the locks from the name that it is given.
        let real = real_path(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::FolderMissing(folder_of(path).to_owned()),
            _ => Error::Io { doing: "look at", path: path.to_owned(), source },
        })?;
        let is_file = real.is_file();
        let (data_path, locks) = if is_file {
            let mut locks = real.clone().into_os_string();
            locks.push("-lock");
            (real.clone(), locks.into())
        } else {
            (real.join("data.mdb"), real.join("lock.mdb"))
        };
        if !self.create && !data_path.exists() {
            return Err(Error::Missing(path.to_owned()));
        }
        if data_path.is_symlink() || has_other_names(&data_path).is_ok_and(|has_others| has_others)
        {
            return Err(Error::Linked(data_path));
        }
        let folder = prepare_folder(&real, is_file)?;
        let warnings = groupcommit_medium::examine(folder).map_err(|Unusable(file_system)| {
            Error::FileSystem { path: path.to_owned(), file_system }
        })?;
        for warning in &warnings {
            tracing::warn!(path = %path.display(), "{warning}");
        }
        let mut data = DataFile::open(data_path)?;
        let shape = Shape {
            map_bytes: self.first_map_bytes(data.bytes()?),
            tables_max: self.tables_max.saturating_add(self.keeps_tokens.into()),
            readers_max: self.readers_max,
            is_file,
        };
        let env = ffi::open(&real, shape).map_err(|error| explain(path, error))?;
        data.watch(locks)?;
        let data = Arc::new(data);
        let _cleared = env.clear_stale_readers().map_err(|error| explain(path, error))?;
        let main_table = open_main_table(&env).map_err(|error| explain(path, error))?;
        // What LMDB itself wrote on creating the file.
        data.flush()?;
        // Some of the slots are left to other processes.
        let passes_max =
            (env.max_readers() as usize).saturating_sub(env.max_readers() as usize / 8);
        let gate = Arc::new(Gate::new(env.clone(), passes_max));
        let environment = Environment {
            env,
            gate: gate.clone(),
            path: path.to_owned(),
            map_bytes_max: self.map_bytes_max.next_multiple_of(MAP_UNIT_BYTES),
            main_table,
            token_table: None,
        };
        let mut exclusive = Exclusive { environment, doubt: None };
        if self.keeps_tokens {
            let table = exclusive.table(Some(TOKENS))?;
            exclusive.environment.token_table = Some(table);
            data.flush()?;
        }
        let writer = Writer { exclusive: Some(exclusive), data: data.clone(), members: Vec::new() };
        let settings = Settings { label: path.display().to_string(), ..self.settings.clone() };
        let pipeline = Pipeline::new(writer, settings);
        Ok(Database::new(Inner { gate, pipeline, data, warnings, main_table }))
    }

    /// A map in which what is there has room to double.
    fn first_map_bytes(&self, file_bytes: u64) -> usize {
        let there = usize::try_from(file_bytes).unwrap_or(usize::MAX / 4);
        self.map_bytes
            .max(there.saturating_mul(2))
            .max(MAP_UNIT_BYTES)
            .next_multiple_of(MAP_UNIT_BYTES)
    }
}

/// Opens the unnamed table, which is always there.
fn open_main_table(env: &Env<WithoutTls>) -> heed::Result<Table> {
    let txn = env.write_txn()?;
    let opened = env.create_databases_and_commit(txn, |opener, txn| {
        opener.create_database::<Bytes, Bytes>(txn, None).map(CommitOrAbort::<_, ()>::Commit)
    })?;
    opened.commit().ok_or(heed::Error::Mdb(MdbError::BadDbi))
}

/// The folder that holds the data file; created if it alone is missing.
fn prepare_folder(path: &Path, is_file: bool) -> Result<&Path, Error> {
    if is_file {
        return Ok(folder_of(path));
    }
    if !path.is_dir() {
        std::fs::create_dir(path).map_err(|source| {
            let path = path.to_owned();
            Error::Io { doing: "create the folder", path, source }
        })?;
        sync_folder_of(path)?;
    }
    Ok(path)
}

/// The error of an attempt to open, in the words of the one who must mend it.
fn explain(path: &Path, error: heed::Error) -> Error {
    match error {
        heed::Error::EnvAlreadyOpened => Error::AlreadyOpen(path.to_owned()),
        heed::Error::Mdb(MdbError::Invalid | MdbError::VersionMismatch | MdbError::Corrupted) => {
            Error::NotADatabase { path: path.to_owned(), source: error }
        }
        source => Error::Lmdb { doing: "open", path: path.to_owned(), source },
    }
}
