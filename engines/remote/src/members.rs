//! The members of a transaction, over all attempts at it.

use groupcommit_core::{Cause, Engine, Group, NotRun};

/// A member that was taken from the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its number in the group.
    pub index: usize,
    /// It was run before.
    pub has_run: bool,
    /// It failed in an attempt that was rolled back.
    pub has_failed: bool,
}

/// The members of the transaction that is attempted, in order.
#[derive(Debug, Default)]
pub struct Members {
    list: Vec<Member>,
    /// Those up to here were run in this attempt.
    at: usize,
    size: usize,
}

impl Members {
    /// Begins an attempt with at most `size` members; the others are given back to the group, for
    /// another transaction, and another call.
    ///
    /// REQUIRES of the engine: nothing of an earlier attempt is in the database.
    pub fn begin<E: Engine>(&mut self, group: &mut Group<E>, size: usize) {
        if let Some(first) = self.list.get(size) {
            group.give_back(first.index);
            self.list.truncate(size);
        }
        (self.at, self.size) = (0, size);
    }

    /// The next member to run in this attempt, whether from an earlier one or new. `None` when there
    /// are no more. One that has run before and whose deadline has passed since is refused.
    pub fn next<E: Engine>(&mut self, group: &mut Group<E>) -> Option<Member> {
        loop {
            if self.at == self.list.len() {
                let index = (self.at < self.size).then(|| group.next_member()).flatten()?;
                self.list.push(Member { index, has_run: false, has_failed: false });
            }
            let member = self.list[self.at];
            if member.has_run && group.passed_deadline(member.index) {
                group.refuse(member.index, NotRun::DeadlinePassed);
                self.list.remove(self.at);
                continue;
            }
            self.list[self.at].has_run = true;
            self.at += 1;
            return Some(member);
        }
    }

    /// Goes back to the member behind this one: those from there on are run again in this attempt.
    pub fn go_back_behind(&mut self, index: usize) {
        self.at = self.list.partition_point(|member| member.index <= index).min(self.at);
    }

    /// Remembers for the next attempts that this one failed.
    pub fn mark_failed(&mut self, index: usize) {
        if let Ok(at) = self.list.binary_search_by_key(&index, |member| member.index) {
            self.list[at].has_failed = true;
        }
    }

    /// Takes one out of them, which is decided.
    pub fn remove(&mut self, index: usize) {
        if let Ok(at) = self.list.binary_search_by_key(&index, |member| member.index) {
            self.list.remove(at);
            self.at -= usize::from(at < self.at);
        }
    }

    /// Whether this attempt is for one member only, whatever the group still has.
    #[must_use]
    pub fn is_for_one(&self) -> bool {
        self.size == 1
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The first.
    #[must_use]
    pub fn first(&self) -> Option<Member> {
        self.list.first().copied()
    }

    /// No server can be reached: refuses these, of whom nothing was sent or all was undone, and all
    /// that the group still has.
    pub fn refuse_all<E: Engine>(&self, group: &mut Group<E>, cause: &Cause) {
        for member in &self.list {
            group.refuse(member.index, NotRun::Unavailable(cause.clone()));
        }
        while let Some(index) = group.next_member() {
            group.refuse(index, NotRun::Unavailable(cause.clone()));
        }
    }
}
