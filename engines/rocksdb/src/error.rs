//! What can be wrong with a database, said so that the reader knows what to do.

use std::{io, path::PathBuf};

/// Why a database could not be opened or used, or a transaction was rejected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder that should hold the database does not exist.
    #[error("the folder {} does not exist; create it first", .0.display())]
    FolderMissing(PathBuf),

    /// There is no database at this path, and it was not to be created.
    #[error("there is no RocksDB database at {}", .0.display())]
    Missing(PathBuf),

    /// Something else than a RocksDB database lies there.
    #[error("{} is not a folder, so not a RocksDB database; it is left as it is", .0.display())]
    NotADatabase(PathBuf),

    /// The database is open in this process already, or a read of a closed handle still runs.
    #[error("{} is open in this process already; use a clone of the database that is open, or close it", .0.display())]
    AlreadyOpen(PathBuf),

    /// The database's folder, or RocksDB's lock file in it, was deleted, moved or replaced while the
    /// database was open.
    #[error("{} was deleted, moved or replaced while the database was in use", .0.display())]
    Replaced(PathBuf),

    /// Another process has the database open.
    #[error("{} is open elsewhere, and RocksDB lets one process in at a time; close it there", path.display())]
    Held {
        /// The database.
        path: PathBuf,
        /// What RocksDB said.
        source: rocksdb::Error,
    },

    /// The database lies in an environment other than the file system.
    #[error("{} was opened in an environment that is not the file system: nothing there can be durable", .0.display())]
    NotAFile(PathBuf),

    /// The database lies on a file system on which locks or flushes do not work as they must.
    #[error("{} lies on {file_system}, where a database cannot be kept safely; use a local disk", path.display())]
    FileSystem {
        /// The database.
        path: PathBuf,
        /// The kind of file system.
        file_system: &'static str,
    },

    /// A setting under which a ticket would promise what does not hold.
    #[error("{setting} cannot be used: {reason}")]
    Setting {
        /// The setting, by RocksDB's name.
        setting: &'static str,
        /// What would break, and what to do.
        reason: &'static str,
    },

    /// The settings that the database runs with could not be read back.
    #[error("could not read the settings that {} was opened with", path.display())]
    Settings {
        /// The database.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A column family that the database does not have.
    #[error("there is no column family \"{0}\"; create it in `exclusive`, or name it when opening")]
    NoColumnFamily(String),

    /// A transaction with a token, in a database that keeps none.
    #[error("the database keeps no tokens; open it with `Options::tokens`")]
    NoTokens,

    /// A merge into a column family without a merge operator, which RocksDB would find out only
    /// after the write had reached its log.
    #[error("column family \"{0}\" has no merge operator; set one in its options when opening")]
    NoMergeOperator(String),

    /// A range deletion in a column family whose table format has none.
    #[error("column family \"{0}\" keeps its data in a table format without range deletions")]
    NoRangeDeletion(String),

    /// A range that ends before it begins, which RocksDB would find out only after the write had
    /// reached its log.
    #[error("the range to delete ends before it begins")]
    ReversedRange,

    /// A key or value that RocksDB cannot hold.
    #[error("a key or value of {bytes} bytes is too long; RocksDB holds up to 4 GiB")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },

    /// A compare-and-swap found something else than it expected, so its transaction was rolled
    /// back.
    #[error("write {index} of the transaction found another value than it expected")]
    Mismatch {
        /// Which of the transaction's writes, from 0.
        index: usize,
        /// What it found; `None` for nothing.
        found: Option<Vec<u8>>,
    },

    /// The deadline of the transaction passed while it ran.
    #[error("the transaction's deadline passed while it ran")]
    DeadlinePassed,

    /// RocksDB failed.
    #[error("could not {doing} {}", path.display())]
    Rocksdb {
        /// What was being done.
        doing: &'static str,
        /// The database.
        path: PathBuf,
        /// What RocksDB said.
        source: rocksdb::Error,
    },

    /// The operating system failed.
    #[error("could not {doing} {}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// RocksDB takes no more writes, because it could not write out what is in memory, or compact.
    #[error("{} takes no more writes after a failure; see to its disk, then close and open it again", path.display())]
    Stopped {
        /// The database.
        path: PathBuf,
        /// What had failed, as RocksDB says it.
        source: rocksdb::Error,
    },

    /// RocksDB failed inside a transaction.
    #[error("RocksDB could not {doing}")]
    InTransaction {
        /// What was being done.
        doing: &'static str,
        /// What RocksDB said.
        source: rocksdb::Error,
    },

    /// RocksDB's C interface failed inside a transaction.
    #[error("RocksDB could not {doing}: {message}")]
    Native {
        /// What was being done.
        doing: &'static str,
        /// What RocksDB said.
        message: String,
    },

    /// Not every write of a group went into its batch, so none was written.
    #[error("RocksDB took {taken} of {noted} writes into a batch; nothing of it was written")]
    BatchIncomplete {
        /// The writes that the batch holds.
        taken: usize,
        /// The writes that it should hold.
        noted: usize,
    },

    /// A transaction inside an exclusive could not be written; what RocksDB said is the cause with
    /// which the database refuses everything after it.
    #[error("RocksDB could not write the transaction, so whether it is there is not known")]
    WriteFailed,

    /// The database is closed.
    #[error("the database is closed")]
    Closed,

    /// Closing failed because of what happened before.
    #[error("the database did not close cleanly")]
    Close {
        /// What had happened.
        source: groupcommit_core::Cause,
    },
}
