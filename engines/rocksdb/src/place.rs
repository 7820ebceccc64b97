//! Where an open database lies.
//!
//! Invariants:
//! 1. A folder is open once in a process, whatever the path that leads to it. RocksDB compares the
//!    names of its lock files, and its locks keep out other processes only.
//! 2. The folder and RocksDB's lock file are at their paths: device and inode are compared at every
//!    flush. RocksDB keeps both open, so that neither inode is given to another file meanwhile.

use std::{
    fs, io,
    ops::Deref,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use groupcommit_medium::{Identity, folder_of, real_path, sync_folder_of};
use rocksdb::DB;

use crate::Error;

/// The folders of the databases that are open in this process.
static OPEN: Mutex<Vec<Identity>> = Mutex::new(Vec::new());

fn open_folders() -> MutexGuard<'static, Vec<Identity>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The folder that `path` leads to: absolute, and free of symbolic links.
pub(crate) fn real_folder(path: &Path) -> Result<PathBuf, Error> {
    let real = real_path(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::FolderMissing(folder_of(path).to_owned()),
        _ => Error::Io { doing: "look at", path: path.to_owned(), source },
    })?;
    if real.exists() && !real.is_dir() {
        return Err(Error::NotADatabase(path.to_owned()));
    }
    Ok(real)
}

/// Creates the folder if it is missing, and makes its directory entry durable, which RocksDB leaves
/// to others.
pub(crate) fn prepare(folder: &Path) -> Result<(), Error> {
    let failed = |doing, path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { doing, path, source }
    };
    if !folder.is_dir() {
        fs::create_dir(folder).map_err(failed("create the folder", folder))?;
    }
    sync_folder_of(folder).map_err(failed("flush the folder", folder_of(folder)))
}

/// The right to open a folder's database in this process.
#[derive(Debug)]
pub(crate) struct Claim(Identity);

impl Claim {
    pub(crate) fn of(folder: &Path) -> Result<Self, Error> {
        let identity = identity_of(folder)?;
        let mut open = open_folders();
        if open.contains(&identity) {
            return Err(Error::AlreadyOpen(folder.to_owned()));
        }
        open.push(identity);
        Ok(Self(identity))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        open_folders().retain(|open| *open != self.0);
    }
}

/// RocksDB's handle with its place.
#[derive(Debug)]
pub(crate) struct Handle {
    /// Closed before the claim is given up.
    db: DB,
    places: [(PathBuf, Identity); 2],
    _claim: Claim,
}

impl Handle {
    /// The database that was opened in the claimed folder.
    pub(crate) fn new(db: DB, folder: &Path, claim: Claim) -> Result<Self, Error> {
        let locks = folder.join("LOCK");
        let of_locks = identity_of(&locks)?;
        let places = [(folder.to_owned(), claim.0), (locks, of_locks)];
        let handle = Self { db, places, _claim: claim };
        handle.check_in_place()?;
        Ok(handle)
    }

    /// Fails when the folder or its lock file is no longer at its path.
    pub(crate) fn check_in_place(&self) -> Result<(), Error> {
        for (path, identity) in &self.places {
            match identity.is_at(path) {
                Ok(true) => {}
                Ok(false) => return Err(Error::Replaced(path.clone())),
                Err(source) => {
                    return Err(Error::Io { doing: "look at", path: path.clone(), source });
                }
            }
        }
        Ok(())
    }
}

impl Deref for Handle {
    type Target = DB;

    fn deref(&self) -> &DB {
        &self.db
    }
}

fn identity_of(path: &Path) -> Result<Identity, Error> {
    Identity::of(path).map_err(|source| Error::Io {
        doing: "look at",
        path: path.to_owned(),
        source,
    })
}
