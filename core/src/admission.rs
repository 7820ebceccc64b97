//! Admission: how much may be in flight at once. A pure account, without threads.
//!
//! Invariants:
//! 1. What is admitted never exceeds either limit.
//! 2. Places go to those who wait in the order in which they began to wait; nobody overtakes them.
//! 3. A transaction larger than the byte limit counts as the whole limit, so it is admitted alone
//!    instead of never.

use std::collections::VecDeque;

/// How much a pipeline admits before `submit` waits and `try_submit` refuses.
///
/// A transaction counts from its admission until its flush has returned, just before its ticket is
/// resolved (or, where it has a callback, until that has returned).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Transactions in flight at once.
    pub transactions: usize,
    /// Bytes of the transactions in flight at once.
    pub bytes: usize,
}

impl Limits {
    /// Limits of `transactions` in flight, of together `bytes`; either is at least one.
    #[must_use]
    pub fn new(transactions: usize, bytes: usize) -> Self {
        Self { transactions: transactions.max(1), bytes: bytes.max(1) }
    }
}

impl Default for Limits {
    /// 16,384 transactions and 64 MiB.
    fn default() -> Self {
        Self::new(16_384, 64 << 20)
    }
}

/// The account of what is admitted, and the line of those who wait.
#[derive(Debug)]
pub(crate) struct Admission<W> {
    limits: Limits,
    transactions: usize,
    bytes: usize,
    waiting: VecDeque<(usize, W)>,
}

impl<W> Admission<W> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, transactions: 0, bytes: 0, waiting: VecDeque::new() }
    }

    /// Transactions admitted and not yet released.
    pub(crate) fn transactions(&self) -> usize {
        self.transactions
    }

    /// Admits a transaction of `bytes` if there is room and nobody waits.
    pub(crate) fn try_admit(&mut self, bytes: usize) -> bool {
        let admit = self.waiting.is_empty() && self.fits(bytes);
        if admit {
            self.charge(bytes);
        }
        admit
    }

    /// Puts `waiter` at the end of the line; [`Self::release`] hands it back when it is admitted.
    pub(crate) fn wait(&mut self, bytes: usize, waiter: W) {
        self.waiting.push_back((bytes, waiter));
    }

    /// Returns places of transactions of together `bytes`, and admits those who now fit.
    pub(crate) fn release(&mut self, transactions: usize, bytes: usize) -> Vec<W> {
        self.transactions = self.transactions.saturating_sub(transactions);
        self.bytes = self.bytes.saturating_sub(bytes);
        let mut admitted = Vec::new();
        while let Some(&(bytes, _)) = self.waiting.front()
            && self.fits(bytes)
        {
            self.charge(bytes);
            admitted.extend(self.waiting.pop_front().map(|(_, waiter)| waiter));
        }
        admitted
    }

    /// Takes the waiters for whom `leaves` holds out of the line; others may fit then, which
    /// [`Self::release`] of nothing finds out.
    pub(crate) fn leave(&mut self, mut leaves: impl FnMut(&W) -> bool) {
        self.waiting.retain(|(_, waiter)| !leaves(waiter));
    }

    /// Empties the line: admission has ended.
    pub(crate) fn turn_away(&mut self) -> Vec<W> {
        self.waiting.drain(..).map(|(_, waiter)| waiter).collect()
    }

    /// What a transaction of `bytes` is charged.
    fn charged(&self, bytes: usize) -> usize {
        bytes.min(self.limits.bytes)
    }

    fn fits(&self, bytes: usize) -> bool {
        self.transactions < self.limits.transactions
            && self.charged(bytes) <= self.limits.bytes - self.bytes
    }

    fn charge(&mut self, bytes: usize) {
        self.transactions += 1;
        self.bytes += self.charged(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_above_either_limit() {
        let mut admission = Admission::<u8>::new(Limits::new(2, 100));
        assert!(admission.try_admit(90));
        assert!(!admission.try_admit(11), "bytes are bounded");
        assert!(admission.try_admit(10));
        assert!(!admission.try_admit(0), "the count is bounded");
    }

    #[test]
    fn places_go_to_waiters_in_order_and_nobody_overtakes() {
        let mut admission = Admission::new(Limits::new(10, 100));
        assert!(admission.try_admit(100));
        admission.wait(60, 'a');
        admission.wait(10, 'b');
        assert!(admission.release(0, 40).is_empty(), "b may not overtake a");
        assert!(!admission.try_admit(1), "a newcomer may not overtake a");
        assert_eq!(admission.release(1, 60), ['a', 'b']);
        assert_eq!(admission.transactions(), 2);
    }

    #[test]
    fn a_giant_is_admitted_alone() {
        let mut admission = Admission::new(Limits::new(10, 100));
        assert!(admission.try_admit(1));
        admission.wait(1_000, 'g');
        assert_eq!(admission.release(1, 1), ['g']);
        assert!(!admission.try_admit(1));
        assert!(admission.release(1, admission.charged(1_000)).is_empty());
        assert!(admission.try_admit(100));
    }

    #[test]
    fn one_who_leaves_the_line_lets_the_next_in() {
        let mut admission = Admission::new(Limits::new(2, 100));
        assert!(admission.try_admit(50));
        admission.wait(80, 'a');
        admission.wait(50, 'b');
        admission.leave(|waiter| *waiter == 'a');
        assert_eq!(admission.release(0, 0), ['b']);
    }
}
