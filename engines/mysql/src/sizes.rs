//! How many members a transaction may have, by how often they were in conflict.
//!
//! A group that is in conflict with another writer is rolled back whole, so the larger it is, the
//! more is lost, and the likelier. As the rule is in networks that share a line: half as many after
//! a conflict, somewhat more after each transaction that was as large as it might be and met none.

/// As many as a group has.
const SIZE_MAX: usize = 1_024;

/// The members of the next transaction.
#[derive(Debug)]
pub(crate) struct Sizes {
    now: usize,
}

impl Sizes {
    pub(crate) fn new() -> Self {
        Self { now: SIZE_MAX }
    }

    /// The most members that the next transaction takes; at least one.
    pub(crate) fn now(&self) -> usize {
        self.now
    }

    /// A transaction of so many members was in conflict.
    pub(crate) fn conflict(&mut self, members: usize) {
        self.now = (self.now.min(members) / 2).max(1);
    }

    /// A transaction of so many members was committed.
    pub(crate) fn committed(&mut self, members: usize) {
        if members >= self.now {
            self.now = (self.now + (self.now / 4).max(1)).min(SIZE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_shrink_down_to_one_and_success_grows_back() {
        let mut sizes = Sizes::new();
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
        assert_eq!(sizes.now(), SIZE_MAX);
    }
}
