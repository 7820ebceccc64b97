//! What follows an attempt at a transaction that could not be committed.
//!
//! A transaction of several members is attempted again with fewer of them: the obstacle may be one
//! of the others, and what is smaller is less in the way. One of a single member is given up after
//! some attempts.

use crate::Sizes;

/// Attempts at a member alone that the server asks to be run again.
const CONFLICTS_MAX: u32 = 30;

/// The same where each attempt waits for a lock, for as long as the server is set to.
const LOCK_WAITS_MAX: u32 = 2;

/// Commits of a member alone that the server refuses.
const REFUSED_MAX: u32 = 2;

/// Connections lost, while no commit was in doubt, before members are run alone, and then at each of
/// them: it may be one of them that brings the server down.
const LOST_MAX: u32 = 3;

/// Pauses between attempts do not grow any more after so many.
const PAUSES_GROW_MAX: u32 = 4;

/// Why an attempt did not come to a commit, for no fault of a single member's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// Another writer was in the way: the server asks for the transaction to be run again.
    Conflict,
    /// The same, after a wait for a lock that was as long as the server allows.
    LockWait,
    /// The server refused the commit.
    Refused,
    /// The connection was lost, or what was prepared on it; no commit was in doubt.
    Lost,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another attempt, with at most so many members.
    Attempt(usize),
    /// Another attempt at the single member, after the pause that follows so many attempts.
    Pause(u32),
    /// The single member cannot be committed.
    GiveUp,
}

/// What was in the way of one transaction so far.
#[derive(Debug, Default)]
pub struct Trials {
    conflicts: u32,
    lock_waits: u32,
    refused: u32,
    lost: u32,
}

impl Trials {
    /// What follows an attempt of so many `members`, of which there might have been `size`.
    pub fn after(
        &mut self,
        obstacle: Obstacle,
        members: usize,
        size: usize,
        sizes: &mut Sizes,
    ) -> Next {
        let is_alone = members <= 1;
        let half = (members / 2).max(1);
        match obstacle {
            Obstacle::Conflict | Obstacle::LockWait => {
                sizes.conflict(members);
                if !is_alone {
                    *self = Self::default();
                    return Next::Attempt(size.min(sizes.now()).min(half));
                }
                self.conflicts += 1;
                self.lock_waits += u32::from(obstacle == Obstacle::LockWait);
                if self.conflicts >= CONFLICTS_MAX || self.lock_waits >= LOCK_WAITS_MAX {
                    return Next::GiveUp;
                }
                Next::Pause(self.conflicts.min(PAUSES_GROW_MAX))
            }
            Obstacle::Refused if !is_alone => Next::Attempt(size.min(half)),
            Obstacle::Refused => {
                self.refused += 1;
                if self.refused >= REFUSED_MAX { Next::GiveUp } else { Next::Attempt(1) }
            }
            Obstacle::Lost => {
                self.lost += 1;
                match (self.lost >= LOST_MAX, is_alone) {
                    (false, _) => Next::Attempt(size),
                    (true, true) => Next::GiveUp,
                    (true, false) => {
                        *self = Self::default();
                        Next::Attempt(1)
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attempts that all meet the same obstacle: their sizes, up to the end.
    fn attempts(obstacle: Obstacle, mut members: usize) -> (Vec<usize>, Trials) {
        let (mut trials, mut sizes) = (Trials::default(), Sizes::new(1));
        let mut attempts = vec![members];
        while attempts.len() < 100 {
            match trials.after(obstacle, members, members, &mut sizes) {
                Next::Attempt(size) => members = members.min(size),
                Next::Pause(_) => {}
                Next::GiveUp => return (attempts, trials),
            }
            attempts.push(members);
        }
        panic!("never given up: {attempts:?}")
    }

    #[test]
    fn conflicts_make_it_smaller_and_a_single_one_is_given_up_in_the_end() {
        let (sizes, _) = attempts(Obstacle::Conflict, 20);
        assert_eq!(sizes[..5], [20, 10, 5, 2, 1]);
        assert_eq!(sizes.len(), 4 + CONFLICTS_MAX as usize);
        let (sizes, _) = attempts(Obstacle::LockWait, 3);
        assert_eq!(sizes, [3, 1, 1]);
    }

    #[test]
    fn a_commit_that_is_refused_is_halved_down_to_the_one_to_blame() {
        let (sizes, _) = attempts(Obstacle::Refused, 9);
        assert_eq!(sizes, [9, 4, 2, 1, 1]);
    }

    #[test]
    fn a_connection_that_is_lost_again_and_again_makes_members_run_alone() {
        let (sizes, _) = attempts(Obstacle::Lost, 1_000);
        assert_eq!(sizes, [1_000, 1_000, 1_000, 1, 1, 1]);
    }

    #[test]
    fn pauses_are_for_single_ones_alone_and_grow_no_further_than_they_should() {
        let (mut trials, mut sizes) = (Trials::default(), Sizes::new(1));
        let pauses: Vec<Next> =
            (0..6).map(|_| trials.after(Obstacle::Conflict, 1, 1, &mut sizes)).collect();
        assert_eq!(pauses, [1, 2, 3, 4, 4, 4].map(Next::Pause));
        assert!(matches!(trials.after(Obstacle::Conflict, 2, 2, &mut sizes), Next::Attempt(1)));
    }
}
