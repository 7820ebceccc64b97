//! What a pipeline's threads share under one lock, and the rules by which it changes. No I/O and
//! no threads here; each method is one step.

use std::{collections::VecDeque, sync::Arc, task::Waker, time::Duration};

use crate::{
    Engine,
    admission::{Admission, Limits},
    admit::Line,
    cell::{Entry, Settle},
    clock::Clock,
    fate::Fate,
    formation::{GROUP_BYTES_MAX, GROUP_TRANSACTIONS_MAX, form_group, may_join},
    hold::{Formation, Hold},
    outcome::{Cause, NotRun, Outcome},
    pool::Task,
    returns::Returns,
    sync::Condvar,
};

/// A stage's work, held by one thread at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Idle,
    Scheduled,
    Running,
}

#[derive(Debug, Clone)]
pub(crate) enum Life {
    Open,
    Closed,
    Failed(Cause),
}

impl Life {
    fn refusal(&self) -> Option<NotRun> {
        match self {
            Self::Open => None,
            Self::Closed => Some(NotRun::Closed),
            Self::Failed(cause) => Some(NotRun::Failed(cause.clone())),
        }
    }
}

/// A group after its execution, on its way to the flush. Its cells belong to their tickets alone.
pub(crate) struct Committed {
    pub(crate) fate: Arc<Fate>,
    pub(crate) needs_flush: bool,
    /// How long its execution took.
    pub(crate) execute_ns: u64,
    /// The engine could not say whether it committed.
    pub(crate) failed: Option<Cause>,
    /// How many transactions came to which outcome, if the flush is good; by `Outcome`.
    pub(crate) outcomes: [u64; 4],
    /// When each transaction was submitted.
    pub(crate) submitted_ns: Vec<u64>,
    /// What leaves admission when the group is resolved.
    pub(crate) transactions: usize,
    pub(crate) bytes: usize,
    /// Those with callbacks, and the places that they keep until these have returned.
    pub(crate) callbacks: Vec<(Arc<dyn Settle>, Place)>,
}

impl Committed {
    pub(crate) fn new(fate: Arc<Fate>) -> Self {
        Self {
            fate,
            needs_flush: false,
            execute_ns: 0,
            failed: None,
            outcomes: [0; 4],
            submitted_ns: Vec::new(),
            transactions: 0,
            bytes: 0,
            callbacks: Vec::new(),
        }
    }

    pub(crate) fn count(&mut self, outcome: Outcome) {
        self.outcomes[outcome as usize] += 1;
    }
}

/// What is admitted: transactions and bytes.
pub(crate) type Place = (usize, usize);

/// A callback that is due.
pub(crate) struct Call {
    pub(crate) callback: Task,
    /// What it gives back when it has returned.
    pub(crate) place: Place,
}

/// What the holder of the execute role does after a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// More waits: execute it; somebody else must flush, if `schedule_flush`.
    ExecuteMore { schedule_flush: bool },
    /// Nothing waits and nothing is being flushed: flush on this thread, without a hand-over.
    Flush,
    /// Nothing waits, and the flush under way will be followed by one for this group.
    Rest,
}

pub(crate) struct State<E: Engine> {
    pub(crate) queue: VecDeque<Entry<E>>,
    /// Bytes of all that is queued.
    queued_bytes: usize,
    /// Exclusives among all that is queued.
    queued_exclusives: usize,
    pub(crate) committed: VecDeque<Committed>,
    pub(crate) callbacks: VecDeque<Call>,
    pub(crate) admission: Admission<Arc<Line>>,
    pub(crate) execute_role: Role,
    pub(crate) flush_role: Role,
    pub(crate) callback_role: Role,
    pub(crate) life: Life,
    /// Why the last flush failed, after which no other is tried.
    pub(crate) flush_failed: Option<Cause>,
    pub(crate) engine_closed: bool,
    /// Whether the next flush waits for those whom the last one answered.
    pub(crate) returns: Returns,
    /// The holder of the flush role waits so.
    pub(crate) flush_waits: bool,
    /// An empty queue, kept for its memory.
    spare: VecDeque<Entry<E>>,
    formation: Formation,
    /// In experiments alone.
    hold: Option<Hold>,
}

impl<E: Engine> State<E> {
    pub(crate) fn new(limits: Limits, formation: Formation) -> Self {
        Self {
            queue: VecDeque::new(),
            queued_bytes: 0,
            queued_exclusives: 0,
            committed: VecDeque::new(),
            callbacks: VecDeque::new(),
            admission: Admission::new(limits),
            execute_role: Role::Idle,
            flush_role: Role::Idle,
            callback_role: Role::Idle,
            life: Life::Open,
            flush_failed: None,
            engine_closed: false,
            returns: Returns::default(),
            flush_waits: false,
            spare: VecDeque::new(),
            formation,
            hold: Hold::new(formation),
        }
    }

    /// Whether a blocking caller may lead.
    pub(crate) fn is_idle(&self) -> bool {
        self.hold.is_none()
            && self.execute_role == Role::Idle
            && self.flush_role == Role::Idle
            && self.queue.is_empty()
            && self.committed.is_empty()
    }

    /// Why nothing is admitted any more, if that is so.
    pub(crate) fn refusal(&self) -> Option<NotRun> {
        self.life.refusal()
    }

    pub(crate) fn admit(&mut self, bytes: usize) -> Result<(), NotRun> {
        match self.refusal() {
            Some(reason) => Err(reason),
            None if self.admission.try_admit(bytes) => Ok(()),
            None => Err(NotRun::Overloaded),
        }
    }

    /// Gives places back; returns those to wake whom that lets in.
    #[must_use]
    pub(crate) fn release(&mut self, transactions: usize, bytes: usize) -> Vec<Waker> {
        let admitted = self.admission.release(transactions, bytes);
        admitted.iter().filter_map(|line| line.admit()).collect()
    }

    /// Queues an entry; `true` when the caller must schedule the execute role.
    #[must_use]
    pub(crate) fn push(&mut self, entry: Entry<E>) -> bool {
        self.account(&entry);
        if entry.is_transaction() {
            self.returns.submitted(entry.submitted_ns);
        }
        self.queue.push_back(entry);
        if let Some(hold) = &self.hold {
            hold.arrived(&self.queue);
        }
        let schedule = self.execute_role == Role::Idle;
        if schedule {
            self.execute_role = Role::Scheduled;
        }
        schedule
    }

    /// How long the next group is held open yet, and where to wait: never, but in experiments.
    pub(crate) fn held_open(&self, clock: &dyn Clock) -> Option<(Arc<Condvar>, Duration)> {
        let hold = self.hold.as_ref()?;
        matches!(self.life, Life::Open).then(|| hold.left(&self.queue, clock)).flatten()
    }

    /// The next group, for the holder of the execute role, who loses the role when there is none.
    pub(crate) fn take_group(&mut self) -> Option<VecDeque<Entry<E>>> {
        if self.queue.is_empty() {
            self.execute_role = Role::Idle;
            return None;
        }
        self.execute_role = Role::Running;
        let mut group = std::mem::take(&mut self.spare);
        // The common case is decided by the account alone, without looking at every entry.
        let everything = self.queued_exclusives == 0
            && self.queued_bytes <= GROUP_BYTES_MAX
            && self.queue.len() <= self.formation.transactions_max();
        if everything {
            std::mem::swap(&mut group, &mut self.queue);
            self.queued_bytes = 0;
        } else {
            let waiting = self.queue.iter().map(Entry::waiting);
            let count = form_group(waiting, self.formation.transactions_max());
            for entry in self.queue.drain(..count) {
                self.queued_bytes -= entry.bytes;
                self.queued_exclusives -= usize::from(entry.is_exclusive());
                group.push_back(entry);
            }
        }
        Some(group)
    }

    /// Moves what waits into a group that is being executed, in order, as far as it may still grow;
    /// `bytes` are those of the group.
    pub(crate) fn join(&mut self, group: &mut VecDeque<Entry<E>>, bytes: &mut usize) {
        if self.hold.is_some() || matches!(self.life, Life::Failed(_)) {
            return;
        }
        let room = self.formation.transactions_max().saturating_sub(group.len());
        for _ in 0..room {
            let Some(next) = self.queue.front().filter(|next| may_join(next.waiting(), *bytes))
            else {
                return;
            };
            self.queued_bytes -= next.bytes;
            *bytes += next.bytes;
            group.extend(self.queue.pop_front());
        }
    }

    fn account(&mut self, entry: &Entry<E>) {
        self.queued_bytes += entry.bytes;
        self.queued_exclusives += usize::from(entry.is_exclusive());
    }

    /// Takes over a group that was executed; `leftover` are the entries it had no time for, and
    /// `emptied` is what held the others.
    pub(crate) fn hand_on(
        &mut self,
        committed: Committed,
        leftover: VecDeque<Entry<E>>,
        emptied: VecDeque<Entry<E>>,
    ) {
        for entry in leftover.into_iter().rev() {
            self.account(&entry);
            self.queue.push_front(entry);
        }
        if emptied.capacity() <= 2 * GROUP_TRANSACTIONS_MAX {
            self.spare = emptied;
        }
        self.committed.push_back(committed);
    }

    /// Who does what now, after [`Self::hand_on`].
    pub(crate) fn after_group(&mut self) -> Next {
        let flush_idle = self.flush_role == Role::Idle;
        if !self.queue.is_empty() {
            if flush_idle {
                self.flush_role = Role::Scheduled;
            }
            return Next::ExecuteMore { schedule_flush: flush_idle };
        }
        self.execute_role = Role::Idle;
        if flush_idle {
            self.flush_role = Role::Running;
            Next::Flush
        } else {
            Next::Rest
        }
    }

    /// How much longer the flush of what is committed waits at most for those whom the last one
    /// answered.
    pub(crate) fn flush_wait(&self, clock: &dyn Clock) -> Option<Duration> {
        let may_wait = self.hold.is_none()
            && matches!(self.life, Life::Open)
            && self.committed.iter().any(|group| group.needs_flush);
        let executing = self.execute_role != Role::Idle;
        let executed_ns = self.committed.iter().map(|group| group.execute_ns).sum();
        may_wait.then(|| self.returns.wait(clock.now_ns(), executing, executed_ns)).flatten()
    }

    /// Everything committed, for the holder of the flush role, who loses the role when there is
    /// nothing.
    pub(crate) fn take_committed(&mut self) -> Option<VecDeque<Committed>> {
        if self.committed.is_empty() {
            self.flush_role = Role::Idle;
            return None;
        }
        self.flush_role = Role::Running;
        Some(std::mem::take(&mut self.committed))
    }

    /// Ends admission; returns those to wake who waited for it.
    #[must_use]
    pub(crate) fn close(&mut self) -> Vec<Waker> {
        if matches!(self.life, Life::Open) {
            self.life = Life::Closed;
        }
        self.turn_away(&NotRun::Closed)
    }

    /// Refuses everything from now on; returns those to wake who waited for admission.
    #[must_use]
    pub(crate) fn fail(&mut self, cause: &Cause) -> Vec<Waker> {
        if !matches!(self.life, Life::Failed(_)) {
            self.life = Life::Failed(cause.clone());
        }
        self.turn_away(&NotRun::Failed(cause.clone()))
    }

    fn turn_away(&mut self, reason: &NotRun) -> Vec<Waker> {
        let line = self.admission.turn_away();
        line.iter().filter_map(|line| line.refuse(reason.clone())).collect()
    }
}
