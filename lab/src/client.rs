//! Clients of databases that speak SQL, used directly: one that blocks, and the asynchronous ones of
//! servers.

#[cfg(any(feature = "postgres", feature = "mysql"))]
use std::future::Future;

#[cfg(any(feature = "postgres", feature = "mysql"))]
use tokio::runtime::{Builder, Runtime};

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

/// A connection of an asynchronous client, which does the same.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) trait Client: Send + Sized + 'static {
    fn connect(url: &str) -> impl Future<Output = Result<Self, Cause>> + Send;

    fn run(
        &mut self,
        sql: &str,
        numbers: &[i64],
        text: Option<&str>,
    ) -> impl Future<Output = Result<Option<i64>, Cause>> + Send;
}

/// An asynchronous client on a runtime of its own, which is how the blocking clients of PostgreSQL
/// and MySQL are made.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) struct Lane<C> {
    client: C,
    runtime: Runtime,
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
impl<C: Client> Blocking for Lane<C> {
    fn connect(url: &str) -> Result<Self, Cause> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(C::connect(url))?;
        Ok(Self { client, runtime })
    }

    fn run(
        &mut self,
        sql: &str,
        numbers: &[i64],
        text: Option<&str>,
    ) -> Result<Option<i64>, Cause> {
        self.runtime.block_on(self.client.run(sql, numbers, text))
    }
}
