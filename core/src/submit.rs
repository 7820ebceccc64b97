//! What callers of every database submit with, written once.
//!
//! An engine's `Database` dereferences to a [`Submitter`], so its methods are the database's own.
//! Code that is written once for all engines takes any [`Submit`].

use std::{convert::Infallible, error::Error, fmt, iter, ops::Deref, sync::Arc};

use crate::{
    Engine,
    cell::{Body, Cell, Entry},
    outcome::Failure,
    shared::Shared,
    state::Call,
    stats::Stats,
    sync::lock,
    terms::{Terms, TrySubmitError},
    ticket::Ticket,
    tickets::Tickets,
};

/// Submits transactions to one database, all under the same [`Terms`].
///
/// A database is one, without terms; [`with`](Self::with) makes another. Cheap to clone. It does not
/// keep admission open: once the last clone of the database is dropped, it is refused with
/// [`NotRun::Closed`](crate::NotRun::Closed).
pub struct Submitter<E: Engine> {
    pub(crate) shared: Arc<Shared<E>>,
    terms: Terms,
}

/// A database of any engine, as far as all are the same; for code that is written once for all of
/// them.
pub trait Submit:
    Deref<Target = Submitter<<Self as Submit>::Engine>> + Clone + Send + Sync + 'static
{
    /// What drives the database.
    type Engine: Engine;

    /// The database's own `close`.
    ///
    /// # Errors
    ///
    /// When a flush or a commit had failed.
    fn close_any(&self) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// What the closures of the database `D` are given.
pub type TransactionOf<'g, D> = <<D as Submit>::Engine as Engine>::Transaction<'g>;

impl<E: Engine> Clone for Submitter<E> {
    fn clone(&self) -> Self {
        self.with(self.terms)
    }
}

impl<E: Engine> fmt::Debug for Submitter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submitter").field("terms", &self.terms).finish_non_exhaustive()
    }
}

impl<E: Engine> Submitter<E> {
    pub(crate) fn new(shared: Arc<Shared<E>>) -> Self {
        Self { shared, terms: Terms::new() }
    }

    /// The same database, for transactions under `terms`: with a deadline, or with their memory
    /// accounted for.
    #[must_use]
    pub fn with(&self, terms: Terms) -> Self {
        Self { shared: self.shared.clone(), terms }
    }

    /// Submits a transaction and returns its ticket at once.
    ///
    /// Only while admission is full ([`Limits`](crate::Limits)) does it block until there is room. In
    /// async code use [`submit_async`](Self::submit_async) or [`transact_async`](Self::transact_async),
    /// which wait without blocking, or [`try_submit`](Self::try_submit), which refuses. Inside a
    /// transaction of the same database it may be called, but its ticket must not be waited for
    /// there: the transaction would wait for its own group.
    ///
    /// # Durability
    ///
    /// The ticket resolves to the closure's value once the transaction is committed and flushed. The
    /// closure may run more than once; its effect lands exactly once.
    pub fn submit<T, X, F>(&self, transaction: F) -> Ticket<T, X>
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let (cell, entry) = self.member(transaction);
        self.shared.submit_one(entry);
        self.shared.ticket(cell)
    }

    /// As [`submit`](Self::submit), waiting for admission without blocking. A deadline does not end
    /// that wait, which has no clock of its own; dropping the future does.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready submits nothing.
    pub async fn submit_async<T, X, F>(&self, transaction: F) -> Ticket<T, X>
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let (cell, entry) = self.member(transaction);
        self.shared.submit_async([entry]).await;
        self.shared.ticket(cell)
    }

    /// As [`submit`](Self::submit), but refuses instead of waiting for room.
    ///
    /// # Errors
    ///
    /// [`NotRun::Overloaded`](crate::NotRun::Overloaded) when admission is full, [`NotRun::Closed`](crate::NotRun::Closed) or [`NotRun::Failed`](crate::NotRun::Failed) when
    /// nothing is admitted any more; the closure comes back with it.
    pub fn try_submit<T, X, F>(&self, transaction: F) -> Result<Ticket<T, X>, TrySubmitError<F>>
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let (cell, entry) = self.member(transaction);
        match self.shared.offer(&mut [entry].into_iter()) {
            None => Ok(self.shared.ticket(cell)),
            Some((_, reason)) => Err(TrySubmitError { reason, closure: cell.take_closure() }),
        }
    }

    /// Runs a transaction and blocks until it is durable. On an idle database everything happens on
    /// the caller's thread.
    ///
    /// # Errors
    ///
    /// The [`Failure`] that the transaction came to; [`NotRun::Reentrant`](crate::NotRun::Reentrant) when called from inside a
    /// transaction for which it would wait.
    pub fn transact<T, X, F>(&self, transaction: F) -> Result<T, Failure<X>>
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        self.shared.check_wait()?;
        let (cell, entry) = self.member(transaction);
        if let Some(entry) = self.shared.lead_if_idle(entry) {
            self.shared.submit([entry]);
        }
        self.shared.ticket(cell).wait()
    }

    /// Runs a transaction on this thread, and blocks until it is durable, if the database is idle.
    /// Otherwise it returns the closure. For callers that may block, but not behind other transactions.
    ///
    /// # Errors
    ///
    /// The closure, which has not run and is not going to.
    pub fn try_lead<T, X, F>(&self, transaction: F) -> Result<Ticket<T, X>, F>
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let (cell, entry) = self.member(transaction);
        match self.shared.lead_if_idle(entry) {
            None => Ok(self.shared.ticket(cell)),
            Some(_) => Err(cell.take_closure()),
        }
    }

    /// Runs a transaction and returns, without blocking, when it is durable.
    ///
    /// # Errors
    ///
    /// The [`Failure`] that the transaction came to.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before the transaction is admitted submits nothing. Afterwards the
    /// transaction goes on, and its outcome is discarded.
    pub async fn transact_async<T, X, F>(&self, transaction: F) -> Result<T, Failure<X>>
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        self.submit_async(transaction).await.await
    }

    /// As [`submit`](Self::submit), with a callback in place of a ticket. It is called exactly once,
    /// with the result, on a thread of the pool; callbacks of one database are called in submission
    /// order, one at a time (one that was not admitted does not wait for those before it).
    ///
    /// A slow one delays no commit; it should not block on a database itself. It may submit more, but
    /// does not wait for room: while admission is full, that is [`NotRun::Overloaded`](crate::NotRun::Overloaded), since the room
    /// may be its own.
    pub fn submit_then<T, X, F>(
        &self,
        transaction: F,
        callback: impl FnOnce(Result<T, Failure<X>>) + Send + 'static,
    ) where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let cell = Cell::with_callback(transaction, Box::new(callback));
        self.shared.submit_one(self.shared.entry::<F>(Body::Member(cell), self.terms));
    }

    /// Submits many transactions at once, each with an outcome of its own, and one wake-up of the task
    /// that waits for all. Blocks as [`submit`](Self::submit) does; those that have room are under way
    /// meanwhile.
    pub fn submit_many<T, X, F>(&self, transactions: impl IntoIterator<Item = F>) -> Tickets<T, X>
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let (tickets, entries) = self.members(transactions);
        self.shared.submit(entries);
        tickets
    }

    /// As [`submit_many`](Self::submit_many), waiting for admission without blocking.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready discards the tickets; those of the transactions that
    /// had room are submitted.
    pub async fn submit_many_async<T, X, F>(
        &self,
        transactions: impl IntoIterator<Item = F>,
    ) -> Tickets<T, X>
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let (tickets, entries) = self.members(transactions);
        self.shared.submit_async(entries).await;
        tickets
    }

    /// As [`submit_many`](Self::submit_many), with one callback for all in place of the tickets. It
    /// is called as that of [`submit_then`](Self::submit_then), with all results in order.
    pub fn submit_many_then<T, X, F>(
        &self,
        transactions: impl IntoIterator<Item = F>,
        callback: impl FnOnce(Vec<Result<T, Failure<X>>>) + Send + 'static,
    ) where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let mut transactions: Vec<F> = transactions.into_iter().collect();
        let Some(last) = transactions.pop() else {
            let callback = Box::new(move || callback(Vec::new()));
            return self.shared.schedule_callbacks(vec![Call { callback, place: (0, 0) }]);
        };
        // Called when the last is resolved, and then so are those before it.
        let (tickets, mut entries) = self.members(transactions);
        let callback = move |result| {
            let mut results = tickets.wait();
            results.push(result);
            callback(results);
        };
        let cell = Cell::with_callback(last, Box::new(callback));
        entries.push(self.shared.entry::<F>(Body::Member(cell), self.terms));
        self.shared.submit(entries);
    }

    /// Blocks until everything submitted before this call is resolved.
    ///
    /// # Errors
    ///
    /// [`Failure::Unknown`] or [`NotRun::Failed`](crate::NotRun::Failed) when a flush failed, now or before.
    pub fn flush(&self) -> Result<(), Failure<Infallible>> {
        self.shared.drain(false)
    }

    /// What the database has done since it was opened.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (in_flight, queued) = {
            let state = lock(&self.shared.state);
            (state.admission.transactions(), state.queue.len())
        };
        self.shared.recorder.snapshot(in_flight, queued)
    }

    fn member<T, X, F>(&self, transaction: F) -> (Arc<Cell<F, T, X>>, Entry<E>)
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let cell = Cell::new(transaction);
        let entry = self.shared.entry::<F>(Body::Member(cell.clone()), self.terms);
        (cell, entry)
    }

    /// Submits the transactions a few at a time, so that the first run while the others are made, up to
    /// the first for which there is no room: from there on they are returned, to be waited with.
    fn members<T, X, F>(
        &self,
        transactions: impl IntoIterator<Item = F>,
    ) -> (Tickets<T, X>, Vec<Entry<E>>)
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let (mut tickets, mut waiting, mut has_room) = (Tickets::new(), Vec::new(), true);
        for transaction in transactions {
            let (cell, entry) = self.member(transaction);
            tickets.push(self.shared.ticket(cell));
            waiting.push(entry);
            if has_room && waiting.len() == AT_ONCE {
                let mut entries = waiting.drain(..);
                if let Some((entry, _)) = self.shared.offer(&mut entries) {
                    has_room = false;
                    waiting = iter::once(entry).chain(entries).collect();
                }
            }
        }
        (tickets, waiting)
    }
}

/// Of many transactions, those that are admitted under one lock.
const AT_ONCE: usize = 128;
