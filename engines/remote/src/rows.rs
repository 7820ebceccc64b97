//! The rows of a read.

use std::fmt;

use groupcommit_statement::Value;

use crate::{Error, Protocol, RowSource as _};

/// The rows of a read, as they arrive. They keep a connection until the last row is taken or this is
/// dropped. So keep at most one fewer of these open than there are connections
/// ([`Options::readers`](crate::Options::readers)) while you read more.
pub struct Rows<P: Protocol>(pub(crate) P::Rows);

impl<P: Protocol> fmt::Debug for Rows<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("columns", &self.columns()).finish_non_exhaustive()
    }
}

impl<P: Protocol> Rows<P> {
    /// The names of the columns.
    #[must_use]
    pub fn columns(&self) -> Vec<String> {
        self.0.columns()
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    ///
    /// The server's, or that the connection was lost.
    ///
    /// # Cancel safety
    ///
    /// No row is lost when the future is dropped before it is ready.
    pub async fn next(&mut self) -> Result<Option<Vec<Value>>, Error<P>> {
        self.0.next().await
    }
}
