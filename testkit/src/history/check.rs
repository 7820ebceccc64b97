//! The checker: see the rules in the [parent module](super).

use std::collections::HashMap;

use super::{History, Read, State, Token, Write};

/// What no database that keeps its promises does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Two commits took one position.
    #[error("two commits took position {position}")]
    Twice {
        /// The position.
        position: u64,
    },
    /// A position that no commit took, below one that was taken.
    #[error("no commit took position {position}, but a later one was taken")]
    Hole {
        /// The position.
        position: u64,
    },
    /// A write was resolved before another was submitted, and yet comes after it.
    #[error("the write at {later} was resolved before the one at {earlier} was submitted")]
    OutOfOrder {
        /// The position of the one that was submitted last.
        earlier: u64,
        /// The position of the one that was resolved first.
        later: u64,
    },
    /// A read saw a token that no committed write put into that cell.
    #[error("a read saw token {token} in cell {cell}, which no commit put there: {read:?}")]
    Phantom {
        /// The read.
        read: Read,
        /// The cell.
        cell: usize,
        /// What was in it.
        token: Token,
    },
    /// No prefix of the commits holds what a read saw.
    #[error("no prefix of the commits holds what a read saw: {read:?}")]
    Torn {
        /// The read.
        read: Read,
    },
    /// A read missed a write that was resolved before it began.
    #[error("a read missed the write at {position}, resolved before it began: {read:?}")]
    Stale {
        /// The read.
        read: Read,
        /// The latest position that was resolved before.
        position: u64,
    },
    /// A read saw a write that was submitted after it had ended.
    #[error("a read saw the write at {position}, submitted after it had ended: {read:?}")]
    TimeTravel {
        /// The read.
        read: Read,
        /// The first position that was submitted after it.
        position: u64,
    },
    /// A read saw less than one that had ended before it began.
    #[error("a read saw less than the {position} commits of one that ended before: {read:?}")]
    Backwards {
        /// The read.
        read: Read,
        /// What the earlier one saw at least.
        position: u64,
    },
    /// A durable read saw a commit that was not durable when it had returned.
    #[error("a durable read saw {position} commits, of which {durable} were durable: {read:?}")]
    NotDurable {
        /// The read.
        read: Read,
        /// What it saw at least.
        position: u64,
        /// What was durable.
        durable: u64,
    },
}

/// A history that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// What the database holds after it.
    pub end: State,
    /// Commits in it.
    pub commits: u64,
    /// Reads that saw a state other than the one that was resolved when they began: those whose
    /// explanation took the order of the commits.
    pub reads_beside_commits: u64,
}

/// Checks a `history` that began with the database in state `start`.
///
/// The outcome of every write must be known: after a failed flush there is no such history.
///
/// # Errors
///
/// The first rule that is broken.
pub fn check(start: &State, history: &History) -> Result<Checked, Violation> {
    let commits = Commits::of(start, &history.writes)?;
    let reads_beside_commits = commits.check_reads(&history.reads)?;
    Ok(Checked { end: commits.end(), commits: commits.in_order.len() as u64, reads_beside_commits })
}

/// The committed writes, indexed.
struct Commits<'h> {
    start: &'h State,
    /// By position: the first is at `start.position + 1`.
    in_order: Vec<&'h Write>,
    by_token: HashMap<Token, u64>,
    /// Of each cell: the positions that wrote it, ascending, with what it held at first in front.
    of_cell: Vec<Vec<u64>>,
    /// `(time, position)`: what was resolved by then at least; both ascending.
    resolved: Vec<(u64, u64)>,
    /// `(time, position)`: the least position submitted at that time or later; both ascending.
    submitted: Vec<(u64, u64)>,
}

impl<'h> Commits<'h> {
    fn of(start: &'h State, writes: &'h [Write]) -> Result<Self, Violation> {
        let mut numbered: Vec<(u64, &Write)> =
            writes.iter().filter_map(|write| Some((write.position?, write))).collect();
        numbered.sort_by_key(|(position, _)| *position);
        for (expected, &(position, _)) in (start.position + 1..).zip(&numbered) {
            if position < expected {
                return Err(Violation::Twice { position });
            }
            if position > expected {
                return Err(Violation::Hole { position: expected });
            }
        }
        let mut earliest_end: Option<(u64, u64)> = None;
        for &(position, write) in numbered.iter().rev() {
            if let Some((ended_ns, later)) = earliest_end
                && ended_ns < write.began_ns
            {
                return Err(Violation::OutOfOrder { earlier: position, later });
            }
            if earliest_end.is_none_or(|(ended_ns, _)| write.ended_ns < ended_ns) {
                earliest_end = Some((write.ended_ns, position));
            }
        }
        let mut of_cell = vec![vec![start.position]; start.cells.len()];
        for &(position, write) in &numbered {
            for &cell in &write.cells {
                of_cell[usize::from(cell)].push(position);
            }
        }
        let mut resolved: Vec<(u64, u64)> =
            numbered.iter().map(|(position, write)| (write.ended_ns, *position)).collect();
        resolved.sort_unstable();
        let mut most = start.position;
        for (_, position) in &mut resolved {
            most = most.max(*position);
            *position = most;
        }
        let mut submitted: Vec<(u64, u64)> =
            numbered.iter().map(|(position, write)| (write.began_ns, *position)).collect();
        submitted.sort_unstable();
        let mut least = u64::MAX;
        for (_, position) in submitted.iter_mut().rev() {
            least = least.min(*position);
            *position = least;
        }
        Ok(Self {
            start,
            by_token: numbered.iter().map(|(position, write)| (write.token, *position)).collect(),
            in_order: numbered.into_iter().map(|(_, write)| write).collect(),
            of_cell,
            resolved,
            submitted,
        })
    }

    fn end(&self) -> State {
        let mut end = self.start.clone();
        end.position += self.in_order.len() as u64;
        for write in &self.in_order {
            for &cell in &write.cells {
                end.cells[usize::from(cell)] = write.token;
            }
        }
        end
    }

    /// The most that was certainly resolved before `at_ns`.
    fn resolved_before(&self, at_ns: u64) -> u64 {
        let index = self.resolved.partition_point(|(ended_ns, _)| *ended_ns < at_ns);
        index.checked_sub(1).map_or(self.start.position, |index| self.resolved[index].1)
    }

    /// The least position that was certainly submitted after `at_ns`.
    fn submitted_after(&self, at_ns: u64) -> Option<u64> {
        let index = self.submitted.partition_point(|(began_ns, _)| *began_ns <= at_ns);
        self.submitted.get(index).map(|(_, position)| *position)
    }

    /// The prefixes that hold what `read` saw: from the first to before the second.
    fn explained_by(&self, read: &Read) -> Result<(u64, u64), Violation> {
        let (mut least, mut beyond) = (read.seen.position, read.seen.position + 1);
        let newest = self.start.position + self.in_order.len() as u64;
        for (cell, &token) in read.seen.cells.iter().enumerate() {
            let phantom = || Violation::Phantom { read: read.clone(), cell, token };
            let writes = self.of_cell.get(cell).ok_or_else(phantom)?;
            let position = if token == self.start.cells[cell] {
                self.start.position
            } else {
                *self.by_token.get(&token).ok_or_else(phantom)?
            };
            let index = writes.binary_search(&position).map_err(|_| phantom())?;
            least = least.max(position);
            beyond = beyond.min(writes.get(index + 1).copied().unwrap_or(newest + 1));
        }
        if least >= beyond || least > newest || read.seen.cells.len() != self.start.cells.len() {
            return Err(Violation::Torn { read: read.clone() });
        }
        Ok((least, beyond))
    }

    fn check_reads(&self, reads: &[Read]) -> Result<u64, Violation> {
        let mut by_begin: Vec<usize> = (0..reads.len()).collect();
        by_begin.sort_by_key(|&index| reads[index].began_ns);
        let mut by_end: Vec<usize> = (0..reads.len()).collect();
        by_end.sort_by_key(|&index| reads[index].ended_ns);
        let mut by_end = by_end.into_iter().peekable();
        let mut prefix_of = vec![self.start.position; reads.len()];
        // What the reads saw that ended before the one at hand began.
        let mut seen_before = self.start.position;
        let mut beside_commits = 0;
        for index in by_begin {
            let read = &reads[index];
            // Whoever ended before began before, so its prefix is known.
            while let Some(ended) = by_end.next_if(|&ended| reads[ended].ended_ns < read.began_ns) {
                seen_before = seen_before.max(prefix_of[ended]);
            }
            let (least, beyond) = self.explained_by(read)?;
            let resolved = self.resolved_before(read.began_ns);
            if resolved >= beyond {
                return Err(Violation::Stale { read: read.clone(), position: resolved });
            }
            if seen_before >= beyond {
                return Err(Violation::Backwards { read: read.clone(), position: seen_before });
            }
            let prefix = least.max(resolved).max(seen_before);
            if let Some(position) = self.submitted_after(read.ended_ns)
                && prefix >= position
            {
                return Err(Violation::TimeTravel { read: read.clone(), position });
            }
            if let Some(durable) = read.durable
                && prefix > durable
            {
                let read = read.clone();
                return Err(Violation::NotDurable { read, position: prefix, durable });
            }
            beside_commits += u64::from(prefix != resolved);
            prefix_of[index] = prefix;
        }
        Ok(beside_commits)
    }
}
