//! The execute role: group after group into the engine.

use std::{
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    Engine,
    cell::{Body, Decision, Entry, Waits},
    engine::{ExclusiveEnd, Executed},
    fate::Fate,
    group::Group,
    outcome::{Cause, NotRun},
    quiet,
    shared::Shared,
    state::{Committed, Life, Next, Role, State},
    sync::{MutexGuard, lock, wait_timeout},
    waits::holding,
};

/// A group that was executed and sealed, and the entries that its time did not suffice for.
struct Done<E: Engine> {
    committed: Committed,
    leftover: VecDeque<Entry<E>>,
    emptied: VecDeque<Entry<E>>,
}

impl<E: Engine> Shared<E> {
    pub(crate) fn schedule_execute(self: &Arc<Self>, schedule: bool) {
        if schedule {
            let shared = self.clone();
            self.spawn.spawn(Box::new(move || shared.run_execute_role()));
        }
    }

    /// Executes and flushes one transaction on the thread of its caller, who found the pipeline
    /// idle and took the execute role. What arrives meanwhile is left to the pool: the caller may
    /// hold a lock that another's transaction takes.
    pub(crate) fn lead(self: &Arc<Self>, entry: Entry<E>) {
        let done = self.execute(VecDeque::from([entry]), false);
        let (schedule_execute, flush) = {
            let mut state = lock(&self.state);
            state.hand_on(done.committed, done.leftover, done.emptied);
            let schedule = !state.queue.is_empty();
            state.execute_role = if schedule { Role::Scheduled } else { Role::Idle };
            let flush = state.flush_role == Role::Idle;
            if flush {
                state.flush_role = Role::Running;
            }
            self.tell_flush(&state);
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
            let Some(group) = self.formed().take_group() else { return };
            let done = self.execute(group, self.commit_waits);
            let next = {
                let mut state = lock(&self.state);
                state.hand_on(done.committed, done.leftover, done.emptied);
                let next = state.after_group();
                self.tell_flush(&state);
                next
            };
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

    /// Wakes the holder of the flush role if it waits for what executes, and nothing does.
    fn tell_flush(&self, state: &State<E>) {
        if state.flush_waits && state.execute_role == Role::Idle {
            self.executed.notify_one();
        }
    }

    /// The state, once the next group may be taken: at once, but for experiments that hold it open.
    fn formed(&self) -> MutexGuard<'_, State<E>> {
        let mut state = lock(&self.state);
        while let Some((complete, left)) = state.held_open(&*self.clock) {
            state = wait_timeout(&complete, &self.state, state, left);
        }
        state
    }

    /// Executes a group, with those who arrive meanwhile if it `is_open`, and seals it. Called only by
    /// the holder of the execute role.
    fn execute(self: &Arc<Self>, entries: VecDeque<Entry<E>>, is_open: bool) -> Done<E> {
        let failed = match &lock(&self.state).life {
            Life::Failed(cause) => Some(cause.clone()),
            Life::Open | Life::Closed => None,
        };
        if let Some(cause) = failed {
            for entry in &entries {
                entry.cell().decide(Decision::NotRun(NotRun::Failed(cause.clone())));
            }
            let (committed, emptied) = seal(entries, 0, Some(cause));
            return Done { committed, leftover: VecDeque::new(), emptied };
        }
        let span = tracing::debug_span!("group", transactions = entries.len());
        let _entered = span.enter();
        let mut group = Group::new(entries, self.clock.clone(), self.execute_ns_max);
        if is_open {
            group = group.open_to(self);
        }
        let result = self.run_engine(&mut group);
        let execute_ns = self.clock.now_ns().saturating_sub(group.started_ns);
        let leftover = group.entries.split_off(group.taken.min(group.entries.len()));
        let (commits, failed) = match result {
            Ok(executed) => (executed.commits, None),
            Err(cause) => {
                tracing::error!(%cause, "a commit could not be confirmed; nothing more is accepted");
                let wakers = lock(&self.state).fail(&cause);
                quiet::wake(wakers);
                (0, Some(cause))
            }
        };
        let is_exclusive = group.entries.front().is_some_and(Entry::is_exclusive);
        let to_flush = if E::COMMIT_IS_DURABLE && !is_exclusive { 0 } else { commits };
        let (mut committed, emptied) = seal(group.entries, to_flush, failed);
        committed.execute_ns = execute_ns;
        let waits_ns = committed.submitted_ns.iter().map(|&ns| group.started_ns.saturating_sub(ns));
        self.recorder.executed(commits, group.reruns, execute_ns, leftover.len(), waits_ns);
        Done { committed, leftover, emptied }
    }

    fn run_engine(&self, group: &mut Group<E>) -> Result<Executed, Cause> {
        if !group.entries.iter().any(Entry::is_transaction) {
            // Only the order matters of these; and one may come when the engine is closed.
            group.taken = group.entries.len();
            return Ok(Executed::default());
        }
        let mut engine = lock(&self.engine);
        let execute = || match &group.entries[0].body {
            Body::Exclusive(job) => {
                let job = job.clone();
                group.taken = 1;
                if !job.is_live() {
                    return Ok(Executed::default());
                }
                match engine.exclusive(&mut |context| job.run(context))? {
                    ExclusiveEnd::Kept => {}
                    ExclusiveEnd::Rejected(cause) => job.decide(Decision::Reject(cause)),
                    ExclusiveEnd::Refused(reason) => job.decide(Decision::NotRun(reason)),
                }
                Ok(Executed { commits: 1 })
            }
            Body::Member(_) | Body::Barrier { .. } => engine.execute(group),
        };
        holding(self.address(), || catch_unwind(AssertUnwindSafe(execute)))
            .unwrap_or_else(|_| Err(Arc::new(EnginePanicked)))
    }
}

/// Ties every member to the fate of the group, and lets go of it; `to_flush` commits are not
/// durable yet.
fn seal<E: Engine>(
    mut entries: VecDeque<Entry<E>>,
    to_flush: u64,
    failed: Option<Cause>,
) -> (Committed, VecDeque<Entry<E>>) {
    let fate = Arc::new(Fate::pending());
    let mut committed = Committed::new(fate.clone());
    committed.needs_flush = to_flush > 0;
    committed.failed = failed;
    committed.submitted_ns.reserve(entries.len());
    let mut wakers = Vec::new();
    for entry in entries.drain(..) {
        let (outcome, waits) = entry.cell().seal(&fate, !entry.is_large);
        if let Body::Barrier { force_flush, .. } = entry.body {
            committed.needs_flush |= force_flush;
        } else {
            committed.count(outcome);
            committed.submitted_ns.push(entry.submitted_ns);
        }
        match waits {
            Waits::Callback => {
                let place = (usize::from(entry.is_transaction()), entry.bytes);
                committed.callbacks.push((entry.into_cell(), place));
                continue; // stays admitted until its callback has returned
            }
            Waits::Waker(waker) => wakers.push(waker),
            Waits::Nobody => {}
        }
        if entry.is_transaction() {
            committed.transactions += 1;
            committed.bytes += entry.bytes;
        }
        // Where the ticket was dropped before, the closure and the result go here.
        quiet::drop_quietly(entry.into_cell());
    }
    fate.wait_for(wakers);
    (committed, entries)
}

/// The adapter itself panicked, so nothing can be said of what it was doing.
#[derive(Debug)]
pub(crate) struct EnginePanicked;

impl fmt::Display for EnginePanicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the engine's adapter panicked")
    }
}

impl std::error::Error for EnginePanicked {}
