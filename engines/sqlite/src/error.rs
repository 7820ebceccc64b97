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
    #[error("there is no database at {}", .0.display())]
    Missing(PathBuf),

    /// The database, or the folder that must hold its write-ahead log, cannot be written.
    #[error("{} is read-only; groupcommit needs to write it and its folder", .0.display())]
    ReadOnly(PathBuf),

    /// The file is something else than a database.
    #[error("{} is not an SQLite database; it is left as it is", .0.display())]
    NotADatabase(PathBuf),

    /// Another process keeps the database locked.
    #[error("{} is locked by another process; end its transaction or close it, then try again", path.display())]
    Held {
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },

    /// The database uses a rollback journal, and its conversion was not asked for.
    #[error(
        "{} is in rollback-journal mode ({mode}); open it with `convert_to_wal(true)` to convert it \
         to write-ahead logging, which every program that uses it will then see",
        path.display()
    )]
    RollbackJournal {
        /// The database.
        path: PathBuf,
        /// Its journal mode.
        mode: String,
    },

    /// An exclusive met an input or output error. If it was one of a checkpoint, pages may be lost
    /// that only the log still has.
    #[error(
        "an exclusive met an input or output error on {}; open the database again once the disk is well",
        .0.display()
    )]
    ExclusiveIo(PathBuf),

    /// A database without a file has nothing to flush to. A URI may name one, or switch off what
    /// durability rests on.
    #[error(
        "an in-memory or temporary database cannot be durable; give the path of a file, not a URI"
    )]
    NotAFile,

    /// The database has another name (a hard link). SQLite would keep another write-ahead log for it
    /// under that one, and each would overwrite what the other has committed.
    #[error("{} has more than one name (hard links); remove the others, or make copies of them", .0.display())]
    HardLinked(PathBuf),

    /// Writes to the database failed in this process, and it is still open, here or elsewhere: what
    /// is really on the disk cannot be read.
    #[error(
        "writes to {} failed earlier, and it is still open; close every handle to it, here and in \
         other processes, then open it again",
        .0.display()
    )]
    StillOpen(PathBuf),

    /// The database lies on a file system on which write-ahead logging does not work.
    #[error("{} lies on {file_system}, where SQLite's write-ahead log does not work; use a local disk", path.display())]
    FileSystem {
        /// The database.
        path: PathBuf,
        /// The kind of file system.
        file_system: &'static str,
    },

    /// The SQLite that was linked has a known defect in the write-ahead log.
    #[error(
        "SQLite {found} can corrupt a database that is checkpointed while it is written; \
         3.51.3, 3.50.7 or 3.44.6 and their successors do not: use the bundled one"
    )]
    SqliteTooOld {
        /// The version found at run time.
        found: String,
    },

    /// The database was deleted, moved or replaced while it was open.
    #[error("the database {} was deleted, moved or replaced while it was in use", .0.display())]
    DatabaseReplaced(PathBuf),

    /// The write-ahead log was deleted or replaced while the database was open.
    #[error("the write-ahead log {} was deleted or replaced while it was in use", .0.display())]
    LogReplaced(PathBuf),

    /// A log from before could not be brought into the database, so nothing can be promised yet.
    #[error(
        "the write-ahead log of {} could not be brought into the database, because another process \
         reads or writes it without pause; try again when it rests",
        .0.display()
    )]
    NotRecovered(PathBuf),

    /// The disk has no room to bring the log from before into the database.
    #[error(
        "the disk that holds {} is full: its write-ahead log cannot be brought into the database; \
         nothing is lost, make room and open it again",
        path.display()
    )]
    DiskFull {
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },

    /// A transaction ended with a foreign key unsatisfied.
    #[error(
        "FOREIGN KEY constraint failed: a deferred foreign key is not satisfied at the end of the transaction"
    )]
    ForeignKey,

    /// A statement rolled the whole transaction back (`OR ROLLBACK`, `RAISE(ROLLBACK)`, or an error
    /// that SQLite answers so), though its closure returned a value.
    #[error("a statement rolled the transaction back")]
    RolledBack,

    /// A savepoint could not be undone or kept, though the transaction's closure returned a value.
    #[error("a savepoint could not be ended, so its transaction was rolled back")]
    SavepointKept,

    /// A transaction changed the configuration of the connection that all share.
    #[error("a transaction may not change the configuration of the connection; use `exclusive`")]
    ConfigurationChanged,

    /// An exclusive returned with a transaction of its own still open; that was rolled back.
    #[error("`exclusive` returned with a transaction open; it was rolled back: commit it first")]
    LeftOpen,

    /// SQLite failed.
    #[error("could not {doing} {}", path.display())]
    Sqlite {
        /// What was being done.
        doing: &'static str,
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
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
