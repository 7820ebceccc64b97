//! What all threads of a pipeline hold, and how transactions come in.

use std::{sync::Arc, time::Duration};

use crate::{
    Engine,
    admission::Limits,
    admit::{Admit, Door, Line},
    cell::{Body, Callback, Cell, Decision, Entry, Waits},
    clock::Clock,
    fate::{Decided, Fate},
    outcome::{Failure, NotRun},
    park,
    pool::Spawn,
    quiet,
    state::{Call, Committed, Role, State},
    stats::Recorder,
    sync::{Condvar, Mutex, lock, mpsc},
    terms::Terms,
    ticket::Ticket,
    tokens::Tokens,
    waits,
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
    #[cfg(feature = "experiments")]
    pub(crate) flush_delay: Duration,
    /// Where the holder of the flush role waits until nothing executes.
    pub(crate) executed: Condvar,
    pub(crate) recorder: Recorder,
    pub(crate) tokens: Tokens,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spawn: Arc<dyn Spawn>,
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

    /// Queues entries as far as they can be admitted now; returns the first that cannot, and why.
    pub(crate) fn offer(
        self: &Arc<Self>,
        entries: &mut impl Iterator<Item = Entry<E>>,
    ) -> Option<(Entry<E>, NotRun)> {
        let mut state = lock(&self.state);
        let mut schedule = false;
        let refused = entries.find_map(|entry| match state.admit(entry.bytes) {
            Ok(()) => {
                schedule |= state.push(entry);
                None
            }
            Err(reason) => Some((entry, reason)),
        });
        drop(state);
        self.schedule_execute(schedule);
        refused
    }

    /// Queues entries, and waits, blocking, for the admission of those for which there is no room.
    pub(crate) fn submit(self: &Arc<Self>, entries: impl IntoIterator<Item = Entry<E>>) {
        let mut entries = entries.into_iter();
        while let Some((entry, reason)) = self.offer(&mut entries) {
            self.insist(entry, reason);
        }
    }

    /// As [`Self::submit`], without blocking.
    pub(crate) async fn submit_async(
        self: &Arc<Self>,
        entries: impl IntoIterator<Item = Entry<E>>,
    ) {
        let mut entries = entries.into_iter();
        while let Some((entry, mut reason)) = self.offer(&mut entries) {
            if matches!(reason, NotRun::Overloaded) {
                match Admit::new(&**self, entry.bytes).await {
                    Ok(()) => {
                        self.enqueue_admitted(entry);
                        continue;
                    }
                    Err(refusal) => reason = refusal,
                }
            }
            self.refuse(&entry, reason);
        }
    }

    /// Executes and flushes an entry on this thread if the pipeline is idle; else gives it back.
    pub(crate) fn lead_if_idle(self: &Arc<Self>, entry: Entry<E>) -> Option<Entry<E>> {
        let mut state = lock(&self.state);
        if !state.is_idle() || state.admit(entry.bytes).is_err() {
            return Some(entry);
        }
        state.execute_role = Role::Running;
        state.returns.submitted(entry.submitted_ns);
        drop(state);
        self.lead(entry);
        None
    }

    /// As [`Self::submit`], of one entry.
    pub(crate) fn submit_one(self: &Arc<Self>, entry: Entry<E>) {
        let mut state = lock(&self.state);
        if let Err(reason) = state.admit(entry.bytes) {
            drop(state);
            return self.insist(entry, reason);
        }
        let schedule = state.push(entry);
        drop(state);
        self.schedule_execute(schedule);
    }

    /// Waits, blocking, for admission of an entry that was refused for `reason`.
    fn insist(self: &Arc<Self>, entry: Entry<E>, reason: NotRun) {
        if !matches!(reason, NotRun::Overloaded) {
            return self.refuse(&entry, reason);
        }
        let Some(_waiting) = waits::begin(self.address(), || None) else {
            return self.refuse(&entry, NotRun::Reentrant);
        };
        if waits::called_back_from() == Some(self.address()) {
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
    fn refuse(self: &Arc<Self>, entry: &Entry<E>, reason: NotRun) {
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
    fn enqueue_admitted(self: &Arc<Self>, entry: Entry<E>) {
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

    /// Blocks until everything queued before is resolved.
    pub(crate) fn drain<X: Send + 'static>(
        self: &Arc<Self>,
        force_flush: bool,
    ) -> Result<(), Failure<X>> {
        self.check_wait()?;
        let cell = Cell::<(), (), X>::barrier(None);
        self.push_barrier(cell.clone(), force_flush);
        self.ticket(cell).wait()
    }

    /// As [`Self::drain`], and until the callbacks have returned: called behind them, it says so by a
    /// callback of its own.
    pub(crate) fn drain_callbacks<X: Send + 'static>(self: &Arc<Self>) -> Result<(), Failure<X>> {
        let Some(_waiting) = waits::begin(self.address(), || None) else {
            return Err(NotRun::Reentrant.into());
        };
        let (sender, drained) = mpsc::channel();
        let callback: Callback<(), X> = Box::new(move |result| {
            let _nobody_waits = sender.send(result);
        });
        self.push_barrier(Cell::<(), (), X>::barrier(Some(callback)), false);
        park::while_blocked(|| drained.recv()).unwrap_or(Err(NotRun::Closed.into()))
    }

    fn push_barrier<X: Send + 'static>(
        self: &Arc<Self>,
        cell: Arc<Cell<(), (), X>>,
        force_flush: bool,
    ) {
        let mut entry = self.entry::<()>(Body::Barrier { cell, force_flush }, Terms::new());
        entry.bytes = 0;
        let schedule = lock(&self.state).push(entry);
        self.schedule_execute(schedule);
    }

    pub(crate) fn stop_admission(&self) {
        let wakers = lock(&self.state).close();
        quiet::wake(wakers);
    }

    /// Why this thread may not block on the pipeline, if so.
    pub(crate) fn check_wait(&self) -> Result<(), NotRun> {
        if waits::is_endless(self.address()) { Err(NotRun::Reentrant) } else { Ok(()) }
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
