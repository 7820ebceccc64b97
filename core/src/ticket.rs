//! The ticket: the future of one transaction's outcome.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use crate::{
    cell::{Cell, Seat},
    outcome::{Failure, NotRun, Unknown},
    park, waits,
};

/// The future of one transaction's outcome.
///
/// Resolves once the transaction is committed *and* flushed, or is certain not to be (see
/// [`Failure`]). Tickets of one database resolve in submission order; only one that was not admitted
/// is resolved at once. Works in any async runtime,
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
    /// The address of the pipeline that it waits for.
    pipeline: usize,
}

impl<T, E> fmt::Debug for Ticket<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("resolved", &self.seat.is_resolved()).finish_non_exhaustive()
    }
}

impl<T: Send + 'static, E: Send + 'static> Ticket<T, E> {
    pub(crate) fn of<F: Send + 'static>(cell: Arc<Cell<F, T, E>>, pipeline: usize) -> Self {
        Self { seat: cell, pipeline }
    }

    /// A ticket that is resolved from the start.
    pub fn resolved(result: Result<T, Failure<E>>) -> Self {
        Self { seat: Cell::<(), T, E>::resolved(result), pipeline: 0 }
    }

    /// Blocks the thread until the ticket is resolved.
    ///
    /// # Errors
    ///
    /// The [`Failure`] that the transaction came to. Inside a transaction for which this one would
    /// wait in turn (an earlier one of the same database, or through other databases) the wait would
    /// never end: this one is then withdrawn, which is [`NotRun::Reentrant`], or, when it has begun
    /// already, left to itself as [`Failure::Unknown`].
    pub fn wait(self) -> Result<T, Failure<E>> {
        match waits::begin(self.pipeline, || Some(self.seat.clone())) {
            Some(_waiting) => park::block_on(self),
            None if self.cancel() => Err(NotRun::Reentrant.into()),
            None => Err(Failure::Unknown(Unknown::new(Arc::new(NotRun::Reentrant)))),
        }
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
            Some(until) => {
                park::block_on_until(self, || until.saturating_duration_since(Instant::now()))
            }
            None => Some(park::block_on(self)),
        }
    }
}

impl<T, E> Ticket<T, E> {
    /// Withdraws the transaction if it is still queued, and says whether it was.
    ///
    /// `true`: it has no effect and never will; its closure is dropped now, and the ticket
    /// resolves to [`NotRun::Cancelled`] when its turn comes. `false`: it has been handed to the engine, and the
    /// ticket resolves to what came of it.
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
