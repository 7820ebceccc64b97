//! The cell that a transaction shares with its ticket.
//!
//! One allocation holds a transaction from submission to resolution: its closure, then its result,
//! and whoever waits for it. The pipeline sees it as a [`Job`], the caller as a
//! [`Ticket`](crate::Ticket).
//!
//! ```text
//! Queued ──run──► Executed ──seal──► Sealed ── the group's fate is decided ──► taken
//!    │               └─run again (the engine rolled it back)
//!    └──cancel──► Executed (as "not run"), sealed when its turn comes
//! ```
//!
//! Invariants:
//! 1. The closure runs without the cell's lock, and only while the cell is `Running`.
//! 2. A result is visible to the ticket only when its group's fate is decided, and then never
//!    changes.
//! 3. Whoever waits is woken after that: a waker given before the seal is handed to the fate, a
//!    later one is given to the fate by the ticket itself.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::{Poll, Waker},
};

use crate::{
    Engine,
    fate::{Decided, Fate},
    formation::Waiting,
    outcome::{Cause, Failure, NotRun, Outcome, Rejected, Unknown},
    pool::Task,
    quiet::{drop_panic, drop_quietly},
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
    /// The closure was not called, because the transaction was cancelled.
    NotCalled,
}

/// A result that the pipeline or the engine puts in place of the closure's.
#[derive(Debug, Clone)]
pub(crate) enum Decision {
    Reject(Cause),
    NotRun(NotRun),
}

/// Who waits for a cell when it is sealed.
pub(crate) enum Waits {
    Nobody,
    Waker(Waker),
    Callback,
}

/// The part of a cell that needs no knowledge of what its closure runs in.
pub(crate) trait Settle: Send + Sync {
    /// Puts a result in place, unless the closure is running.
    fn decide(&self, decision: Decision);

    /// Ties the result to the fate of its group, and says what it is (`Committed` if the fate is
    /// good) and who waits. `keep_closure` leaves the closure to be dropped with the ticket.
    fn seal(&self, fate: &Arc<Fate>, keep_closure: bool) -> (Outcome, Waits);

    /// The call of a callback, once the fate is decided.
    fn callback(&self) -> Option<Task>;

    fn is_live(&self) -> bool;

    /// Whether its group has been executed, so that only a flush is left to wait for.
    fn is_sealed(&self) -> bool;
}

/// The cell of a transaction as the pipeline sees it.
pub(crate) trait Job<E: Engine>: Settle {
    fn run(&self, tx: &mut E::Transaction<'_>) -> Ran;
}

/// The cell of an exclusive as the pipeline sees it.
pub(crate) trait ExclusiveJob<E: Engine>: Settle {
    fn run(&self, context: &mut E::Exclusive) -> Ran;
}

/// A cell as its ticket sees it.
pub(crate) trait Seat<T, X>: Settle {
    fn poll(&self, waker: &Waker) -> Poll<Result<T, Failure<X>>>;
    fn cancel(&self) -> bool;
    fn is_resolved(&self) -> bool;
}

/// What the queue holds for one transaction, besides its cell.
pub(crate) struct Entry<E: Engine> {
    pub(crate) body: Body<E>,
    /// What it is charged at admission.
    pub(crate) bytes: usize,
    /// The caller accounted for memory beyond the closure itself.
    pub(crate) is_large: bool,
    pub(crate) submitted_ns: u64,
    pub(crate) deadline_ns: Option<u64>,
}

pub(crate) enum Body<E: Engine> {
    Member(Arc<dyn Job<E>>),
    Exclusive(Arc<dyn ExclusiveJob<E>>),
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

    pub(crate) fn is_exclusive(&self) -> bool {
        matches!(self.body, Body::Exclusive(_))
    }

    pub(crate) fn run(&self, tx: &mut E::Transaction<'_>) -> Ran {
        match &self.body {
            Body::Member(job) => job.run(tx),
            Body::Exclusive(_) | Body::Barrier { .. } => Ran::NotCalled,
        }
    }

    pub(crate) fn cell(&self) -> &dyn Settle {
        match &self.body {
            Body::Member(job) => &**job,
            Body::Exclusive(job) => &**job,
            Body::Barrier { cell, .. } => &**cell,
        }
    }

    pub(crate) fn into_cell(self) -> Arc<dyn Settle> {
        match self.body {
            Body::Member(job) => job,
            Body::Exclusive(job) => job,
            Body::Barrier { cell, .. } => cell,
        }
    }
}

enum Stage {
    Queued,
    Running,
    Executed,
    Sealed(Arc<Fate>),
    Taken,
}

/// What is called with a result.
pub(crate) type Callback<T, X> = Box<dyn FnOnce(Result<T, Failure<X>>) + Send>;

enum Listener<T, X> {
    Nobody,
    /// To be woken; from the seal on, the fate has it.
    Waker(Waker),
    Callback(Callback<T, X>),
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
        Self::with(Stage::Queued, Some(closure), None, Listener::Nobody)
    }

    pub(crate) fn with_callback(closure: F, callback: Callback<T, X>) -> Arc<Self> {
        Self::with(Stage::Queued, Some(closure), None, Listener::Callback(callback))
    }

    /// A cell that is resolved from the start.
    pub(crate) fn resolved(result: Result<T, Failure<X>>) -> Arc<Self> {
        let fate = Arc::new(Fate::decided(Decided::Durable));
        Self::with(Stage::Sealed(fate), None, Some(result), Listener::Nobody)
    }

    fn with(
        stage: Stage,
        closure: Option<F>,
        result: Option<Result<T, Failure<X>>>,
        listener: Listener<T, X>,
    ) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State { stage, closure, result, listener }) })
    }

    /// The closure, from a cell that never entered a queue.
    pub(crate) fn take_closure(&self) -> F {
        match lock(&self.state).closure.take() {
            Some(closure) => closure,
            None => unreachable!("only the queue takes a closure"),
        }
    }
}

impl<X> Cell<(), (), X> {
    /// A cell that has nothing to run.
    pub(crate) fn barrier(callback: Option<Callback<(), X>>) -> Arc<Self> {
        let listener = callback.map_or(Listener::Nobody, Listener::Callback);
        Self::with(Stage::Executed, None, Some(Ok(())), listener)
    }
}

impl<F, T, X> State<F, T, X> {
    /// The result, as `decided` makes it, and the value that may not be handed out because of
    /// that: to be dropped once no lock is held.
    fn take_result(&mut self, decided: Decided) -> (Result<T, Failure<X>>, Option<T>) {
        self.stage = Stage::Taken;
        match (self.result.take(), decided) {
            (Some(Ok(value)), Decided::Unknown(cause)) => {
                (Err(Failure::Unknown(Unknown::new(cause))), Some(value))
            }
            (Some(result), _) => (result, None),
            // Never ran: nothing of it can be in the database.
            (None, Decided::Unknown(cause)) => (Err(NotRun::Failed(cause).into()), None),
            (None, Decided::Durable) => (Err(NotRun::Cancelled.into()), None),
        }
    }
}

impl<F: Send, T: Send + 'static, X: Send + 'static> Settle for Cell<F, T, X> {
    fn decide(&self, decision: Decision) {
        let failure = match decision {
            Decision::Reject(cause) => Failure::Rejected(Rejected::Engine(cause)),
            Decision::NotRun(reason) => Failure::NotRun(reason),
        };
        let mut state = lock(&self.state);
        if matches!(state.result, Some(Err(Failure::NotRun(NotRun::Cancelled)))) {
            return; // its caller was told so
        }
        if matches!(state.stage, Stage::Queued | Stage::Executed) {
            state.stage = Stage::Executed;
            let superseded = state.result.replace(Err(failure));
            drop(state);
            drop_quietly(superseded);
        }
    }

    fn seal(&self, fate: &Arc<Fate>, keep_closure: bool) -> (Outcome, Waits) {
        let mut state = lock(&self.state);
        state.stage = Stage::Sealed(fate.clone());
        let outcome = state.result.as_ref().map_or(Outcome::NotRun, Outcome::of);
        let closure = if keep_closure { None } else { state.closure.take() };
        let waits = match &state.listener {
            Listener::Nobody => Waits::Nobody,
            Listener::Waker(waker) => Waits::Waker(waker.clone()),
            Listener::Callback(_) => Waits::Callback,
        };
        drop(state);
        drop_quietly(closure);
        (outcome, waits)
    }

    fn callback(&self) -> Option<Task> {
        let mut state = lock(&self.state);
        let Stage::Sealed(fate) = &state.stage else { return None };
        let decided = fate.poll(None)?;
        let Listener::Callback(callback) = mem::replace(&mut state.listener, Listener::Nobody)
        else {
            return None;
        };
        let (result, withheld) = state.take_result(decided);
        drop(state);
        drop_quietly(withheld);
        Some(Box::new(move || callback(result)))
    }

    fn is_live(&self) -> bool {
        matches!(lock(&self.state).stage, Stage::Queued)
    }

    fn is_sealed(&self) -> bool {
        matches!(lock(&self.state).stage, Stage::Sealed(_) | Stage::Taken)
    }
}

impl<E, F, T, X> Job<E> for Cell<F, T, X>
where
    E: Engine,
    F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send,
    T: Send + 'static,
    X: Send + 'static,
{
    fn run(&self, tx: &mut E::Transaction<'_>) -> Ran {
        self.call(|closure| closure(tx))
    }
}

impl<E, F, T, X> ExclusiveJob<E> for Cell<F, T, X>
where
    E: Engine,
    F: FnMut(&mut E::Exclusive) -> Result<T, X> + Send,
    T: Send + 'static,
    X: Send + 'static,
{
    fn run(&self, context: &mut E::Exclusive) -> Ran {
        self.call(|closure| closure(context))
    }
}

impl<F, T, X> Cell<F, T, X> {
    /// Calls the closure, unless the transaction was cancelled, and keeps what comes of it.
    fn call(&self, call: impl FnOnce(&mut F) -> Result<T, X>) -> Ran {
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
                    return Ran::NotCalled;
                }
            }
        };
        let caught = catch_unwind(AssertUnwindSafe(|| call(&mut closure)));
        let (ran, result) = match caught {
            Ok(Ok(value)) => (Ran::Completed, Ok(value)),
            Ok(Err(error)) => (Ran::Failed, Err(Failure::Rejected(Rejected::Caller(error)))),
            Err(panic) => {
                let message = panic_message(&*panic);
                drop_panic(panic);
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
        let known = matches!(&state.listener, Listener::Waker(last) if last.will_wake(waker));
        match &state.stage {
            Stage::Taken => panic!("a ticket was polled after it had given its result"),
            Stage::Sealed(fate) => {
                if let Some(decided) = fate.poll((!known).then_some(waker)) {
                    let closure = state.closure.take();
                    let (result, withheld) = state.take_result(decided);
                    drop(state);
                    drop_quietly((closure, withheld));
                    return Poll::Ready(result);
                }
            }
            Stage::Queued | Stage::Running | Stage::Executed => {}
        }
        if !known {
            state.listener = Listener::Waker(waker.clone());
        }
        Poll::Pending
    }

    fn cancel(&self) -> bool {
        let mut state = lock(&self.state);
        if !matches!(state.stage, Stage::Queued) {
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
        match &lock(&self.state).stage {
            Stage::Sealed(fate) => fate.is_decided(),
            Stage::Taken => true,
            Stage::Queued | Stage::Running | Stage::Executed => false,
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
