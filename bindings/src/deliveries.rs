//! Outcomes on their way to an event loop.
//!
//! Invariants:
//! 1. Transactions are admitted in the order of [`Deliveries::transact`].
//! 2. After [`Deliveries::take`] the waker is called when there is more to take. All that share a
//!    flush call it once.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use groupcommit::{
    NotRun, Tickets,
    sql::{Database, Error, Statement, StatementResult, StatementsOutcome, StatementsTicket},
};

/// What came of a piece of work.
#[derive(Debug)]
pub enum Delivered<A> {
    /// Of a transaction.
    Outcome(StatementsOutcome),
    /// Of other work.
    Answer(A),
}

/// The pending work of one event loop on one database. A `K` identifies the caller of each piece, for
/// example a future of the language. An `A` is the result of work other than transactions.
///
/// Nothing here blocks or needs a runtime. Dropping it cancels no transaction.
pub struct Deliveries<K, A> {
    waker: Waker,
    tickets: Tickets<Vec<StatementResult>, Error>,
    /// The caller of each ticket.
    keys: VecDeque<K>,
    /// Those for which admission has no room yet.
    waiting: VecDeque<(K, BoxFuture<'static, StatementsTicket>)>,
    others: FuturesUnordered<BoxFuture<'static, (K, A)>>,
    /// Resolved before anybody could be woken for it.
    done: Vec<(K, Delivered<A>)>,
}

impl<K, A> fmt::Debug for Deliveries<K, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deliveries").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<K: Send + 'static, A: Send + 'static> Deliveries<K, A> {
    /// None yet. `waker` is called, from any thread, when there is something to [take](Self::take).
    #[must_use]
    pub fn new(waker: Waker) -> Self {
        Self {
            waker,
            tickets: Tickets::new(),
            keys: VecDeque::new(),
            waiting: VecDeque::new(),
            others: FuturesUnordered::new(),
            done: Vec::new(),
        }
    }

    /// Submits a transaction, always to the same database; its outcome is for `key`.
    #[expect(clippy::async_yields_async, reason = "admission is one wait, the outcome another")]
    pub fn transact(&mut self, database: &Database, statements: Vec<Statement>, key: K) {
        let database = database.clone();
        let mut ticket: BoxFuture<'static, StatementsTicket> =
            Box::pin(async move { database.submit_async(statements).await });
        if self.waiting.is_empty()
            && let Poll::Ready(ticket) = self.poll(&mut ticket)
        {
            self.push(key, ticket);
        } else {
            self.waiting.push_back((key, ticket));
        }
    }

    /// Does other work; what it returns is for `key`.
    pub fn spawn(&mut self, key: K, work: impl Future<Output = A> + Send + 'static) {
        self.others.push(Box::pin(async move { (key, work.await) }));
        // Polled at once, so that it begins.
        let waker = self.waker.clone();
        let mut cx = Context::from_waker(&waker);
        if let Poll::Ready(Some((key, answer))) = self.others.poll_next_unpin(&mut cx) {
            self.finish(key, Delivered::Answer(answer));
        }
    }

    /// Withdraws the transaction of `key` if it is not begun: it comes to [`NotRun::Cancelled`].
    pub fn cancel(&mut self, key: &K)
    where
        K: PartialEq,
    {
        if let Some(place) = self.keys.iter().position(|other| other == key) {
            if let Some(ticket) = self.tickets.get(place) {
                let _was_queued = ticket.cancel();
            }
        } else if let Some(place) = self.waiting.iter().position(|(other, _)| other == key)
            && let Some((key, _)) = self.waiting.remove(place)
        {
            self.finish(key, Delivered::Outcome(Err(NotRun::Cancelled.into())));
        }
    }

    /// Everything that has come of the work so far.
    #[must_use]
    pub fn take(&mut self) -> Vec<(K, Delivered<A>)> {
        let waker = self.waker.clone();
        let mut cx = Context::from_waker(&waker);
        let mut all = std::mem::take(&mut self.done);
        loop {
            while let Poll::Ready(outcomes) = self.tickets.poll_resolved(&mut cx)
                && !outcomes.is_empty()
            {
                let keys = self.keys.drain(..outcomes.len());
                all.extend(keys.zip(outcomes.into_iter().map(Delivered::Outcome)));
            }
            let Some((_, ticket)) = self.waiting.front_mut() else { break };
            let Poll::Ready(ticket) = ticket.as_mut().poll(&mut cx) else { break };
            if let Some((key, _)) = self.waiting.pop_front() {
                self.tickets.push(ticket);
                self.keys.push_back(key);
            }
        }
        while let Poll::Ready(Some((key, answer))) = self.others.poll_next_unpin(&mut cx) {
            all.push((key, Delivered::Answer(answer)));
        }
        all
    }

    fn poll<F: Future + Unpin>(&self, future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(&self.waker))
    }

    fn push(&mut self, key: K, ticket: StatementsTicket) {
        let is_first = self.tickets.is_empty();
        self.tickets.push(ticket);
        self.keys.push_back(key);
        // Only the first is worth a wake-up: those after it are resolved with it or later.
        if is_first
            && let Poll::Ready(outcomes) =
                self.tickets.poll_resolved(&mut Context::from_waker(&self.waker))
        {
            for outcome in outcomes {
                if let Some(key) = self.keys.pop_front() {
                    self.finish(key, Delivered::Outcome(outcome));
                }
            }
        }
    }

    fn finish(&mut self, key: K, delivered: Delivered<A>) {
        self.done.push((key, delivered));
        self.waker.wake_by_ref();
    }
}

impl<K, A> Deliveries<K, A> {
    /// Pieces of work whose outcome has not been taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len() + self.waiting.len() + self.others.len() + self.done.len()
    }

    /// Whether every outcome has been taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
