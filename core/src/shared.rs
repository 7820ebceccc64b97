//! What all threads of a pipeline hold, and how transactions come in.

use std::{cell::RefCell, sync::Arc, time::Duration};

use crate::{
    Engine,
    admission::Limits,
    admit::{Admit, Door, Line},
    cell::{Body, Cell, Decision, Entry, Waits},
    clock::Clock,
    fate::{Decided, Fate},
    outcome::NotRun,
    park,
    pool::Spawn,
    quiet,
    state::{Call, Committed, Role, State},
    stats::Recorder,
    sync::{Condvar, Mutex, lock, thread_local},
    terms::Terms,
    ticket::Ticket,
};

pub(crate) struct Shared<E: Engine> {
    pub(crate) state: Mutex<State<E>>,
    pub(crate) limits: Limits,
    /// How long a group's execution takes members in.
    pub(crate) execute_ns_max: u64,
    /// So that a group takes in what arrives meanwhile.
    pub(crate) commit_waits: bool,
    /// Locked by the holder of the execute role.
    pub(crate) engine: Mutex<E>,
    pub(crate) flusher: E::Flusher,
    /// Where the holder of the flush role waits until nothing executes.
    pub(crate) executed: Condvar,
    pub(crate) recorder: Recorder,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spawn: Arc<dyn Spawn>,
}

thread_local! {
    /// The pipelines, by address, in whose engines this thread is executing a group: more than one
    /// when a transaction of one leads in another.
    static EXECUTING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };

    /// The pipeline, by address, that this thread is calling back from.
    static CALLING_BACK: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Calls `callback` of the pipeline at `address`.
pub(crate) fn calling_back<R>(address: usize, callback: impl FnOnce() -> R) -> R {
    CALLING_BACK.with(|pipeline| pipeline.set(address));
    let result = callback();
    CALLING_BACK.with(|pipeline| pipeline.set(0));
    result
}

/// Calls `execute`, during which this thread counts as executing in the pipeline at `address`.
pub(crate) fn executing<R>(address: usize, execute: impl FnOnce() -> R) -> R {
    EXECUTING.with(|executing| executing.borrow_mut().push(address));
    let result = execute();
    EXECUTING.with(|executing| executing.borrow_mut().pop());
    result
}

/// Whether this thread is executing a group of the pipeline at `address`.
pub(crate) fn is_executing(address: usize) -> bool {
    EXECUTING.with(|executing| executing.borrow().contains(&address))
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
        state.returns.submitted(entry.submitted_ns);
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
        if CALLING_BACK.with(std::cell::Cell::get) == self.address() {
            // The places that it would wait for may be its own, or those of callbacks behind it.
            return self.refuse(&entry, reason);
        }
        let admit = Admit::new(&**self, entry.bytes);
        let admitted = match entry.deadline_ns {
            None => park::block_on(admit),
            Some(deadline_ns) => {
                let left = || Duration::from_nanos(deadline_ns.saturating_sub(self.clock.now_ns()));
                park::block_on_until(admit, left).unwrap_or(Err(NotRun::DeadlinePassed))
            }
        };
        match admitted {
            Ok(()) => self.enqueue_admitted(entry),
            Err(reason) => self.refuse(&entry, reason),
        }
    }

    /// Settles an entry that never entered the queue.
    pub(crate) fn refuse(self: &Arc<Self>, entry: &Entry<E>, reason: NotRun) {
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
                let call = entry.cell().callback().map(|callback| Call { callback, place: (0, 0) });
                self.schedule_callbacks(call.into_iter().collect());
            }
        }
    }

    /// Queues an entry whose place was granted while it stood in the line. Admission may have ended
    /// since, and then nothing may enter any more: the engine may be closed already.
    pub(crate) fn enqueue_admitted(self: &Arc<Self>, entry: Entry<E>) {
        let mut state = lock(&self.state);
        let Some(reason) = state.refusal() else {
            let schedule = state.push(entry);
            drop(state);
            return self.schedule_execute(schedule);
        };
        let wakers = state.release(1, entry.bytes);
        drop(state);
        quiet::wake(wakers);
        self.refuse(&entry, reason);
    }

    pub(crate) fn barrier<X: Send + 'static>(self: &Arc<Self>, force_flush: bool) -> Ticket<(), X> {
        let cell = Cell::<(), (), X>::barrier();
        let body = Body::Barrier { cell: cell.clone(), force_flush };
        let mut entry = self.entry::<()>(body, Terms::default());
        entry.bytes = 0;
        let schedule = lock(&self.state).push(entry);
        self.schedule_execute(schedule);
        self.ticket(cell)
    }

    pub(crate) fn stop_admission(&self) {
        let wakers = lock(&self.state).close();
        quiet::wake(wakers);
    }

    pub(crate) fn is_executing_here(&self) -> bool {
        is_executing(self.address())
    }

    /// Tells pipelines apart for as long as they exist.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(crate) fn ticket<F, T, X>(&self, cell: Arc<Cell<F, T, X>>) -> Ticket<T, X>
    where
        F: Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        Ticket::of(cell, self.address())
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
        quiet::wake(wakers);
    }
}
