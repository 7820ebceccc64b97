//! Many tickets, waited for together.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use crate::{outcome::Failure, park, ticket::Ticket};

type Outcome<T, E> = Result<T, Failure<E>>;

/// Tickets of one database, in the order of their submission: a future of all outcomes, in the same
/// order.
///
/// Waiting for all wakes the caller once, when the last ticket resolves; the others have resolved by
/// then. An event loop whose transactions come one at a time [pushes](Self::push) each ticket and
/// takes what is [resolved](Self::resolved): one wake-up for all that shared a flush.
///
/// # Cancel safety
///
/// As of [`Ticket`]: dropping it neither cancels nor leaks anything, and polling is safe to abandon.
#[derive(Debug)]
#[must_use = "dropping tickets discards the outcomes of their transactions"]
pub struct Tickets<T, E> {
    tickets: VecDeque<Ticket<T, E>>,
    /// What has been taken from behind them, the last first.
    ends: Vec<Outcome<T, E>>,
}

impl<T, E> Tickets<T, E> {
    /// None yet.
    pub fn new() -> Self {
        Self { tickets: VecDeque::new(), ends: Vec::new() }
    }

    /// How many outcomes have not been taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tickets.len() + self.ends.len()
    }

    /// Whether every outcome has been taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ticket in this place, counted from the first whose outcome has not been taken.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&Ticket<T, E>> {
        self.tickets.get(place)
    }

    /// Withdraws those transactions that are still queued; see [`Ticket::cancel`].
    pub fn cancel(&self) {
        self.tickets.iter().for_each(|ticket| {
            let _was_queued = ticket.cancel();
        });
    }
}

impl<T: Send + 'static, E: Send + 'static> Tickets<T, E> {
    /// Adds a ticket of the same database, submitted after all others.
    pub fn push(&mut self, ticket: Ticket<T, E>) {
        let ends = std::mem::take(&mut self.ends);
        self.tickets.extend(ends.into_iter().rev().map(Ticket::resolved));
        self.tickets.push_back(ticket);
    }

    /// Blocks the thread until all are resolved.
    #[must_use]
    pub fn wait(mut self) -> Vec<Outcome<T, E>> {
        let waited = self.tickets.drain(..).rev().map(Ticket::wait);
        self.ends.extend(waited);
        self.take_ends()
    }

    /// The outcomes of the next that are resolved, as many as are, and at least one; none only when
    /// all have been taken.
    pub async fn resolved(&mut self) -> Vec<Outcome<T, E>> {
        poll_fn(|cx| self.poll_resolved(cx)).await
    }

    /// As [`resolved`](Self::resolved), blocking the thread.
    pub fn wait_resolved(&mut self) -> Vec<Outcome<T, E>> {
        park::block_on(self.resolved())
    }

    /// As [`resolved`](Self::resolved), by hand.
    pub fn poll_resolved(&mut self, cx: &mut Context<'_>) -> Poll<Vec<Outcome<T, E>>> {
        let mut outcomes = Vec::new();
        while let Some(next) = self.tickets.front_mut() {
            // Only the first is worth a wake-up: what follows is resolved with it or after it.
            let mut quiet = Context::from_waker(Waker::noop());
            let cx = if outcomes.is_empty() { &mut *cx } else { &mut quiet };
            match Pin::new(next).poll(cx) {
                Poll::Ready(outcome) => outcomes.push(outcome),
                Poll::Pending if outcomes.is_empty() => return Poll::Pending,
                Poll::Pending => return Poll::Ready(outcomes),
            }
            self.tickets.pop_front();
        }
        outcomes.append(&mut self.take_ends());
        Poll::Ready(outcomes)
    }

    fn take_ends(&mut self) -> Vec<Outcome<T, E>> {
        let mut ends = std::mem::take(&mut self.ends);
        ends.reverse();
        ends
    }
}

/// Outcomes are moved, never pinned.
impl<T, E> Unpin for Tickets<T, E> {}

impl<T: Send + 'static, E: Send + 'static> Future for Tickets<T, E> {
    type Output = Vec<Outcome<T, E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        while let Some(last) = self.tickets.back_mut() {
            let end = ready!(Pin::new(last).poll(cx));
            self.tickets.pop_back();
            self.ends.push(end);
        }
        Poll::Ready(self.take_ends())
    }
}

// Not derived, which would ask for `T: Default`.
impl<T, E> Default for Tickets<T, E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send + 'static, E: Send + 'static> Extend<Ticket<T, E>> for Tickets<T, E> {
    fn extend<I: IntoIterator<Item = Ticket<T, E>>>(&mut self, tickets: I) {
        tickets.into_iter().for_each(|ticket| self.push(ticket));
    }
}

impl<T: Send + 'static, E: Send + 'static> FromIterator<Ticket<T, E>> for Tickets<T, E> {
    fn from_iter<I: IntoIterator<Item = Ticket<T, E>>>(tickets: I) -> Self {
        let mut all = Self::new();
        all.extend(tickets);
        all
    }
}

/// Each ticket by itself.
impl<T: Send + 'static, E: Send + 'static> IntoIterator for Tickets<T, E> {
    type Item = Ticket<T, E>;
    type IntoIter = std::collections::vec_deque::IntoIter<Ticket<T, E>>;

    fn into_iter(mut self) -> Self::IntoIter {
        let ends = self.take_ends();
        self.tickets.extend(ends.into_iter().map(Ticket::resolved));
        self.tickets.into_iter()
    }
}
