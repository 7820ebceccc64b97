//! Histories of writes and reads, and the checker that says whether a database that keeps its
//! promises could have brought them forth.
//!
//! The workload is made to be checked. A write adds one to a *position* that all share, and puts a
//! *token* of its own, used once, into some of a few *cells*. So the commits are in a known order,
//! and what a read sees tells which of them it saw:
//!
//! ```text
//!   position    1      2      3      4
//!   cell 0      a      a      c      c        a read that saw (c, b) saw exactly 3 commits;
//!   cell 1      -      b      b      d        one that saw (a, d) saw no prefix of them
//! ```
//!
//! [`check()`] demands, of the writes and reads of many threads:
//!
//! 1. Commits have the positions 1, 2, 3, ...: no hole, none twice.
//! 2. Real time among writes: one whose ticket resolved before another was submitted comes first.
//! 3. Every read is explained by a prefix of the commits: nothing torn, nothing that was rolled back
//!    or never written.
//! 4. Real time of reads: a read sees every write that was resolved before it began, none that was
//!    submitted after it ended, and never less than a read that ended before it began.
//! 5. A durable read saw no more than was durable once it had returned.
//!
//! Rules 2 to 4 together are strict serializability for this workload: positions fix the order of
//! the writes, so it is enough to give each read the least prefix that the rules allow (one read's
//! least prefix is also what hinders later reads least), in the order in which the reads began.
//!
//! [`drive`](mod@drive) makes such histories with many threads on any [`Store`].

mod check;
pub mod drive;
#[cfg(test)]
mod tests;

pub use check::{Checked, Violation, check};
pub use drive::{Load, Store, Summary, drive};

/// What a writer puts into cells; never used twice. 0 is what a cell holds at first.
pub type Token = u64;

/// What the database holds: how many commits there were, and the latest token in each cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Commits so far.
    pub position: u64,
    /// The token in each cell.
    pub cells: Vec<Token>,
}

impl State {
    /// The state before the first write.
    #[must_use]
    pub fn new(cells: usize) -> Self {
        Self { position: 0, cells: vec![0; cells] }
    }
}

/// One submitted write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// What it put into its cells.
    pub token: Token,
    /// The cells.
    pub cells: Vec<u16>,
    /// When it was about to be submitted, in nanoseconds since the history began.
    pub began_ns: u64,
    /// When its ticket was seen to be resolved.
    pub ended_ns: u64,
    /// The position that it took; `None` when it was rejected or not run.
    pub position: Option<u64>,
}

/// One read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// What it saw.
    pub seen: State,
    /// When it was about to begin, in nanoseconds since the history began.
    pub began_ns: u64,
    /// When it had returned.
    pub ended_ns: u64,
    /// For a durable read: how many commits were known to be durable after it had returned, by a
    /// witness other than the read itself.
    pub durable: Option<u64>,
}

/// What many threads did to one database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Every write that was submitted and whose outcome is known.
    pub writes: Vec<Write>,
    /// Every read.
    pub reads: Vec<Read>,
}
