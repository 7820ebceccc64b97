//! The bridge as a caller sees it.

use std::{
    any::Any,
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use groupcommit_core::block_on;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, TryAcquireError, oneshot};

use crate::{
    connect::Connect,
    queue::{Job, Pushed, Queue},
    worker::{Shared, work},
};

/// How much a bridge may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections, each with a thread of its own; at least 1.
    pub connections: usize,
    /// Calls that wait for a connection; beyond that, callers wait for admission.
    pub waiting: usize,
}

impl Default for Limits {
    /// Ten connections, and 1,024 calls that wait for one.
    fn default() -> Self {
        Self { connections: 10, waiting: 1_024 }
    }
}

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure<E> {
    /// The bridge is closed; the call was not run.
    #[error("the bridge is closed; the call was not run")]
    Closed,
    /// Too many calls wait; only [`Bridge::try_call`] says so.
    #[error("too many calls wait for a connection; call again later, or wait with `call`")]
    Overloaded,
    /// There is no connection to be had; the call was not run.
    #[error("could not connect; the call was not run")]
    Connect(#[source] E),
    /// No thread could be started, or the thread ended; the call was not run.
    #[error("no thread could run the call")]
    NoThread,
    /// The call panicked with this message. Its connection was closed.
    #[error("the call panicked: {0}")]
    Panicked(String),
}

/// What a bridge holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Threads.
    pub threads: usize,
    /// Connections.
    pub connections: usize,
    /// The most connections that there were at once.
    pub connections_peak: usize,
}

/// A blocking client behind an asynchronous interface: a fixed number of connections and threads,
/// however many calls come. Cheap to clone; clones are the same bridge.
///
/// Threads are started, and connections made, when calls first need them. Calls are begun in the
/// order of their admission. Dropping the last clone lets what was admitted finish in the
/// background; [`close`](Self::close) waits for it.
pub struct Bridge<C: Connect> {
    owner: Arc<Owner<C>>,
}

impl<C: Connect> Clone for Bridge<C> {
    fn clone(&self) -> Self {
        Self { owner: Arc::clone(&self.owner) }
    }
}

impl<C: Connect> fmt::Debug for Bridge<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// What all clones share; the threads hold only [`Shared`], so that the last clone can end them.
struct Owner<C: Connect> {
    shared: Arc<Shared<C>>,
    /// A permit for each call that waits or runs.
    room: Arc<Semaphore>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl<C: Connect> Drop for Owner<C> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<C: Connect> Bridge<C> {
    /// A bridge to what `connect` connects to. Nothing is connected yet.
    pub fn new(connect: C, limits: Limits) -> Self {
        let connections = limits.connections.max(1);
        let room = connections.saturating_add(limits.waiting).min(Semaphore::MAX_PERMITS);
        let shared = Shared {
            connect,
            queue: Queue::new(connections),
            open: AtomicUsize::new(0),
            open_peak: AtomicUsize::new(0),
        };
        let owner = Owner {
            shared: Arc::new(shared),
            room: Arc::new(Semaphore::new(room)),
            threads: Mutex::default(),
        };
        Self { owner: Arc::new(owner) }
    }

    /// Runs `call` on a connection, on one of the bridge's threads, and returns what it returns.
    /// While too many others wait, it waits for admission; those who came before are before it.
    ///
    /// A call that should be undone when it fails half-way has to do that itself, in a transaction.
    ///
    /// # Errors
    ///
    /// Why it was not run, or that it panicked.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before the call has begun keeps it from being run. One that has begun is
    /// run to its end, and its answer is dropped.
    pub fn call<T, F>(
        &self,
        call: F,
    ) -> impl Future<Output = Result<T, Failure<C::Error>>> + Send + use<T, F, C>
    where
        F: FnOnce(&mut C::Connection) -> T + Send + 'static,
        T: Send + 'static,
    {
        let room = Arc::clone(&self.owner.room);
        let bridge = self.clone();
        async move {
            let permit =
                room.acquire_owned().await.map_err(|AcquireError { .. }| Failure::Closed)?;
            let answer = bridge.admit(call, permit);
            drop(bridge); // who waits for an answer keeps no bridge open
            answer.await.unwrap_or(Err(Failure::NoThread))
        }
    }

    /// As [`call`](Self::call), for callers that may block.
    ///
    /// # Errors
    ///
    /// See [`call`](Self::call).
    pub fn call_blocking<T, F>(&self, call: F) -> Result<T, Failure<C::Error>>
    where
        F: FnOnce(&mut C::Connection) -> T + Send + 'static,
        T: Send + 'static,
    {
        // Inside a task whose share of its runtime's time is used up, what it waits for would say that
        // it is not ready until the task gives way, which who blocks cannot.
        block_on(tokio::task::coop::unconstrained(self.call(call)))
    }

    /// As [`call`](Self::call), but refuses at once where that would wait for admission.
    ///
    /// # Errors
    ///
    /// [`Failure::Overloaded`]; and from the future, as there.
    #[expect(clippy::type_complexity, reason = "a future has no shorter type")]
    pub fn try_call<T, F>(
        &self,
        call: F,
    ) -> Result<
        impl Future<Output = Result<T, Failure<C::Error>>> + Send + use<T, F, C>,
        Failure<C::Error>,
    >
    where
        F: FnOnce(&mut C::Connection) -> T + Send + 'static,
        T: Send + 'static,
    {
        let permit =
            Arc::clone(&self.owner.room).try_acquire_owned().map_err(|error| match error {
                TryAcquireError::Closed => Failure::Closed,
                TryAcquireError::NoPermits => Failure::Overloaded,
            })?;
        let answer = self.admit(call, permit);
        Ok(async move { answer.await.unwrap_or(Err(Failure::NoThread)) })
    }

    fn admit<T, F>(&self, call: F, permit: OwnedSemaphorePermit) -> Answer<T, C::Error>
    where
        F: FnOnce(&mut C::Connection) -> T + Send + 'static,
        T: Send + 'static,
    {
        let (answer, receiver) = oneshot::channel();
        let shared = &self.owner.shared;
        match shared.queue.push(Box::new(Call { run: call, answer, permit })) {
            Pushed::Queued => {}
            // A receiver without a sender would say that there is no thread.
            Pushed::Closed => return closed(),
            Pushed::NeedsThread => self.start_thread(),
        }
        receiver
    }

    fn start_thread(&self) {
        let shared = Arc::clone(&self.owner.shared);
        let run = move || {
            work(&shared);
            shared.queue.thread_ended();
        };
        match thread::Builder::new().name("groupcommit-bridge".to_owned()).spawn(run) {
            Ok(thread) => self.owner.threads().push(thread),
            Err(error) => {
                tracing::error!(%error, "no thread could be started for a connection");
                // Where there are others, the call waits for one of them.
                drop(self.owner.shared.queue.thread_ended());
            }
        }
    }

    /// Stops admission, waits until everything admitted has been run, and closes the connections.
    /// Other clones then refuse everything. Must not be called from inside a call.
    pub fn close(&self) {
        self.owner.stop();
        let threads = std::mem::take(&mut *self.owner.threads());
        for thread in threads {
            // Nothing of a caller's can panic outside the guard of its call.
            drop(thread.join());
        }
    }

    /// Stops admission, and lets what was admitted finish in the background. Other clones then refuse
    /// everything.
    pub fn stop(&self) {
        self.owner.stop();
    }

    /// What it holds now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let shared = &self.owner.shared;
        Stats {
            threads: shared.queue.threads(),
            connections: shared.open.load(Ordering::SeqCst),
            connections_peak: shared.open_peak.load(Ordering::SeqCst),
        }
    }
}

impl<C: Connect> Owner<C> {
    fn stop(&self) {
        self.room.close();
        self.shared.queue.close();
    }

    fn threads(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Answer<T, E> = oneshot::Receiver<Result<T, Failure<E>>>;

fn closed<T, E>() -> Answer<T, E> {
    let (answer, receiver) = oneshot::channel();
    // The receiver is here.
    drop(answer.send(Err(Failure::Closed)));
    receiver
}

/// One call in the queue.
struct Call<F, T, E> {
    run: F,
    answer: oneshot::Sender<Result<T, Failure<E>>>,
    /// Gives the place to the next when the call has been answered.
    permit: OwnedSemaphorePermit,
}

impl<C, F, T> Job<C> for Call<F, T, C::Error>
where
    C: Connect,
    F: FnOnce(&mut C::Connection) -> T + Send,
    T: Send,
{
    fn is_wanted(&self) -> bool {
        !self.answer.is_closed()
    }

    fn run(self: Box<Self>, connection: &mut C::Connection) -> bool {
        let Self { run, answer, permit } = *self;
        let ran = catch_unwind(AssertUnwindSafe(|| run(connection)));
        let has_panicked = ran.is_err();
        drop(permit);
        let result = ran.map_err(|panic| Failure::Panicked(message_of(panic.as_ref())));
        // Nobody may be there to take it: then its destructor runs here, and may panic.
        drop(catch_unwind(AssertUnwindSafe(|| drop(answer.send(result)))));
        has_panicked
    }

    fn refuse(self: Box<Self>, error: C::Error) {
        let Self { answer, permit, .. } = *self;
        drop(permit);
        // Nobody may be there to take it.
        drop(answer.send(Err(Failure::Connect(error))));
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
