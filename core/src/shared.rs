//! What all threads of a pipeline hold, and how transactions come in.

use std::{sync::Arc, task::Waker, time::Duration};

use crate::{
    Engine,
    admission::Limits,
    admit::{Admit, Door, Line},
    cell::{Body, Cell, Decision, Entry, Waits},
    clock::Clock,
    fate::{Decided, Fate},
    outcome::NotRun,
    park,
    pipeline::Terms,
    pool::Spawn,
    state::{Committed, Role, State},
    stats::Recorder,
    sync::{Mutex, lock, thread_local},
    ticket::Ticket,
};

pub(crate) struct Shared<E: Engine> {
    pub(crate) state: Mutex<State<E>>,
    pub(crate) limits: Limits,
    /// How long a group's execution takes members in.
    pub(crate) execute_ns_max: u64,
    /// Locked by the holder of the execute role.
    pub(crate) engine: Mutex<E>,
    pub(crate) flusher: E::Flusher,
    pub(crate) recorder: Recorder,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spawn: Arc<dyn Spawn>,
}

thread_local! {
    /// The pipeline whose engine this thread is executing a group in, by address.
    pub(crate) static EXECUTING: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl<E: Engine> Shared<E> {
    pub(crate) fn entry<F>(&self, body: Body<E>, terms: Terms) -> Entry<E> {
        let submitted_ns = self.clock.now_ns();
        let deadline_ns = terms.deadline.map(|deadline| {
            submitted_ns.saturating_add(u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX))
        });
        let bytes = terms.bytes.saturating_add(size_of::<F>()).min(self.limits.bytes);
        let is_large = terms.bytes > 0;
        Entry { body, bytes, is_large, submitted_ns, deadline_ns }
    }

    /// Queues the entry if it can be admitted now.
    pub(crate) fn offer(self: &Arc<Self>, entry: Entry<E>) -> Result<(), (Entry<E>, NotRun)> {
        let mut state = lock(&self.state);
        if let Err(reason) = state.admit(entry.bytes) {
            return Err((entry, reason));
        }
        let schedule = state.push(entry);
        drop(state);
        self.schedule_execute(schedule);
        Ok(())
    }

    /// As [`Self::offer`], but on an idle pipeline the caller executes and flushes at once.
    pub(crate) fn lead_or_offer(
        self: &Arc<Self>,
        entry: Entry<E>,
    ) -> Result<(), (Entry<E>, NotRun)> {
        let mut state = lock(&self.state);
        if let Err(reason) = state.admit(entry.bytes) {
            return Err((entry, reason));
        }
        if !state.is_idle() {
            let schedule = state.push(entry);
            drop(state);
            self.schedule_execute(schedule);
            return Ok(());
        }
        state.execute_role = Role::Running;
        drop(state);
        self.lead(entry);
        Ok(())
    }

    /// Waits, blocking, for admission of an entry that was refused for `reason`.
    pub(crate) fn insist(self: &Arc<Self>, entry: Entry<E>, reason: NotRun) {
        if !matches!(reason, NotRun::Overloaded) {
            return self.refuse(&entry, reason);
        }
        if self.is_executing_here() {
            return self.refuse(&entry, NotRun::Reentrant);
        }
        let admit = Admit::new(&**self, entry.bytes);
        let admitted = match entry.deadline_ns {
            None => park::block_on(admit),
            Some(deadline_ns) => {
                let left_ns = deadline_ns.saturating_sub(self.clock.now_ns());
                let until = std::time::Instant::now() + Duration::from_nanos(left_ns);
                park::block_on_until(admit, until).unwrap_or(Err(NotRun::DeadlinePassed))
            }
        };
        match admitted {
            Ok(()) => self.enqueue_admitted(entry),
            Err(reason) => self.refuse(&entry, reason),
        }
    }

    /// Settles an entry that never entered the queue.
    pub(crate) fn refuse(&self, entry: &Entry<E>, reason: NotRun) {
        entry.cell().decide(Decision::NotRun(reason));
        let fate = Arc::new(Fate::decided(Decided::Durable));
        let mut refused = Committed::new(fate.clone());
        let (outcome, waits) = entry.cell().seal(&fate, false);
        refused.count(outcome);
        refused.submitted_ns.push(entry.submitted_ns);
        self.recorder.resolved(&refused, &Decided::Durable, self.clock.now_ns());
        match waits {
            Waits::Nobody => {}
            Waits::Waker(waker) => waker.wake(),
            Waits::Callback => {
                if let Some(callback) = entry.cell().callback() {
                    self.spawn.spawn_callback(callback);
                }
            }
        }
    }

    pub(crate) fn enqueue_admitted(self: &Arc<Self>, entry: Entry<E>) {
        let schedule = lock(&self.state).push(entry);
        self.schedule_execute(schedule);
    }

    pub(crate) fn barrier<X: Send + 'static>(self: &Arc<Self>, force_flush: bool) -> Ticket<(), X> {
        let cell = Cell::<(), (), X>::barrier();
        let body = Body::Barrier { cell: cell.clone(), force_flush };
        let mut entry = self.entry::<()>(body, Terms::default());
        entry.bytes = 0;
        self.enqueue_admitted(entry);
        Ticket::of(cell)
    }

    pub(crate) fn stop_admission(&self) {
        let wakers = lock(&self.state).close();
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn is_executing_here(&self) -> bool {
        EXECUTING.with(std::cell::Cell::get) == std::ptr::from_ref(self).addr()
    }
}

impl<E: Engine> Door for Shared<E> {
    fn join_line(&self, bytes: usize, line: &Arc<Line>) -> Result<bool, NotRun> {
        let mut state = lock(&self.state);
        match state.admit(bytes) {
            Ok(()) => Ok(true),
            Err(NotRun::Overloaded) => {
                state.admission.wait(bytes, line.clone());
                Ok(false)
            }
            Err(reason) => Err(reason),
        }
    }

    fn leave_line(&self, bytes: usize, line: &Arc<Line>) {
        let wakers = {
            let mut state = lock(&self.state);
            state.admission.leave(|other| Arc::ptr_eq(other, line));
            // Admitted, but nobody is left to use the place.
            let (transactions, bytes) = if line.is_admitted() { (1, bytes) } else { (0, 0) };
            state.release(transactions, bytes)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}
