//! Who serves connections: moves their bytes, and wakes who waits for an answer.
//!
//! Callers of a database may be inside an async runtime or in none. So the connection that writes is
//! served by whatever thread waits for it ([`Driver`]); those that read by the runtime of the caller for
//! whom they were opened, where that has threads of its own, and else by one thread for all databases of
//! the process ([`near`]). Either way an answer goes to the thread that waits for it at once: each thread
//! more between the two is one more that has to wait for its turn on a busy machine.

use std::{
    fmt,
    future::Future,
    pin::pin,
    sync::OnceLock,
    task::{Context, Poll, Waker},
    thread,
};

use groupcommit_core::while_blocked;
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};

/// Why the thread could not be started: what the operating system says.
#[derive(Debug, Clone)]
pub struct NoThread(String);

impl fmt::Display for NoThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl NoThread {
    pub(crate) fn abandoned() -> Self {
        Self("what it was to do there was given up".to_owned())
    }
}

impl std::error::Error for NoThread {}

static RUNTIME: OnceLock<Result<Runtime, NoThread>> = OnceLock::new();

/// The runtime of the process's own thread, which is started the first time.
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

/// The runtime that the caller is in, if it has threads of its own, which serve a connection even
/// while nobody waits; else that of [`handle`].
///
/// # Errors
///
/// As [`handle`].
pub fn near() -> Result<Handle, NoThread> {
    match Handle::try_current() {
        Ok(here) if here.runtime_flavor() == RuntimeFlavor::MultiThread => Ok(here),
        _ => handle().cloned(),
    }
}

/// Blocks until `future` is ready, as [`groupcommit_core::block_on`]. A thread of a runtime first hands
/// over what is its own: the connections that it serves may be what it waits for.
pub fn block_on<F: Future>(future: F) -> F::Output {
    // A task that has done its share is to give way to others, and everything in it says that it is not
    // ready until it does: who blocks cannot.
    let future = tokio::task::coop::unconstrained(future);
    let has_others =
        Handle::try_current().is_ok_and(|here| here.runtime_flavor() == RuntimeFlavor::MultiThread);
    if has_others && tokio::runtime::worker_index().is_some() {
        return tokio::task::block_in_place(|| groupcommit_core::block_on(future));
    }
    groupcommit_core::block_on(future)
}

/// Runs `future` on the process's own thread, which outlasts every caller's runtime and can open
/// sockets.
///
/// # Errors
///
/// As [`run`].
///
/// # Cancel safety
///
/// As [`run`].
pub async fn run_apart<T, E>(
    future: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<NoThread> + Send + 'static,
{
    let joined = handle()?.spawn(future).await;
    joined.unwrap_or_else(|error| Err(NoThread(error.to_string()).into()))
}

/// Runs `future` in the runtime that is [`near`] and waits for it. For what has to go on when nobody
/// waits for it any more, needs the runtime's clock or opens sockets; all else is polled by whoever
/// waits.
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
    let joined = near()?.spawn(future).await;
    joined.unwrap_or_else(|error| Err(NoThread(error.to_string()).into()))
}

/// Serves one connection on whatever thread waits for it: nothing is handed from thread to thread
/// between the server's answer and the one whom it is for, where on a busy machine each waits for its
/// turn.
///
/// Nothing happens on the connection while nobody waits ([`block_on`](Self::block_on)) or looks after
/// it ([`turn`](Self::turn)).
#[derive(Debug)]
pub struct Driver(Option<Runtime>);

impl Driver {
    /// One for a connection that is to be opened by [`block_on`](Self::block_on).
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn new() -> Result<Self, NoThread> {
        let built = Builder::new_current_thread().enable_all().build();
        built.map(|runtime| Self(Some(runtime))).map_err(|error| NoThread(error.to_string()))
    }

    /// Blocks until `future` is ready, and serves the connection meanwhile. As with
    /// [`groupcommit_core::block_on`], a thread of the pool counts as none.
    pub fn block_on<F>(&self, future: F) -> F::Output
    where
        F: Future + Send,
        F::Output: Send,
    {
        let mut future = pin!(future);
        self.outside(|runtime| {
            // A look first: an answer that is here already needs nobody.
            {
                let _inside = runtime.enter();
                let mut cx = Context::from_waker(Waker::noop());
                if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                    return output;
                }
            }
            while_blocked(|| runtime.block_on(future))
        })
    }

    /// Sends what waits to be sent, and takes in what has come, without waiting.
    pub fn turn(&self) {
        self.outside(|runtime| {
            runtime.block_on(async {
                // The first gives way to the socket's events, the second to those whom they wake.
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
            });
        });
    }

    /// Drops a connection whose destructor needs its runtime.
    pub fn drop_in<T: Send>(&self, connection: T) {
        self.outside(|runtime| {
            let _inside = runtime.enter();
            drop(connection);
        });
    }

    /// Calls `f` where a runtime may block: not on a thread that is inside another.
    fn outside<R: Send>(&self, f: impl FnOnce(&Runtime) -> R + Send) -> R {
        let Some(runtime) = &self.0 else { unreachable!("it is there until it is dropped") };
        if Handle::try_current().is_err() {
            return f(runtime);
        }
        thread::scope(|scope| match scope.spawn(|| f(runtime)).join() {
            Ok(output) => output,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}

impl Drop for Driver {
    /// The connection that it served says good-bye to the server, as far as that can be sent without
    /// waiting.
    fn drop(&mut self) {
        self.turn();
        // Whoever drops it may be inside another runtime, in which nothing may block.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{sync::oneshot, task::LocalSet};

    use super::*;

    #[test]
    fn a_thread_of_a_runtime_blocks_however_often_at_a_time() {
        fn block_often() {
            for number in 0..1_000 {
                let (sender, receiver) = oneshot::channel();
                sender.send(number).unwrap();
                assert_eq!(block_on(receiver), Ok(number));
            }
        }
        for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
            let runtime = builder.worker_threads(1).build().unwrap();
            runtime.block_on(async { block_often() });
            runtime.block_on(async { tokio::spawn(async { block_often() }).await.unwrap() });
            runtime.block_on(LocalSet::new().run_until(async { block_often() }));
        }
    }
}
