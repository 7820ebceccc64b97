//! The one thread that serves the connections of all databases of the process.
//!
//! Callers of a database may be inside an async runtime or in none, so nothing here depends on
//! theirs. The thread only says when bytes are here: statements are written, and rows decoded, by
//! those who wait for them.

use std::{future::Future, sync::OnceLock};

use tokio::runtime::{Builder, Handle, Runtime};

use crate::Error;

static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();

/// The runtime of that thread.
pub(crate) fn handle() -> Result<&'static Handle, Error> {
    let start = || {
        Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("groupcommit-io")
            .enable_all()
            .build()
            .map_err(|error| error.to_string())
    };
    match RUNTIME.get_or_init(start) {
        Ok(runtime) => Ok(runtime.handle()),
        Err(error) => Err(Error::Runtime(error.clone())),
    }
}

/// Runs `future` on the thread and waits for it. For what needs the runtime's clock or opens
/// sockets; all else is polled by whoever waits.
pub(crate) async fn run<T: Send + 'static>(
    future: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let joined = handle()?.spawn(future).await;
    joined.unwrap_or_else(|error| Err(Error::Runtime(error.to_string())))
}
