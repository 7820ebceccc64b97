//! What can go wrong in an experiment, in sentences.

use std::error::Error;
use std::io;
use std::path::PathBuf;

/// The failure of a transaction or a database, whichever condition it belongs to.
pub(crate) type Cause = Box<dyn Error + Send + Sync>;

/// An experiment that could not be run, or whose result cannot be trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The options contradict each other or cannot be measured.
    #[error("{0}")]
    Options(String),

    /// A file or folder could not be used.
    #[error("could not {action} {}", path.display())]
    Io {
        /// What was tried, as in "could not *create the folder* x".
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },

    /// A database failed outside the measured transactions.
    #[error("could not {action} {}", path.display())]
    Database {
        /// What was tried.
        action: &'static str,
        /// On which database.
        path: PathBuf,
        /// Its answer.
        source: Cause,
    },

    /// A measured transaction was not committed, so there is no figure to report.
    #[error("a transaction of condition {condition} (batch {batch}) was not committed")]
    Transaction {
        /// Which condition.
        condition: &'static str,
        /// Rows a transaction.
        batch: usize,
        /// The failure that its caller received.
        source: Cause,
    },

    /// The database does not hold what was acknowledged.
    #[error(
        "condition {condition} (batch {batch}) acknowledged {acknowledged_rows} rows with key sum {acknowledged_key_sum}, \
         but a fresh connection finds {verified_rows} rows with key sum {verified_key_sum}; \
         its figures are not to be trusted"
    )]
    Verification {
        /// Which condition.
        condition: &'static str,
        /// Rows a transaction.
        batch: usize,
        /// Rows whose transactions were reported as committed.
        acknowledged_rows: u64,
        /// Sum of their keys.
        acknowledged_key_sum: i128,
        /// Rows in the database.
        verified_rows: u64,
        /// Sum of the keys in the database.
        verified_key_sum: i128,
    },

    /// The database does not hold what the acknowledged writes should have left.
    #[error(
        "after {writes} acknowledged writes of condition {condition} the row with key {key} is not as it should be; \
         its figures are not to be trusted"
    )]
    Content {
        /// Which condition.
        condition: &'static str,
        /// Writes that were reported as committed.
        writes: u64,
        /// The first key whose row is missing, too much or altered.
        key: i64,
    },

    /// A record could not be written or read as JSON.
    #[error("could not {action} the records in {}", path.display())]
    Record {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

impl LabError {
    /// For `map_err`: an I/O failure of `action` on `path`.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
