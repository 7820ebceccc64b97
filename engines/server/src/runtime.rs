//! The one thread that serves the connections of all databases of the process, whatever their
//! engine.
//!
//! Callers of a database may be inside an async runtime or in none, so nothing here depends on
//! theirs. The thread moves bytes, or says when they are here: statements are encoded, and rows
//! decoded, by those who wait for them.

use std::{fmt, future::Future, sync::OnceLock};

use tokio::runtime::{Builder, Handle, Runtime};

/// Why the thread could not be started: what the operating system says.
#[derive(Debug, Clone)]
pub struct NoThread(String);

impl fmt::Display for NoThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoThread {}

static RUNTIME: OnceLock<Result<Runtime, NoThread>> = OnceLock::new();

/// The runtime of that thread, which is started the first time.
///
/// # Errors
///
/// What the operating system says, which stays so for the process.
pub fn handle() -> Result<&'static Handle, NoThread> {
    let start = || {
        Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("groupcommit-io")
            .enable_all()
            .build()
            .map_err(|error| NoThread(error.to_string()))
    };
    match RUNTIME.get_or_init(start) {
        Ok(runtime) => Ok(runtime.handle()),
        Err(error) => Err(error.clone()),
    }
}

/// Runs `future` on the thread and waits for it. For what needs the runtime's clock or opens
/// sockets; all else is polled by whoever waits.
///
/// # Errors
///
/// The future's own, or that there is no thread, or that the future panicked.
///
/// # Cancel safety
///
/// Dropping it leaves the future to run to its end.
pub async fn run<T, E>(future: impl Future<Output = Result<T, E>> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<NoThread> + Send + 'static,
{
    let joined = handle()?.spawn(future).await;
    joined.unwrap_or_else(|error| Err(NoThread(error.to_string()).into()))
}
