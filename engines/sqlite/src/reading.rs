//! Reading without blocking: SQLite is called on a thread, so reads go over a bounded bridge.

use std::{
    convert::Infallible,
    sync::{Arc, Weak},
    thread,
};

use groupcommit_bridge::{Bridge, Connect, Failure as BridgeFailure, Limits};
use groupcommit_core::{Failure, NotRun, Rejected};
use rusqlite::Connection;

use crate::{Database, database::Inner};

/// What a thread of the bridge reads with; it does not keep the database open.
pub(crate) struct Reads(Weak<Inner>);

impl Connect for Reads {
    type Connection = Weak<Inner>;
    type Error = Infallible;

    fn connect(&self) -> Result<Weak<Inner>, Infallible> {
        Ok(self.0.clone())
    }
}

impl Database {
    /// As [`read`](Self::read), on another thread, without blocking this one. No runtime is needed.
    /// As many run at once as there are cores; others wait without a thread.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read); a panic of the closure is [`Rejected::Panicked`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future discards the result; a read that has not begun is not run.
    pub async fn read_async<T, E>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Failure<E>>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let inner = self.inner();
        let reads = inner.reads.get_or_init(|| {
            let connections = thread::available_parallelism().map_or(1, std::num::NonZero::get);
            Bridge::new(Reads(Arc::downgrade(inner)), Limits { connections, ..Limits::default() })
        });
        let call = move |inner: &mut Weak<Inner>| match inner.upgrade() {
            Some(inner) => Database::of(inner).read(read),
            None => Err(NotRun::Closed.into()),
        };
        reads.call(call).await.unwrap_or_else(|failure| {
            Err(match failure {
                BridgeFailure::Closed => NotRun::Closed.into(),
                BridgeFailure::Panicked(message) => Failure::Rejected(Rejected::Panicked(message)),
                other => NotRun::Unavailable(Arc::new(other)).into(),
            })
        })
    }
}
