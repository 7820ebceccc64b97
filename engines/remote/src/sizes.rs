//! How many members a transaction may have, by how often something was in the way of one.
//!
//! A transaction that meets with an obstacle is rolled back whole, so the larger it is, the more is
//! lost, and the likelier. As the rule is in networks that share a line: half as many after an
//! obstacle, somewhat more after each transaction that was as large as it might be and met none.

use groupcommit_core::GROUP_TRANSACTIONS_MAX;

/// The members of the next transaction.
#[derive(Debug)]
pub struct Sizes {
    now: usize,
    min: usize,
}

impl Sizes {
    /// As many as a group has, to begin with, and never fewer than `min`.
    #[must_use]
    pub fn new(min: usize) -> Self {
        Self { now: GROUP_TRANSACTIONS_MAX, min }
    }

    /// The most members that the next transaction takes.
    #[must_use]
    pub fn now(&self) -> usize {
        self.now
    }

    /// A transaction of so many members met with an obstacle.
    pub fn conflict(&mut self, members: usize) {
        self.now = (self.now.min(members) / 2).max(self.min);
    }

    /// A transaction of so many members was committed.
    pub fn committed(&mut self, members: usize) {
        if members >= self.now {
            self.now = (self.now + (self.now / 4).max(1)).min(GROUP_TRANSACTIONS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_shrink_down_to_the_least_and_success_grows_back() {
        let mut sizes = Sizes::new(1);
        sizes.conflict(1_000);
        assert_eq!(sizes.now(), 500);
        sizes.conflict(10); // a small one is no reason to let the next be larger
        assert_eq!(sizes.now(), 5);
        sizes.committed(4); // was not as large as it might have been
        assert_eq!(sizes.now(), 5);
        for _ in 0..5 {
            sizes.conflict(sizes.now());
        }
        assert_eq!(sizes.now(), 1);
        for _ in 0..40 {
            sizes.committed(sizes.now());
        }
        assert_eq!(sizes.now(), GROUP_TRANSACTIONS_MAX);
        let mut sizes = Sizes::new(50);
        sizes.conflict(60);
        assert_eq!(sizes.now(), 50);
    }
}
