//! What is known to go wrong in LMDB, each with a test that fails without its defence.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod file;
mod map_growth;
mod opening;
mod plain_data;
mod reading;

use std::path::PathBuf;

use groupcommit_lmdb::{Database, Options};
use tempfile::TempDir;

/// A database in a folder of its own.
struct Scratch {
    db: Database,
    path: PathBuf,
    _folder: TempDir,
}

impl Scratch {
    fn new(options: &Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test");
        Self { db: options.open(&path).unwrap(), path, _folder: folder }
    }

    /// How many rows the unnamed table has.
    fn rows(&self) -> u64 {
        self.db.read(|tx| self.db.main_table().len(tx)).unwrap()
    }
}
