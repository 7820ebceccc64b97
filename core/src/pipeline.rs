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

use std::{ops::Deref, sync::Arc};

use crate::{
    Engine,
    admission::Limits,
    cell::{Body, Cell},
    clock::{Clock, SystemClock},
    hold::Formation,
    outcome::{Cause, Failure, NotRun},
    pool::{SharedPool, Spawn},
    shared::Shared,
    state::State,
    stats::Recorder,
    submit::Submitter,
    sync::{Condvar, Mutex, lock},
    terms::Terms,
    tokens::{TokenLimits, Tokens},
    waits,
};

/// The doors through which time and threads come in, and the limits of admission.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How much is admitted at once.
    pub limits: Limits,
    /// The label of this pipeline's metrics, for example the database's path.
    pub label: String,
    /// How long tokens are kept, and how many.
    pub tokens: TokenLimits,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where threads come from.
    pub spawn: Arc<dyn Spawn>,
    /// How groups are formed.
    #[cfg(feature = "experiments")]
    pub formation: Formation,
    /// Added to every flush, as on a slower disk.
    #[cfg(feature = "experiments")]
    pub flush_delay: std::time::Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            label: String::new(),
            tokens: TokenLimits::default(),
            clock: Arc::new(SystemClock::new()),
            spawn: Arc::new(SharedPool),
            #[cfg(feature = "experiments")]
            formation: Formation::default(),
            #[cfg(feature = "experiments")]
            flush_delay: std::time::Duration::ZERO,
        }
    }
}

/// One database's pipeline. Dropping it closes admission; what was admitted still runs, on the
/// pool.
pub struct Pipeline<E: Engine> {
    submitter: Submitter<E>,
}

impl<E: Engine> std::fmt::Debug for Pipeline<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline").finish_non_exhaustive()
    }
}

impl<E: Engine> Deref for Pipeline<E> {
    type Target = Submitter<E>;

    fn deref(&self) -> &Submitter<E> {
        &self.submitter
    }
}

impl<E: Engine> Drop for Pipeline<E> {
    fn drop(&mut self) {
        self.submitter.shared.stop_admission();
    }
}

impl<E: Engine> Pipeline<E> {
    /// A pipeline that drives `engine`.
    pub fn new(engine: E, settings: Settings) -> Self {
        let (flusher, commit_waits) = (engine.flusher(), engine.commit_waits());
        // The fields can be set to nothing, and then nobody would ever be let in.
        let limits = Limits::new(settings.limits.transactions, settings.limits.bytes);
        #[cfg(feature = "experiments")]
        let formation = settings.formation;
        #[cfg(not(feature = "experiments"))]
        let formation = Formation::default();
        let shared = Shared {
            state: Mutex::new(State::new(limits, formation)),
            execute_ns_max: formation.execute_ns_max(),
            commit_waits,
            limits,
            engine: Mutex::new(engine),
            flusher,
            #[cfg(feature = "experiments")]
            flush_delay: settings.flush_delay,
            executed: Condvar::new(),
            recorder: Recorder::new(&settings.label),
            tokens: Tokens::new(settings.tokens),
            clock: settings.clock,
            spawn: settings.spawn,
        };
        Self { submitter: Submitter::new(Arc::new(shared)) }
    }

    /// Runs `closure` alone, between groups, and blocks until what it did is durable.
    ///
    /// # Errors
    ///
    /// The [`Failure`] that it came to.
    pub fn exclusive<F, T, X>(&self, closure: F) -> Result<T, Failure<X>>
    where
        F: FnOnce(&mut E::Exclusive) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let shared = &self.submitter.shared;
        shared.check_wait()?;
        let mut closure = Some(closure);
        let cell = Cell::new(move |exclusive: &mut E::Exclusive| match closure.take() {
            Some(closure) => closure(exclusive),
            None => unreachable!("an engine runs an exclusive once"),
        });
        shared.submit([shared.entry::<F>(Body::Exclusive(cell.clone()), Terms::new())]);
        shared.ticket(cell).wait()
    }

    /// As [`Submitter::flush`], and flushes also where the pipeline itself has nothing to flush,
    /// because others may have written.
    ///
    /// # Errors
    ///
    /// As [`Submitter::flush`].
    pub fn flush_others<X: Send + 'static>(&self) -> Result<(), Failure<X>> {
        self.submitter.shared.drain(true)
    }

    /// Stops admission, waits until everything admitted is resolved and every callback has returned,
    /// and closes the engine. Inside a callback it does not wait for callbacks.
    ///
    /// # Errors
    ///
    /// What the pipeline had failed with, or the engine when it closed.
    pub fn close(&self) -> Result<(), Cause> {
        self.close_engine().map_err(|failure| match failure {
            Failure::Unknown(unknown) => unknown.cause().clone(),
            other => Arc::new(other),
        })
    }

    fn close_engine(&self) -> Result<(), Failure<std::convert::Infallible>> {
        let shared = &self.submitter.shared;
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
        waits::holding(self.submitter.shared.address(), hold)
    }

    /// Nanoseconds of the pipeline's clock, for comparison with [`Group::deadline_ns`](crate::Group::deadline_ns).
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.submitter.shared.clock.now_ns()
    }
}
