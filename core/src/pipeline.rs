//! The pipeline: admission, execute, flush, resolve.
//!
//! ```text
//! submit ──► admission ──► queue ──► execute role ──► committed ──► flush role ──► tickets
//! ```
//!
//! Two *roles* do the work, each held by at most one thread at a time: the execute role takes a
//! group from the queue and runs it in the engine; the flush role flushes everything committed and
//! resolves it. A role is picked up by a thread of the pool, or by a blocking caller that finds
//! the pipeline idle and so leads on its own thread. Whoever executed the last group of a burst
//! flushes it too, without handing over.
//!
//! Invariants:
//! 1. A group enters `committed` after its commit returned, and leaves it before the flush that
//!    covers it begins: a flush covers all that it takes (promise 1).
//! 2. The queue and `committed` are first in, first out, and only the role's holder takes from
//!    them; the flush role settles what it took, in order, before it takes more (promise 2).
//! 3. A role is `Scheduled` or `Running` whenever there is work for it: whoever adds work to an
//!    idle role schedules it, and its holder looks again before it lays it down (promise 9).
//! 4. Once `life` is `Failed`, nothing is executed or flushed any more; what is in the pipeline
//!    still passes through it in order, and is settled as not run or unknown (promise 7).

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Waker,
    time::Duration,
};

use crate::{
    Engine, Flush,
    admission::{Admission, Limits},
    admit::{Admit, Line},
    clock::{Clock, SystemClock},
    engine::{ExclusiveEnd, Executed},
    group::{GROUP_TRANSACTIONS_MAX, Group, form_group},
    outcome::{Cause, Failure, NotRun},
    park,
    pool::{SharedPool, Spawn, Task},
    stats::{Recorder, Stats},
    sync::{Mutex, lock, thread_local},
    ticket::{Body, Cell, Decision, Entry, Fate, Ticket, Wake},
};

/// The doors through which time and threads come in, and the limits of admission.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How much is admitted at once.
    pub limits: Limits,
    /// The label of this pipeline's metrics, for example the database's path.
    pub label: String,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where threads come from.
    pub spawn: Arc<dyn Spawn>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            label: String::new(),
            clock: Arc::new(SystemClock::new()),
            spawn: Arc::new(SharedPool),
        }
    }
}

/// What a caller says of one transaction besides its closure.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms {
    /// Counted from submission; a transaction that is not committed by then is not run.
    pub deadline: Option<Duration>,
    /// Memory that the transaction holds outside its closure's own captures.
    pub bytes: usize,
}

/// A transaction that was not admitted, with its closure given back.
pub struct Refused<F> {
    /// Why.
    pub reason: NotRun,
    /// The closure, to submit again; `None` only when it was consumed.
    pub closure: Option<F>,
}

impl<F> std::fmt::Debug for Refused<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Refused").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<F> std::fmt::Display for Refused<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not run: {}", self.reason)
    }
}

impl<F> std::error::Error for Refused<F> {}

/// One database's pipeline. Dropping it closes admission; what was admitted still runs, on the
/// pool.
pub struct Pipeline<E: Engine> {
    shared: Arc<Shared<E>>,
}

impl<E: Engine> std::fmt::Debug for Pipeline<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline").finish_non_exhaustive()
    }
}

impl<E: Engine> Drop for Pipeline<E> {
    fn drop(&mut self) {
        self.shared.stop_admission();
    }
}

impl<E: Engine> Pipeline<E> {
    /// A pipeline that drives `engine`.
    pub fn new(engine: E, settings: Settings) -> Self {
        let flusher = engine.flusher();
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    queue: VecDeque::new(),
                    committed: VecDeque::new(),
                    callbacks: VecDeque::new(),
                    admission: Admission::new(settings.limits),
                    execute_role: Role::Idle,
                    flush_role: Role::Idle,
                    callback_role: Role::Idle,
                    spares: Vec::new(),
                    life: Life::Open,
                    flush_failed: None,
                }),
                limits: settings.limits,
                engine: Mutex::new(engine),
                flusher,
                recorder: Recorder::new(&settings.label),
                clock: settings.clock,
                spawn: settings.spawn,
            }),
        }
    }

    /// Submits a transaction and returns its ticket at once; waits, blocking, only while admission
    /// is full.
    pub fn submit<F, T, X>(&self, terms: Terms, closure: F) -> Ticket<T, X>
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let shared = &self.shared;
        let cell = Cell::new(closure);
        let entry = shared.entry::<F>(Body::Member(cell.clone()), terms);
        if let Err((entry, reason)) = shared.offer(entry) {
            shared.insist(entry, reason);
        }
        Ticket::of(cell)
    }

    /// As [`Pipeline::submit`], waiting for admission without blocking.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready submits nothing.
    pub async fn submit_async<F, T, X>(&self, terms: Terms, closure: F) -> Ticket<T, X>
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let shared = &self.shared;
        let cell = Cell::new(closure);
        let entry = shared.entry::<F>(Body::Member(cell.clone()), terms);
        match shared.offer(entry) {
            Ok(()) => {}
            Err((entry, NotRun::Overloaded)) => match Admit::new(&**shared, entry.bytes).await {
                Ok(()) => shared.enqueue_admitted(entry),
                Err(reason) => shared.refuse(&entry, reason),
            },
            Err((entry, reason)) => shared.refuse(&entry, reason),
        }
        Ticket::of(cell)
    }

    /// As [`Pipeline::submit`], but refuses instead of waiting.
    ///
    /// # Errors
    ///
    /// [`NotRun::Overloaded`] when admission is full, or why nothing is admitted any more, with the
    /// closure.
    pub fn try_submit<F, T, X>(&self, terms: Terms, closure: F) -> Result<Ticket<T, X>, Refused<F>>
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let cell = Cell::new(closure);
        let entry = self.shared.entry::<F>(Body::Member(cell.clone()), terms);
        match self.shared.offer(entry) {
            Ok(()) => Ok(Ticket::of(cell)),
            Err((_, reason)) => Err(Refused { reason, closure: cell.take_closure() }),
        }
    }

    /// As [`Pipeline::submit`], with a callback that is called once with the result, in submission
    /// order, on a thread of the pool, off the critical path.
    pub fn submit_then<F, T, X>(
        &self,
        terms: Terms,
        closure: F,
        callback: impl FnOnce(Result<T, Failure<X>>) + Send + 'static,
    ) where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let cell = Cell::with_callback(closure, Box::new(callback));
        let entry = self.shared.entry::<F>(Body::Member(cell), terms);
        if let Err((entry, reason)) = self.shared.offer(entry) {
            self.shared.insist(entry, reason);
        }
    }

    /// Runs a transaction and blocks until it is durable. On an idle pipeline all of it happens on
    /// the caller's thread.
    ///
    /// # Errors
    ///
    /// The [`Failure`] that the transaction came to.
    pub fn transact<F, T, X>(&self, terms: Terms, closure: F) -> Result<T, Failure<X>>
    where
        F: FnMut(&mut E::Transaction<'_>) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let shared = &self.shared;
        if shared.is_executing_here() {
            return Err(NotRun::Reentrant.into());
        }
        let cell = Cell::new(closure);
        let entry = shared.entry::<F>(Body::Member(cell.clone()), terms);
        match shared.lead_or_offer(entry) {
            Ok(()) => {}
            Err((entry, reason)) => shared.insist(entry, reason),
        }
        Ticket::of(cell).wait()
    }

    /// Runs `closure` alone, between groups, and blocks until what it did is durable.
    ///
    /// # Errors
    ///
    /// The [`Failure`] that it came to.
    pub fn exclusive<F, T, X>(&self, closure: F) -> Result<T, Failure<X>>
    where
        F: FnMut(&mut E::Exclusive) -> Result<T, X> + Send + 'static,
        T: Send + 'static,
        X: Send + 'static,
    {
        let shared = &self.shared;
        if shared.is_executing_here() {
            return Err(NotRun::Reentrant.into());
        }
        let cell = Cell::new(closure);
        let entry = shared.entry::<F>(Body::Exclusive(cell.clone()), Terms::default());
        if let Err((entry, reason)) = shared.offer(entry) {
            shared.insist(entry, reason);
        }
        Ticket::of(cell).wait()
    }

    /// Blocks until everything submitted before this call is resolved; with `force`, also flushes
    /// where the pipeline itself has nothing to flush, because others may have written.
    ///
    /// # Errors
    ///
    /// When the pipeline has failed, now or before.
    pub fn flush<X: Send + 'static>(&self, force: bool) -> Result<(), Failure<X>> {
        if self.shared.is_executing_here() {
            return Err(NotRun::Reentrant.into());
        }
        self.shared.barrier(force).wait()
    }

    /// Stops admission, waits until everything admitted is resolved, and closes the engine.
    ///
    /// # Errors
    ///
    /// When the pipeline had failed or the engine could not close cleanly.
    pub fn close(&self) -> Result<(), Failure<std::convert::Infallible>> {
        let shared = &self.shared;
        if shared.is_executing_here() {
            return Err(NotRun::Reentrant.into());
        }
        shared.stop_admission();
        let drained = shared.barrier(false).wait();
        let closed = lock(&shared.engine).close();
        drained?;
        closed.map_err(|cause| Failure::NotRun(NotRun::Failed(cause)))
    }

    /// What the pipeline has done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (in_flight, queued) = {
            let state = lock(&self.shared.state);
            (state.admission.transactions(), state.queue.len())
        };
        self.shared.recorder.snapshot(in_flight, queued)
    }

    /// Nanoseconds of the pipeline's clock, for comparison with [`Group::deadline_ns`].
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.shared.clock.now_ns()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Idle,
    Scheduled,
    Running,
}

#[derive(Debug, Clone)]
enum Life {
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

/// A group after its execution, on its way to flush.
struct Committed<E: Engine> {
    entries: VecDeque<Entry<E>>,
    needs_flush: bool,
    /// The engine could not say whether it committed.
    failed: Option<Cause>,
}

struct State<E: Engine> {
    queue: VecDeque<Entry<E>>,
    committed: VecDeque<Committed<E>>,
    callbacks: VecDeque<(Task, usize)>,
    admission: Admission<Arc<Line>>,
    execute_role: Role,
    flush_role: Role,
    callback_role: Role,
    /// Empty queues, kept for their memory.
    spares: Vec<VecDeque<Entry<E>>>,
    life: Life,
    /// Why the last flush failed, after which no other is tried.
    flush_failed: Option<Cause>,
}

pub(crate) struct Shared<E: Engine> {
    state: Mutex<State<E>>,
    limits: Limits,
    /// Locked by the holder of the execute role.
    engine: Mutex<E>,
    flusher: E::Flusher,
    recorder: Recorder,
    clock: Arc<dyn Clock>,
    spawn: Arc<dyn Spawn>,
}

/// The most empty queues that are kept for their memory.
const SPARES_MAX: usize = 3;

thread_local! {
    /// The pipeline whose engine this thread is executing a group in, by address.
    static EXECUTING: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// What the holder of the execute role does after a group.
enum Next {
    ExecuteMore { schedule_flush: bool },
    Flush,
    Rest,
}

// Submission.
impl<E: Engine> Shared<E> {
    fn entry<F>(&self, body: Body<E>, terms: Terms) -> Entry<E> {
        let submitted_ns = self.clock.now_ns();
        let deadline_ns = terms.deadline.map(|deadline| {
            submitted_ns.saturating_add(u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX))
        });
        let bytes = terms.bytes.saturating_add(size_of::<F>()).min(self.limits.bytes);
        Entry { body, bytes, submitted_ns, deadline_ns }
    }

    /// Queues the entry if it can be admitted now.
    fn offer(self: &Arc<Self>, entry: Entry<E>) -> Result<(), (Entry<E>, NotRun)> {
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
    fn lead_or_offer(self: &Arc<Self>, entry: Entry<E>) -> Result<(), (Entry<E>, NotRun)> {
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
    fn insist(self: &Arc<Self>, entry: Entry<E>, reason: NotRun) {
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
    fn refuse(&self, entry: &Entry<E>, reason: NotRun) {
        entry.decide(Decision::NotRun(reason));
        let (outcome, wake) = entry.cell().settle(&Fate::Durable);
        self.recorder.resolved(std::iter::once((outcome, self.age_ns(entry))));
        match wake {
            Wake::Nobody => {}
            Wake::Waker(waker) => waker.wake(),
            Wake::Callback(callback) => self.spawn.spawn_callback(callback),
        }
    }

    fn enqueue_admitted(self: &Arc<Self>, entry: Entry<E>) {
        let schedule = lock(&self.state).push(entry);
        self.schedule_execute(schedule);
    }

    fn barrier<X: Send + 'static>(self: &Arc<Self>, force_flush: bool) -> Ticket<(), X> {
        let cell = Cell::<(), (), X>::barrier();
        let body = Body::Barrier { cell: cell.clone(), force_flush };
        let mut entry = self.entry::<()>(body, Terms::default());
        entry.bytes = 0;
        self.enqueue_admitted(entry);
        Ticket::of(cell)
    }

    fn stop_admission(&self) {
        let wakers = {
            let mut state = lock(&self.state);
            if matches!(state.life, Life::Open) {
                state.life = Life::Closed;
            }
            state.turn_away(&NotRun::Closed)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn is_executing_here(&self) -> bool {
        EXECUTING.with(std::cell::Cell::get) == std::ptr::from_ref(self).addr()
    }

    fn age_ns(&self, entry: &Entry<E>) -> u64 {
        self.clock.now_ns().saturating_sub(entry.submitted_ns)
    }
}

impl<E: Engine> crate::admit::Door for Shared<E> {
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

impl<E: Engine> State<E> {
    fn is_idle(&self) -> bool {
        self.execute_role == Role::Idle
            && self.flush_role == Role::Idle
            && self.queue.is_empty()
            && self.committed.is_empty()
    }

    fn admit(&mut self, bytes: usize) -> Result<(), NotRun> {
        match self.life.refusal() {
            Some(reason) => Err(reason),
            None if self.admission.try_admit(bytes) => Ok(()),
            None => Err(NotRun::Overloaded),
        }
    }

    /// The first `count` entries of the queue.
    fn take_group(&mut self, count: usize) -> VecDeque<Entry<E>> {
        let mut group = self.spares.pop().unwrap_or_default();
        if count == self.queue.len() {
            std::mem::swap(&mut group, &mut self.queue);
        } else {
            group.extend(self.queue.drain(..count));
        }
        group
    }

    /// Gives places back; returns those to wake whom that lets in.
    fn release(&mut self, transactions: usize, bytes: usize) -> Vec<Waker> {
        let admitted = self.admission.release(transactions, bytes);
        admitted.iter().filter_map(|line| line.admit()).collect()
    }

    /// Ends the waiting for admission; returns those to wake.
    fn turn_away(&mut self, reason: &NotRun) -> Vec<Waker> {
        let line = self.admission.turn_away();
        line.iter().filter_map(|line| line.refuse(reason.clone())).collect()
    }

    /// Queues an entry; `true` when the caller must schedule the execute role.
    #[must_use]
    fn push(&mut self, entry: Entry<E>) -> bool {
        self.queue.push_back(entry);
        let schedule = self.execute_role == Role::Idle;
        if schedule {
            self.execute_role = Role::Scheduled;
        }
        schedule
    }
}

// Execute.
impl<E: Engine> Shared<E> {
    fn schedule_execute(self: &Arc<Self>, schedule: bool) {
        if schedule {
            let shared = self.clone();
            self.spawn.spawn(Box::new(move || shared.run_execute_role()));
        }
    }

    fn schedule_flush(self: &Arc<Self>) {
        let shared = self.clone();
        self.spawn.spawn(Box::new(move || shared.run_flush_role(false)));
    }

    /// Executes and flushes one transaction on the thread of its caller, who found the pipeline
    /// idle and took the execute role. What arrives meanwhile is left to the pool.
    fn lead(self: &Arc<Self>, entry: Entry<E>) {
        let executed = self.execute(VecDeque::from([entry]));
        let (schedule_execute, flush) = {
            let mut state = lock(&self.state);
            state.hand_on(executed);
            let schedule = !state.queue.is_empty();
            state.execute_role = if schedule { Role::Scheduled } else { Role::Idle };
            let flush = state.flush_role == Role::Idle;
            if flush {
                state.flush_role = Role::Running;
            }
            (schedule, flush)
        };
        self.schedule_execute(schedule_execute);
        if flush {
            self.run_flush_role(true);
        }
    }

    /// The execute role on a thread of the pool: group after group, until none waits.
    fn run_execute_role(self: &Arc<Self>) {
        loop {
            let group = {
                let mut state = lock(&self.state);
                state.execute_role = Role::Running;
                let count = form_group(state.queue.iter().map(Entry::waiting));
                if count == 0 {
                    state.execute_role = Role::Idle;
                    return;
                }
                state.take_group(count)
            };
            let executed = self.execute(group);
            let next = lock(&self.state).after_group(executed);
            match next {
                Next::Rest => return,
                Next::Flush => return self.run_flush_role(false),
                Next::ExecuteMore { schedule_flush } => {
                    if schedule_flush {
                        self.schedule_flush();
                    }
                    // Others wait for a thread: back into the line, so that one busy database does
                    // not keep it.
                    if self.spawn.is_crowded() {
                        lock(&self.state).execute_role = Role::Scheduled;
                        return self.schedule_execute(true);
                    }
                }
            }
        }
    }

    /// Executes a group. Called only by the holder of the execute role.
    fn execute(&self, entries: VecDeque<Entry<E>>) -> Executing<E> {
        let refusal = match &lock(&self.state).life {
            Life::Failed(cause) => Some(cause.clone()),
            Life::Open | Life::Closed => None,
        };
        if let Some(cause) = refusal {
            for entry in &entries {
                entry.decide(Decision::NotRun(NotRun::Failed(cause.clone())));
            }
            let committed = Committed { entries, needs_flush: false, failed: Some(cause) };
            return Executing { committed, leftover: VecDeque::new() };
        }
        let span = tracing::debug_span!("group", transactions = entries.len());
        let _entered = span.enter();
        let mut group = Group::new(entries, self.clock.clone());
        let result = self.run_engine(&mut group);
        let execute_ns = self.clock.now_ns().saturating_sub(group.started_ns);
        let leftover = group.entries.split_off(group.taken.min(group.entries.len()));
        let (commits, failed) = match result {
            Ok(executed) => (executed.commits, None),
            Err(cause) => {
                tracing::error!(%cause, "a commit could not be confirmed; nothing more is accepted");
                let wakers = lock(&self.state).fail(&cause);
                wakers.into_iter().for_each(Waker::wake);
                (0, Some(cause))
            }
        };
        let waits_ns = group.entries.iter().filter(|entry| entry.is_transaction());
        let waits_ns = waits_ns.map(|entry| group.started_ns.saturating_sub(entry.submitted_ns));
        self.recorder.executed(commits, group.reruns, execute_ns, leftover.len(), waits_ns);
        let forced =
            |entry: &Entry<E>| matches!(entry.body, Body::Barrier { force_flush: true, .. });
        let needs_flush = commits > 0 || group.entries.iter().any(forced);
        Executing { committed: Committed { entries: group.entries, needs_flush, failed }, leftover }
    }

    fn run_engine(&self, group: &mut Group<E>) -> Result<Executed, Cause> {
        let mut engine = lock(&self.engine);
        let here = std::ptr::from_ref(self).addr();
        let outer = EXECUTING.with(|executing| executing.replace(here));
        let caught = catch_unwind(AssertUnwindSafe(|| match &group.entries[0].body {
            Body::Exclusive(job) => {
                let job = job.clone();
                group.taken = 1;
                if !job.is_live() {
                    return Ok(Executed::default());
                }
                let end = engine.exclusive(&mut |context| job.run(context))?;
                match end {
                    ExclusiveEnd::Kept => {}
                    ExclusiveEnd::Rejected(cause) => job.decide(Decision::Reject(cause)),
                    ExclusiveEnd::Refused(reason) => job.decide(Decision::NotRun(reason)),
                }
                Ok(Executed { commits: 1 })
            }
            Body::Member(_) | Body::Barrier { .. } => engine.execute(group),
        }));
        EXECUTING.with(|executing| executing.set(outer));
        caught.unwrap_or_else(|_| Err(Arc::new(EnginePanicked)))
    }
}

/// A group that was executed, and the entries that its time did not suffice for.
struct Executing<E: Engine> {
    committed: Committed<E>,
    leftover: VecDeque<Entry<E>>,
}

impl<E: Engine> State<E> {
    fn hand_on(&mut self, executed: Executing<E>) {
        for entry in executed.leftover.into_iter().rev() {
            self.queue.push_front(entry);
        }
        self.committed.push_back(executed.committed);
    }

    fn after_group(&mut self, executed: Executing<E>) -> Next {
        self.hand_on(executed);
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

    fn keep_spares(&mut self, spares: Vec<VecDeque<Entry<E>>>) {
        let room = SPARES_MAX.saturating_sub(self.spares.len());
        let useful = |spare: &VecDeque<_>| spare.capacity() <= 2 * GROUP_TRANSACTIONS_MAX;
        self.spares.extend(spares.into_iter().filter(useful).take(room));
    }

    /// Refuses everything from now on; returns those to wake who waited for admission.
    #[must_use]
    fn fail(&mut self, cause: &Cause) -> Vec<Waker> {
        if !matches!(self.life, Life::Failed(_)) {
            self.life = Life::Failed(cause.clone());
        }
        self.turn_away(&NotRun::Failed(cause.clone()))
    }
}

// Flush and resolve.
impl<E: Engine> Shared<E> {
    /// The flush role: flush after flush, until nothing is committed that is not durable. A caller
    /// who leads stops after one and leaves the rest to the pool.
    fn run_flush_role(self: &Arc<Self>, leads: bool) {
        loop {
            let (groups, flush_failed) = {
                let mut state = lock(&self.state);
                state.flush_role = Role::Running;
                if state.committed.is_empty() {
                    state.flush_role = Role::Idle;
                    return;
                }
                (std::mem::take(&mut state.committed), state.flush_failed.clone())
            };
            let fate = flush_failed.map_or_else(|| self.flush(&groups), Fate::Unknown);
            self.resolve(groups, &fate);
            if leads || self.spawn.is_crowded() {
                let mut state = lock(&self.state);
                let more = !state.committed.is_empty();
                state.flush_role = if more { Role::Scheduled } else { Role::Idle };
                drop(state);
                if more {
                    self.schedule_flush();
                }
                return;
            }
        }
    }

    /// Makes `groups`, which are all committed, durable.
    fn flush(&self, groups: &VecDeque<Committed<E>>) -> Fate {
        if !groups.iter().any(|group| group.needs_flush) {
            return Fate::Durable;
        }
        let span = tracing::debug_span!("flush", groups = groups.len());
        let _entered = span.enter();
        let began_ns = self.clock.now_ns();
        let flushed = catch_unwind(AssertUnwindSafe(|| self.flusher.flush()))
            .unwrap_or_else(|_| Err(Arc::new(EnginePanicked)));
        self.recorder.flushed(self.clock.now_ns().saturating_sub(began_ns));
        match flushed {
            Ok(()) => Fate::Durable,
            Err(cause) => {
                tracing::error!(%cause, "a flush failed; nothing more is accepted");
                let wakers = {
                    let mut state = lock(&self.state);
                    state.flush_failed = Some(cause.clone());
                    state.fail(&cause)
                };
                wakers.into_iter().for_each(Waker::wake);
                Fate::Unknown(cause)
            }
        }
    }

    /// Settles every ticket of `groups` in order, then wakes whoever waits.
    fn resolve(self: &Arc<Self>, groups: VecDeque<Committed<E>>, fate: &Fate) {
        let now_ns = self.clock.now_ns();
        let mut wakers = Vec::new();
        let mut callbacks = Vec::new();
        let (mut transactions, mut bytes) = (0, 0);
        let fated = groups.iter().flat_map(|group| {
            let fate = group.failed.clone().map_or_else(|| fate.clone(), Fate::Unknown);
            group.entries.iter().map(move |entry| (entry, entry.cell().settle(&fate)))
        });
        self.recorder.resolved(fated.filter_map(|(entry, (outcome, wake))| {
            let has_callback = matches!(wake, Wake::Callback(_));
            match wake {
                Wake::Callback(callback) => callbacks.push((callback, entry.bytes)),
                Wake::Waker(waker) => wakers.push(waker),
                Wake::Nobody => {}
            }
            if !entry.is_transaction() {
                return None;
            }
            if !has_callback {
                // One with a callback stays admitted until that has returned.
                transactions += 1;
                bytes += entry.bytes;
            }
            Some((outcome, now_ns.saturating_sub(entry.submitted_ns)))
        }));
        let spares = groups.into_iter().map(|mut group| {
            group.entries.clear();
            group.entries
        });
        lock(&self.state).keep_spares(spares.collect());
        let run_callbacks = self.release(transactions, bytes, callbacks);
        wakers.into_iter().for_each(Waker::wake);
        if run_callbacks {
            let shared = self.clone();
            self.spawn.spawn_callback(Box::new(move || shared.run_callback_role()));
        }
    }

    /// Gives places back and lets those in who waited for them; `true` when the callback role must
    /// be scheduled.
    fn release(&self, transactions: usize, bytes: usize, callbacks: Vec<(Task, usize)>) -> bool {
        let (wakers, run_callbacks, in_flight) = {
            let mut state = lock(&self.state);
            let wakers = state.release(transactions, bytes);
            let run = !callbacks.is_empty() && state.callback_role == Role::Idle;
            if run {
                state.callback_role = Role::Scheduled;
            }
            state.callbacks.extend(callbacks);
            (wakers, run, state.admission.transactions())
        };
        self.recorder.in_flight(in_flight);
        wakers.into_iter().for_each(Waker::wake);
        run_callbacks
    }

    /// The callback role: the callers' own code, in submission order, one at a time.
    fn run_callback_role(self: &Arc<Self>) {
        loop {
            let (callback, bytes) = {
                let mut state = lock(&self.state);
                let Some(next) = state.callbacks.pop_front() else {
                    state.callback_role = Role::Idle;
                    return;
                };
                next
            };
            if catch_unwind(AssertUnwindSafe(callback)).is_err() {
                tracing::error!("a callback panicked");
            }
            self.release(1, bytes, Vec::new());
        }
    }
}

/// The adapter itself panicked, so nothing can be said of what it was doing.
#[derive(Debug)]
struct EnginePanicked;

impl std::fmt::Display for EnginePanicked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the engine's adapter panicked")
    }
}

impl std::error::Error for EnginePanicked {}
