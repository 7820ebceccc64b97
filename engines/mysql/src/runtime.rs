//! The one thread that serves the connections of all databases of the process.
//!
//! Callers of a database may be inside an async runtime or in none, so nothing here depends on
//! theirs. The thread only says when bytes are here: statements are written, and rows decoded, by
//! those who wait for them.

use std::{future::Future, sync::OnceLock};

use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::JoinHandle,
};

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
/// sockets; all else is polled by whoever waits. Dropped before its end, it is dropped there too.
pub(crate) async fn run<T: Send + 'static>(
    future: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let mut task = Task(handle()?.spawn(future));
    let joined = (&mut task.0).await;
    joined.unwrap_or_else(|error| Err(Error::Runtime(error.to_string())))
}

/// Ends with whoever waits for it.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
