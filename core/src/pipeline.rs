//! The pipeline: admission, execute, flush, resolve.
//!
//! ```text
//! submit ──► admission ──► queue ──► execute role ──► committed ──► flush role ──► tickets
//! ```
//!
//! Two *roles* do the work, each held by at most one thread at a time: the execute role takes a
//! group from the queue and runs it in the engine; the flush role flushes everything committed and
//! resolves it. A role is picked up by a thread of the pool, or by a blocking caller that finds
//! the pipeline idle and so leads on its own thread. Whoever executed the last group of a burst
//! flushes it too, without handing over.
//!
//! Invariants:
//! 1. A group enters `committed` after its commit returned, and leaves it before the flush that
//!    covers it begins: a flush covers all that it takes (promise 1).
//! 2. The queue and `committed` are first in, first out, and only the role's holder takes from
//!    them; the flush role settles what it took, in order, before it takes more (promise 2).
//! 3. A role is `Scheduled` or `Running` whenever there is work for it: whoever adds work to an
//!    idle role schedules it, and its holder looks again before it lays it down (promise 9).
//! 4. Once `life` is `Failed`, nothing is executed or flushed any more; what is in the pipeline
//!    still passes through it in order, and is settled as not run or unknown (promise 7).

use std::sync::Arc;

use crate::{
    Engine,
    admission::Limits,
    admit::Admit,
    cell::{Body, Cell},
    clock::{Clock, SystemClock},
    hold::Formation,
    outcome::{Failure, NotRun},
    pool::{SharedPool, Spawn},
    shared::Shared,
    state::State,
    stats::{Recorder, Stats},
    sync::{Condvar, Mutex, lock},
    terms::{Refused, Terms},
    ticket::Ticket,
    waits,
};

/// The doors through which time and threads come in, and the limits of admission.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How much is admitted at once.
    pub limits: Limits,
    /// The label of this pipeline's metrics, for example the database's path.
    pub label: String,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where threads come from.
    pub spawn: Arc<dyn Spawn>,
    /// How groups are formed: for experiments.
    #[doc(hidden)]
    pub formation: Formation,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            label: String::new(),
            clock: Arc::new(SystemClock::new()),
            spawn: Arc::new(SharedPool),
            formation: Formation::default(),
        }
    }
}

/// One database's pipeline. Dropping it closes admission; what was admitted still runs, on the
/// pool.
pub struct Pipeline<E: Engine> {
    shared: Arc<Shared<E>>,
}

impl<E: Engine> std::fmt::Debug for Pipeline<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline").finish_non_exhaustive()
    }
}

impl<E: Engine> Drop for Pipeline<E> {
    fn drop(&mut self) {
        self.shared.stop_admission();
    }
}

impl<E: Engine> Pipeline<E> {
    /// A pipeline that drives `engine`.
    pub fn new(engine: E, settings: Settings) -> Self {
        let (flusher, commit_waits) = (engine.flusher(), engine.commit_waits());
        // The fields can be set to nothing, and then nobody would ever be let in.
        let limits = Limits::new(settings.limits.transactions, settings.limits.bytes);
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State::new(limits, settings.formation)),
                execute_ns_max: settings.formation.execute_ns_max(),
                commit_waits,
                limits,
                engine: Mutex::new(engine),
                flusher,
                executed: Condvar::new(),
                recorder: Recorder::new(&settings.label),
                clock: settings.clock,
                spawn: settings.spawn,
            }),
        }
    }

    /// Submits a transaction and returns its ticket at once; waits, blocking, only while admission
    /// is full.
    pub fn submit<F, T, X>(&self, terms: Terms, closure: F) -> Ticket<T, X>
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let shared = &self.shared;
        let cell = Cell::new(closure);
        let entry = shared.entry::<F>(Body::Member(cell.clone()), terms);
        if let Err((entry, reason)) = shared.offer(entry) {
            shared.insist(entry, reason);
        }
        shared.ticket(cell)
    }

    /// As [`Pipeline::submit`], waiting for admission without blocking. A deadline that passes
    /// meanwhile is noticed once there is a place.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready submits nothing.
    pub async fn submit_async<F, T, X>(&self, terms: Terms, closure: F) -> Ticket<T, X>
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let shared = &self.shared;
        let cell = Cell::new(closure);
        let entry = shared.entry::<F>(Body::Member(cell.clone()), terms);
        match shared.offer(entry) {
            Ok(()) => {}
            Err((entry, NotRun::Overloaded)) => match Admit::new(&**shared, entry.bytes).await {
                Ok(()) => shared.enqueue_admitted(entry),
                Err(reason) => shared.refuse(&entry, reason),
            },
            Err((entry, reason)) => shared.refuse(&entry, reason),
        }
        shared.ticket(cell)
    }

    /// As [`Pipeline::submit`], but refuses instead of waiting.
    ///
    /// # Errors
    ///
    /// [`NotRun::Overloaded`] when admission is full, or why nothing is admitted any more, with the
    /// closure.
    pub fn try_submit<F, T, X>(&self, terms: Terms, closure: F) -> Result<Ticket<T, X>, Refused<F>>
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let cell = Cell::new(closure);
        let entry = self.shared.entry::<F>(Body::Member(cell.clone()), terms);
        match self.shared.offer(entry) {
            Ok(()) => Ok(self.shared.ticket(cell)),
            Err((_, reason)) => Err(Refused { reason, closure: cell.take_closure() }),
        }
    }

    /// As [`Pipeline::submit`], with a callback that is called once with the result, in submission
    /// order, on a thread of the pool, off the critical path; one that is not admitted does not wait
    /// for those before it. From inside a callback of the same pipeline it does not wait for room:
    /// the result is then [`NotRun::Overloaded`].
    pub fn submit_then<F, T, X>(
        &self,
        terms: Terms,
        closure: F,
        callback: impl FnOnce(Result<T, Failure<X>>) + Send + 'static,
    ) where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let cell = Cell::with_callback(closure, Box::new(callback));
        let entry = self.shared.entry::<F>(Body::Member(cell), terms);
        if let Err((entry, reason)) = self.shared.offer(entry) {
            self.shared.insist(entry, reason);
        }
    }

    /// Runs a transaction and blocks until it is durable. On an idle pipeline all of it happens on
    /// the caller's thread.
    ///
    /// # Errors
    ///
    /// The [`Failure`] that the transaction came to.
    pub fn transact<F, T, X>(&self, terms: Terms, closure: F) -> Result<T, Failure<X>>
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let shared = &self.shared;
        shared.check_wait()?;
        let cell = Cell::new(closure);
        let entry = shared.entry::<F>(Body::Member(cell.clone()), terms);
        match shared.lead_or_offer(entry) {
            Ok(()) => {}
            Err((entry, reason)) => shared.insist(entry, reason),
        }
        shared.ticket(cell).wait()
    }

    /// Runs `closure` alone, between groups, and blocks until what it did is durable.
    ///
    /// # Errors
    ///
    /// The [`Failure`] that it came to.
    pub fn exclusive<F, T, X>(&self, closure: F) -> Result<T, Failure<X>>
    where
        F: FnMut(&mut E::Exclusive) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let shared = &self.shared;
        shared.check_wait()?;
        let cell = Cell::new(closure);
        let entry = shared.entry::<F>(Body::Exclusive(cell.clone()), Terms::default());
        if let Err((entry, reason)) = shared.offer(entry) {
            shared.insist(entry, reason);
        }
        shared.ticket(cell).wait()
    }

    /// Blocks until everything submitted before this call is resolved; with `force`, also flushes
    /// where the pipeline itself has nothing to flush, because others may have written.
    ///
    /// # Errors
    ///
    /// When the pipeline has failed, now or before.
    pub fn flush<X: Send + 'static>(&self, force: bool) -> Result<(), Failure<X>> {
        self.shared.check_wait()?;
        self.shared.drain(force)
    }

    /// Stops admission, waits until everything admitted is resolved and every callback has returned,
    /// and closes the engine. Inside a callback it does not wait for callbacks.
    ///
    /// # Errors
    ///
    /// When the pipeline had failed or the engine could not close cleanly.
    pub fn close(&self) -> Result<(), Failure<std::convert::Infallible>> {
        let shared = &self.shared;
        shared.check_wait()?;
        shared.stop_admission();
        let drained = match waits::called_back_from() {
            None => shared.drain_callbacks(),
            Some(_) => shared.drain(false),
        };
        let closed = {
            let mut engine = lock(&shared.engine);
            let closed_before = std::mem::replace(&mut lock(&shared.state).engine_closed, true);
            if closed_before { Ok(()) } else { engine.close() }
        };
        drained?;
        closed.map_err(|cause| Failure::NotRun(NotRun::Failed(cause)))
    }

    /// Calls `hold`, which has something that the engine may wait for. Inside it a wait for this
    /// pipeline is refused as [`NotRun::Reentrant`], as inside one of its transactions.
    pub fn holding<R>(&self, hold: impl FnOnce() -> R) -> R {
        waits::holding(self.shared.address(), hold)
    }

    /// What the pipeline has done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (in_flight, queued) = {
            let state = lock(&self.shared.state);
            (state.admission.transactions(), state.queue.len())
        };
        self.shared.recorder.snapshot(in_flight, queued)
    }

    /// Nanoseconds of the pipeline's clock, for comparison with [`Group::deadline_ns`](crate::Group::deadline_ns).
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.shared.clock.now_ns()
    }
}
