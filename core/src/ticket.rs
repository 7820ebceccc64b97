//! The ticket, and the cell that a transaction shares with it.
//!
//! One allocation holds a transaction from submission to resolution: its closure, then its result,
//! and whoever waits for it. The pipeline sees it as a [`Job`], the caller as a [`Ticket`].
//!
//! ```text
//! Queued ──run──► Executed ──settle──► Resolved ──take──► Taken
//!    │               └─run again (the engine rolled it back)
//!    └──cancel──► Executed (as "not run"), settled when its turn comes
//! ```
//!
//! Invariants:
//! 1. The closure runs without the cell's lock, and only while the cell is `Running`.
//! 2. A result is visible to the ticket only from `Resolved` on, and then never changes.
//! 3. Whoever waits is woken exactly once, after the cell is `Resolved`.

use std::{
    any::Any,
    fmt,
    future::Future,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use crate::{
    Engine,
    group::Waiting,
    outcome::{Cause, Failure, NotRun, Outcome, Rejected, Unknown},
    park,
    pool::Task,
    sync::{Mutex, lock},
};

/// What running a member's closure came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// The closure returned a value.
    Completed,
    /// The closure returned an error: the member must be rolled back.
    Failed,
    /// The closure panicked: the member must be rolled back.
    Panicked,
}

/// A result that the pipeline or the engine puts in place of the closure's.
#[derive(Debug, Clone)]
pub(crate) enum Decision {
    Reject(Cause),
    NotRun(NotRun),
}

/// What becomes of those members of a group that ran and were not rejected.
#[derive(Debug, Clone)]
pub(crate) enum Fate {
    Durable,
    Unknown(Cause),
}

/// Whom to tell that a cell is resolved.
pub(crate) enum Wake {
    Nobody,
    Waker(Waker),
    Callback(Task),
}

/// The part of a cell that needs no knowledge of what its closure runs in.
pub(crate) trait Settle: Send + Sync {
    fn decide(&self, decision: Decision);
    fn settle(&self, fate: &Fate) -> (Outcome, Wake);
    fn is_live(&self) -> bool;
}

/// A cell as the pipeline sees it; `C` is what its closure is given.
pub(crate) trait Job<C: ?Sized>: Settle {
    fn run(&self, context: &mut C) -> Ran;
}

/// A cell as its ticket sees it.
trait Seat<T, X>: Send + Sync {
    fn poll(&self, waker: &Waker) -> Poll<Result<T, Failure<X>>>;
    fn cancel(&self) -> bool;
    fn is_resolved(&self) -> bool;
}

/// What the queue holds for one transaction, besides its cell.
pub(crate) struct Entry<E: Engine> {
    pub(crate) body: Body<E>,
    pub(crate) bytes: usize,
    pub(crate) submitted_ns: u64,
    pub(crate) deadline_ns: Option<u64>,
}

pub(crate) enum Body<E: Engine> {
    Member(Arc<dyn Job<E::Transaction>>),
    Exclusive(Arc<dyn Job<E::Exclusive>>),
    Barrier { cell: Arc<dyn Settle>, force_flush: bool },
}

impl<E: Engine> Entry<E> {
    pub(crate) fn waiting(&self) -> Waiting {
        match self.body {
            Body::Member(_) => Waiting::Transaction { bytes: self.bytes },
            Body::Exclusive(_) => Waiting::Exclusive,
            Body::Barrier { .. } => Waiting::Barrier,
        }
    }

    /// Whether it counts as one of the caller's transactions.
    pub(crate) fn is_transaction(&self) -> bool {
        !matches!(self.body, Body::Barrier { .. })
    }

    pub(crate) fn run(&self, tx: &mut E::Transaction) -> Ran {
        match &self.body {
            Body::Member(job) => job.run(tx),
            Body::Exclusive(_) | Body::Barrier { .. } => Ran::Failed,
        }
    }

    pub(crate) fn decide(&self, decision: Decision) {
        self.cell().decide(decision);
    }

    pub(crate) fn cell(&self) -> &dyn Settle {
        match &self.body {
            Body::Member(job) => &**job,
            Body::Exclusive(job) => &**job,
            Body::Barrier { cell, .. } => &**cell,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Queued,
    Running,
    Executed,
    Resolved,
    Taken,
}

enum Listener<T, X> {
    Nobody,
    Waker(Waker),
    Callback(Box<dyn FnOnce(Result<T, Failure<X>>) + Send>),
}

struct State<F, T, X> {
    stage: Stage,
    closure: Option<F>,
    result: Option<Result<T, Failure<X>>>,
    listener: Listener<T, X>,
}

pub(crate) struct Cell<F, T, X> {
    state: Mutex<State<F, T, X>>,
}

impl<F, T, X> Cell<F, T, X> {
    pub(crate) fn new(closure: F) -> Arc<Self> {
        Self::with_listener(Stage::Queued, Some(closure), None, Listener::Nobody)
    }

    pub(crate) fn with_callback(
        closure: F,
        callback: Box<dyn FnOnce(Result<T, Failure<X>>) + Send>,
    ) -> Arc<Self> {
        Self::with_listener(Stage::Queued, Some(closure), None, Listener::Callback(callback))
    }

    fn with_listener(
        stage: Stage,
        closure: Option<F>,
        result: Option<Result<T, Failure<X>>>,
        listener: Listener<T, X>,
    ) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State { stage, closure, result, listener }) })
    }

    /// The closure, from a cell that never entered a queue.
    pub(crate) fn take_closure(&self) -> Option<F> {
        lock(&self.state).closure.take()
    }
}

impl<X: Send> Cell<(), (), X> {
    /// A cell that has nothing to run.
    pub(crate) fn barrier() -> Arc<Self> {
        Self::with_listener(Stage::Executed, None, Some(Ok(())), Listener::Nobody)
    }
}

impl<F: Send, T: Send + 'static, X: Send + 'static> Settle for Cell<F, T, X> {
    fn decide(&self, decision: Decision) {
        let failure = match decision {
            Decision::Reject(cause) => Failure::Rejected(Rejected::Engine(cause)),
            Decision::NotRun(reason) => Failure::NotRun(reason),
        };
        let mut state = lock(&self.state);
        if matches!(state.stage, Stage::Queued | Stage::Executed) {
            state.stage = Stage::Executed;
            let superseded = state.result.replace(Err(failure));
            drop(state);
            drop_quietly(superseded);
        }
    }

    fn settle(&self, fate: &Fate) -> (Outcome, Wake) {
        let mut state = lock(&self.state);
        let mut superseded = None;
        match (&state.result, fate) {
            (Some(Err(_)), _) | (Some(Ok(_)), Fate::Durable) => {}
            (Some(Ok(_)), Fate::Unknown(cause)) => {
                superseded = state.result.replace(Err(Failure::Unknown(Unknown::new(cause.clone()))));
            }
            // Never ran: nothing of it can be in the database.
            (None, Fate::Unknown(cause)) => {
                state.result = Some(Err(Failure::NotRun(NotRun::Failed(cause.clone()))));
            }
            (None, Fate::Durable) => {
                state.result = Some(Err(Failure::NotRun(NotRun::Cancelled)));
            }
        }
        state.stage = Stage::Resolved;
        let outcome = state.result.as_ref().map_or(Outcome::NotRun, Outcome::of);
        let closure = state.closure.take();
        let wake = match mem::replace(&mut state.listener, Listener::Nobody) {
            Listener::Nobody => Wake::Nobody,
            Listener::Waker(waker) => Wake::Waker(waker),
            Listener::Callback(callback) => match state.result.take() {
                Some(result) => {
                    state.stage = Stage::Taken;
                    Wake::Callback(Box::new(move || callback(result)))
                }
                None => Wake::Nobody,
            },
        };
        drop(state);
        drop_quietly(closure);
        drop_quietly(superseded);
        (outcome, wake)
    }

    fn is_live(&self) -> bool {
        lock(&self.state).stage == Stage::Queued
    }
}

impl<C: ?Sized, F, T, X> Job<C> for Cell<F, T, X>
where
    F: FnMut(&mut C) -> Result<T, X> + Send,
    T: Send + 'static,
    X: Send + 'static,
{
    fn run(&self, context: &mut C) -> Ran {
        let mut closure = {
            let mut state = lock(&self.state);
            let runnable = matches!(state.stage, Stage::Queued | Stage::Executed);
            match state.closure.take() {
                Some(closure) if runnable => {
                    state.stage = Stage::Running;
                    closure
                }
                other => {
                    state.closure = other;
                    return Ran::Failed;
                }
            }
        };
        let caught = catch_unwind(AssertUnwindSafe(|| closure(context)));
        let (ran, result) = match caught {
            Ok(Ok(value)) => (Ran::Completed, Ok(value)),
            Ok(Err(error)) => (Ran::Failed, Err(Failure::Rejected(Rejected::Caller(error)))),
            Err(panic) => {
                let message = panic_message(&*panic);
                (Ran::Panicked, Err(Failure::Rejected(Rejected::Panicked(message))))
            }
        };
        let mut state = lock(&self.state);
        state.stage = Stage::Executed;
        state.closure = Some(closure);
        let superseded = state.result.replace(result);
        drop(state);
        drop_quietly(superseded);
        ran
    }
}

impl<F, T, X> Seat<T, X> for Cell<F, T, X>
where
    F: Send,
    T: Send + 'static,
    X: Send + 'static,
{
    fn poll(&self, waker: &Waker) -> Poll<Result<T, Failure<X>>> {
        let mut state = lock(&self.state);
        match state.stage {
            Stage::Resolved => {
                state.stage = Stage::Taken;
                match state.result.take() {
                    Some(result) => Poll::Ready(result),
                    None => unreachable!("a resolved cell holds its result"),
                }
            }
            Stage::Taken => panic!("a ticket was polled after it had given its result"),
            Stage::Queued | Stage::Running | Stage::Executed => {
                let known = matches!(&state.listener, Listener::Waker(w) if w.will_wake(waker));
                if !known {
                    state.listener = Listener::Waker(waker.clone());
                }
                Poll::Pending
            }
        }
    }

    fn cancel(&self) -> bool {
        let mut state = lock(&self.state);
        if state.stage != Stage::Queued {
            return false;
        }
        state.stage = Stage::Executed;
        state.result = Some(Err(Failure::NotRun(NotRun::Cancelled)));
        let closure = state.closure.take();
        drop(state);
        drop_quietly(closure);
        true
    }

    fn is_resolved(&self) -> bool {
        matches!(lock(&self.state).stage, Stage::Resolved | Stage::Taken)
    }
}

/// Drops what a caller gave us; a panic in its destructor must not end the pipeline's thread.
fn drop_quietly<V>(value: V) {
    if !mem::needs_drop::<V>() {
        return;
    }
    if catch_unwind(AssertUnwindSafe(|| drop(value))).is_err() {
        tracing::error!("the destructor of a transaction's closure or result panicked");
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

/// The future of one transaction's outcome.
///
/// Resolves once the transaction is committed *and* flushed, or is certain not to be (see
/// [`Failure`]). Tickets of one database resolve in submission order. Works in any async runtime,
/// and in none ([`Ticket::wait`]).
///
/// # Cancel safety
///
/// Dropping a ticket, or a future that awaits it, neither cancels the transaction nor leaks
/// anything. Polling is safe to abandon and take up again: the result is handed out once, by the
/// poll or wait that first finds it. [`Ticket::cancel`] withdraws a transaction that is still
/// queued.
#[must_use = "dropping a ticket discards the outcome of its transaction"]
pub struct Ticket<T, E> {
    seat: Arc<dyn Seat<T, E>>,
}

impl<T, E> fmt::Debug for Ticket<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("resolved", &self.seat.is_resolved()).finish_non_exhaustive()
    }
}

impl<T: Send + 'static, E: Send + 'static> Ticket<T, E> {
    pub(crate) fn of<F: Send + 'static>(cell: Arc<Cell<F, T, E>>) -> Self {
        Self { seat: cell }
    }

    /// A ticket that is resolved from the start.
    pub fn resolved(result: Result<T, Failure<E>>) -> Self {
        Self {
            seat: Cell::<(), T, E>::with_listener(
                Stage::Resolved,
                None,
                Some(result),
                Listener::Nobody,
            ),
        }
    }

    /// Blocks the thread until the ticket is resolved.
    ///
    /// # Errors
    ///
    /// The [`Failure`] that the transaction came to.
    pub fn wait(self) -> Result<T, Failure<E>> {
        park::block_on(self)
    }

    /// Blocks the thread until the ticket is resolved, but no longer than `timeout`; `None` when
    /// that has passed first. The transaction goes on, and the ticket can be waited for again.
    ///
    /// # Panics
    ///
    /// When the result has been handed out before.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Option<Result<T, Failure<E>>> {
        let until = Instant::now().checked_add(timeout);
        match until {
            Some(until) => park::block_on_until(self, until),
            None => Some(park::block_on(self)),
        }
    }
}

impl<T, E> Ticket<T, E> {
    /// Withdraws the transaction if it is still queued, and says whether it was.
    ///
    /// `true`: it has no effect and never will; its closure is dropped now, and the ticket
    /// resolves to [`NotRun::Cancelled`] when its turn comes. `false`: it has been handed to the
    /// engine, and the ticket resolves to what came of it.
    #[must_use]
    pub fn cancel(&self) -> bool {
        self.seat.cancel()
    }

    /// Whether the outcome is known; [`Ticket::wait`] then returns at once.
    #[must_use]
    pub fn is_resolved(&self) -> bool {
        self.seat.is_resolved()
    }
}

impl<T, E> Future for Ticket<T, E> {
    type Output = Result<T, Failure<E>>;

    /// # Panics
    ///
    /// When polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.seat.poll(cx.waker())
    }
}
