//! The flush role: make durable what is committed, resolve it, and call back.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    Engine, Flush,
    execute::EnginePanicked,
    fate::Decided,
    quiet,
    shared::Shared,
    state::{Call, Committed, Role, State},
    sync::{MutexGuard, lock, wait_timeout},
    waits::calling_back,
};

/// How many callbacks of one database are called before those of others have their turn.
const CALLBACKS_IN_A_ROW: usize = 64;

impl<E: Engine> Shared<E> {
    pub(crate) fn schedule_flush(self: &Arc<Self>) {
        let shared = self.clone();
        self.spawn.spawn(Box::new(move || shared.run_flush_role(false)));
    }

    /// The flush role: flush after flush, until nothing is committed that is not durable. A caller
    /// who leads stops after one and leaves the rest to the pool.
    pub(crate) fn run_flush_role(self: &Arc<Self>, leads: bool) {
        loop {
            let (groups, flush_failed) = {
                let mut state = self.gathered();
                let Some(groups) = state.take_committed() else { return };
                (groups, state.flush_failed.clone())
            };
            let (decided, flush_ns) = match flush_failed {
                None => self.flush(&groups),
                Some(cause) => (Decided::Unknown(cause), None),
            };
            self.resolve(groups, &decided, flush_ns);
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

    /// The state, once the next flush may begin: at once, unless those whom the last one answered
    /// are about to be back.
    fn gathered(&self) -> MutexGuard<'_, State<E>> {
        let mut state = lock(&self.state);
        while !self.spawn.is_crowded()
            && let Some(left) = state.flush_wait(&*self.clock)
        {
            state.flush_waits = true;
            state = wait_timeout(&self.executed, &self.state, state, left);
            state.flush_waits = false;
        }
        state
    }

    /// Makes `groups`, which are all committed, durable; says how many nanoseconds that took.
    fn flush(&self, groups: &VecDeque<Committed>) -> (Decided, Option<u64>) {
        if !groups.iter().any(|group| group.needs_flush) {
            return (Decided::Durable, None);
        }
        let span = tracing::debug_span!("flush", groups = groups.len());
        let _entered = span.enter();
        let began_ns = self.clock.now_ns();
        let flushed = catch_unwind(AssertUnwindSafe(|| self.flusher.flush()))
            .unwrap_or_else(|_| Err(Arc::new(EnginePanicked)));
        #[cfg(feature = "experiments")]
        if !self.flush_delay.is_zero() {
            crate::park::sleep(self.flush_delay);
        }
        let took_ns = self.clock.now_ns().saturating_sub(began_ns);
        self.recorder.flushed(took_ns);
        let decided = match flushed {
            Ok(()) => Decided::Durable,
            Err(cause) => {
                tracing::error!(%cause, "a flush failed; nothing more is accepted");
                let wakers = {
                    let mut state = lock(&self.state);
                    state.flush_failed = Some(cause.clone());
                    state.fail(&cause)
                };
                quiet::wake(wakers);
                Decided::Unknown(cause)
            }
        };
        (decided, Some(took_ns))
    }

    /// Resolves the tickets of `groups` in order, then wakes whoever waits.
    fn resolve(
        self: &Arc<Self>,
        groups: VecDeque<Committed>,
        decided: &Decided,
        flush_ns: Option<u64>,
    ) {
        let now_ns = self.clock.now_ns();
        // Places first: whoever learns that a ticket is resolved finds room for the next.
        let mut wakers = {
            let mut state = lock(&self.state);
            let transactions = groups.iter().map(|group| group.transactions).sum();
            let bytes = groups.iter().map(|group| group.bytes).sum();
            let wakers = state.release(transactions, bytes);
            let resolved = groups.iter().map(|group| group.submitted_ns.len() as u64).sum();
            state.returns.resolved(now_ns, resolved, flush_ns);
            self.recorder.in_flight(state.admission.transactions());
            wakers
        };
        let mut callbacks = Vec::new();
        for group in groups {
            let decided = group.failed.clone().map_or_else(|| decided.clone(), Decided::Unknown);
            self.recorder.resolved(&group, &decided, now_ns);
            wakers.extend(group.fate.decide(decided));
            for (cell, place) in group.callbacks {
                callbacks.extend(cell.callback().map(|callback| Call { callback, place }));
                quiet::drop_quietly(cell);
            }
        }
        quiet::wake(wakers);
        self.schedule_callbacks(callbacks);
    }

    pub(crate) fn schedule_callbacks(self: &Arc<Self>, callbacks: Vec<Call>) {
        if callbacks.is_empty() {
            return;
        }
        let idle = {
            let mut state = lock(&self.state);
            state.callbacks.extend(callbacks);
            let idle = state.callback_role == Role::Idle;
            if idle {
                state.callback_role = Role::Scheduled;
            }
            idle
        };
        if idle {
            self.spawn_callback_role();
        }
    }

    fn spawn_callback_role(self: &Arc<Self>) {
        let shared = self.clone();
        self.spawn.spawn_callback(Box::new(move || shared.run_callback_role()));
    }

    /// The callback role: the callers' own code, in submission order, one at a time. After some it
    /// steps back into the line, so that the callbacks of one database do not keep the thread from
    /// those of others.
    fn run_callback_role(self: &Arc<Self>) {
        for _ in 0..CALLBACKS_IN_A_ROW {
            let Call { callback, place: (transactions, bytes) } = {
                let mut state = lock(&self.state);
                let Some(next) = state.callbacks.pop_front() else {
                    state.callback_role = Role::Idle;
                    return;
                };
                next
            };
            if !calling_back(self.address(), || quiet::quietly(callback)) {
                tracing::error!("a callback panicked");
            }
            let wakers = lock(&self.state).release(transactions, bytes);
            quiet::wake(wakers);
        }
        lock(&self.state).callback_role = Role::Scheduled;
        self.spawn_callback_role();
    }
}
