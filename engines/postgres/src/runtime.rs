//! The one thread that serves the connections of all databases of the process.
//!
//! Callers of a database may be inside an async runtime or in none, so nothing here depends on
//! theirs. The thread only moves bytes: statements are encoded, and rows decoded, by those who wait
//! for them.

use std::{future::Future, sync::OnceLock};

use tokio::runtime::{Builder, Runtime};

use crate::Error;

static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();

fn runtime() -> Result<&'static Runtime, Error> {
    let start = || {
        Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("groupcommit-io")
            .enable_all()
            .build()
            .map_err(|error| error.to_string())
    };
    RUNTIME.get_or_init(start).as_ref().map_err(|error| Error::Runtime(error.clone()))
}

/// Runs `future` on the thread, without waiting for it.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
    runtime()?.spawn(future);
    Ok(())
}

/// Runs `future` on the thread and waits for it. For what needs the runtime's clock or its sockets;
/// all else is polled by whoever waits.
pub(crate) async fn run<T: Send + 'static>(
    future: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let joined = runtime()?.spawn(future).await;
    joined.unwrap_or_else(|error| Err(Error::Runtime(error.to_string())))
}
