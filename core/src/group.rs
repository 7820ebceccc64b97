//! The group as an engine sees it.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    Engine,
    cell::{Body, Decision, Entry, Ran},
    clock::Clock,
    outcome::{Cause, NotRun},
    shared::Shared,
    sync::lock,
};

/// The transactions that one call of [`Engine::execute`] is given.
///
/// An engine pulls members with [`Group::next_member`] and runs each with [`Group::run`]. A member that
/// was run and neither rejected nor refused here counts as committed when `execute` returns.
pub struct Group<E: Engine> {
    pub(crate) entries: VecDeque<Entry<E>>,
    pub(crate) taken: usize,
    pub(crate) started_ns: u64,
    pub(crate) reruns: u64,
    clock: Arc<dyn Clock>,
    execute_ns_max: u64,
    pace: Pace,
    /// Where those wait who may still join; `None` when nobody may.
    open_to: Option<Arc<Shared<E>>>,
    /// Of all members, where others may join.
    bytes: usize,
}

/// Watches a group's time without reading the clock for every member: while members are quick it
/// looks at every 2nd, 4th, ... 16th of them, and as soon as they are not, at each.
#[derive(Debug, Default)]
struct Pace {
    looked_ns: u64,
    next_look: usize,
    stride: usize,
}

impl Pace {
    const QUICK_NS: u64 = 20_000;
    const STRIDE_MAX: usize = 16;

    /// For how long the group has run, if it is time to look.
    fn look(&mut self, member: usize, started_ns: u64, clock: &dyn Clock) -> Option<u64> {
        if member < self.next_look {
            return None;
        }
        let now_ns = clock.now_ns();
        let since_look_ns = now_ns.saturating_sub(self.looked_ns.max(started_ns));
        self.stride = if since_look_ns < Self::QUICK_NS * self.stride.max(1) as u64 {
            (self.stride * 2).clamp(1, Self::STRIDE_MAX)
        } else {
            1
        };
        self.looked_ns = now_ns;
        self.next_look = member + self.stride;
        Some(now_ns.saturating_sub(started_ns))
    }
}

impl<E: Engine> std::fmt::Debug for Group<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group")
            .field("members", &self.entries.len())
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

impl<E: Engine> Group<E> {
    /// A group of `entries` alone.
    pub(crate) fn new(
        entries: VecDeque<Entry<E>>,
        clock: Arc<dyn Clock>,
        execute_ns_max: u64,
    ) -> Self {
        let (started_ns, pace) = (clock.now_ns(), Pace::default());
        Self {
            entries,
            taken: 0,
            started_ns,
            reruns: 0,
            clock,
            execute_ns_max,
            pace,
            open_to: None,
            bytes: 0,
        }
    }

    /// As it was, and open to what arrives in the queue of `shared` while it is executed.
    pub(crate) fn open_to(mut self, shared: &Arc<Shared<E>>) -> Self {
        self.open_to = Some(shared.clone());
        self.bytes = self.entries.iter().map(|entry| entry.bytes).sum();
        self
    }

    fn is_exhausted(&mut self, member: usize) -> bool {
        let ran_ns = self.pace.look(member, self.started_ns, &*self.clock);
        ran_ns.is_some_and(|ran_ns| ran_ns > self.execute_ns_max)
    }

    /// The next member to run, in submission order: its number in the group.
    ///
    /// Members whose deadline has passed are skipped; one that was cancelled comes to
    /// [`Ran::NotCalled`] when it is run. `None` when there are no more, or when the group has run
    /// long enough; the rest then goes into the next group.
    pub fn next_member(&mut self) -> Option<usize> {
        while self.taken < self.entries.len() || self.take_in() {
            let index = self.taken;
            if index > 0 && self.is_exhausted(index) {
                return None;
            }
            self.taken += 1;
            if self.passed_deadline(index) {
                self.refuse(index, NotRun::DeadlinePassed);
            } else if matches!(self.entries[index].body, Body::Member(_)) {
                return Some(index);
            }
        }
        None
    }

    /// Takes in what has arrived meanwhile; `false` when nothing has, or nobody may join.
    fn take_in(&mut self) -> bool {
        let before = self.entries.len();
        if let Some(shared) = &self.open_to {
            lock(&shared.state).join(&mut self.entries, &mut self.bytes);
        }
        self.entries.len() > before
    }

    /// Runs, or runs again, the closure of a member in `tx`. A panic is caught.
    pub fn run(&mut self, member: usize, tx: &mut E::Transaction<'_>) -> Ran {
        self.entries[member].run(tx)
    }

    /// Runs a member again, because the engine rolled back what it had done before.
    pub fn rerun(&mut self, member: usize, tx: &mut E::Transaction<'_>) -> Ran {
        self.reruns += 1;
        self.run(member, tx)
    }

    /// Gives back `member` and all that were pulled after it: unless they are pulled again they go
    /// into the next group, whatever their closures came to here. For an engine that can commit only
    /// the first part of what it pulled.
    ///
    /// REQUIRES of the engine: nothing of these is in the database.
    pub fn give_back(&mut self, member: usize) {
        self.taken = self.taken.min(member);
    }

    /// When the member was submitted, in nanoseconds of the pipeline's clock.
    #[must_use]
    pub fn submitted_ns(&self, member: usize) -> u64 {
        self.entries[member].submitted_ns
    }

    /// When the member must be stopped, in nanoseconds of the pipeline's clock.
    #[must_use]
    pub fn deadline_ns(&self, member: usize) -> Option<u64> {
        self.entries[member].deadline_ns
    }

    /// Whether the member's deadline has passed.
    #[must_use]
    pub fn passed_deadline(&self, member: usize) -> bool {
        self.entries[member]
            .deadline_ns
            .is_some_and(|deadline_ns| self.clock.now_ns() >= deadline_ns)
    }

    /// The engine rolled the member back, whatever its closure returned.
    pub fn reject(&mut self, member: usize, cause: Cause) {
        self.entries[member].cell().decide(Decision::Reject(cause));
    }

    /// The member has no effect and never will, for this reason.
    pub fn refuse(&mut self, member: usize, reason: NotRun) {
        self.entries[member].cell().decide(Decision::NotRun(reason));
    }
}
