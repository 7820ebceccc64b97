//! A client of a database that speaks SQL, used directly and blocking.

use crate::error::Cause;

/// A connection whose calls block. Statements are prepared when they are first used.
pub(crate) trait Blocking: Send + Sized + 'static {
    /// Connects to the database at `url`.
    fn connect(url: &str) -> Result<Self, Cause>;

    /// Runs a statement, whose parameters are `numbers` and then `text`, and returns the number in the
    /// first column of its first row.
    fn run(&mut self, sql: &str, numbers: &[i64], text: Option<&str>)
    -> Result<Option<i64>, Cause>;
}
