//! What can be wrong with a database, said so that the reader knows what to do.

use std::{io, path::PathBuf};

/// Why a database could not be opened or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder that should hold the database does not exist.
    #[error("the folder {} does not exist; create it first", .0.display())]
    FolderMissing(PathBuf),

    /// There is no database at this path, and it was not to be created.
    #[error("there is no LMDB database at {}", .0.display())]
    Missing(PathBuf),

    /// The database is open in this process already.
    #[error(
        "{} is open in this process already, which LMDB does not allow twice; \
         use a clone of the database that is open",
        .0.display()
    )]
    AlreadyOpen(PathBuf),

    /// The file is something else than a database, or of another version of LMDB's format.
    #[error("{} is not an LMDB database that this version can read; it is left as it is", path.display())]
    NotADatabase {
        /// The database.
        path: PathBuf,
        /// What LMDB said.
        source: heed::Error,
    },

    /// The database lies on a file system on which LMDB does not work.
    #[error("{} lies on {file_system}, where LMDB's locks do not work; use a local disk", path.display())]
    FileSystem {
        /// The database.
        path: PathBuf,
        /// The kind of file system.
        file_system: &'static str,
    },

    /// The data file has another name (a link), under which LMDB would use other locks, and two
    /// processes would write at the same time.
    #[error("{} has another name (a link); remove the link, or open the file that it leads to", .0.display())]
    Linked(PathBuf),

    /// The data file, or the file of its locks, was deleted or replaced while the database was open.
    #[error("{} was deleted, moved or replaced while the database was in use", .0.display())]
    Replaced(PathBuf),

    /// A transaction left LMDB's transaction broken, though its closure returned a value.
    #[error("an operation of the transaction failed in LMDB, which then keeps nothing of it")]
    Broken,

    /// A closure exchanged the transaction it was given for another.
    #[error("a closure exchanged the transaction of {} for another one", .0.display())]
    Exchanged(PathBuf),

    /// A transaction with a token, in a database that keeps none.
    #[error("the database keeps no tokens; open it with `Options::tokens`")]
    NoTokens,

    /// The map cannot grow further.
    #[error(
        "the map of {} is full, and {bytes_max} bytes are its limit; \
         raise `map_bytes_max` or delete what is not needed",
        path.display()
    )]
    MapFull {
        /// The database.
        path: PathBuf,
        /// The limit that the options set.
        bytes_max: usize,
    },

    /// LMDB failed.
    #[error("could not {doing} {}", path.display())]
    Lmdb {
        /// What was being done.
        doing: &'static str,
        /// The database.
        path: PathBuf,
        /// What LMDB said.
        source: heed::Error,
    },

    /// The operating system failed.
    #[error("could not {doing} {}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// Closing failed because of what happened before.
    #[error("the database did not close cleanly")]
    Close {
        /// What had happened.
        source: groupcommit_core::Cause,
    },
}
