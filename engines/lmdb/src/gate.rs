//! The gate between reads and changes of the map: LMDB may map a file anew only while no
//! transaction of the process is live.
//!
//! Invariants:
//! 1. A read holds a [`Pass`] for as long as its transaction lives.
//! 2. While somebody is alone, no pass is given; and nobody is alone while one is held.
//! 3. Never more passes than reader slots, but for reads inside reads: these wait for nobody, who may be
//!    waiting for the outer one.

use std::{
    cell::RefCell,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use heed::{Env, WithoutTls};

thread_local! {
    /// The gates, by address, that this thread has passed.
    static PASSED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    passes_max: usize,
}

struct State {
    /// `None` once the database is closed.
    env: Option<Env<WithoutTls>>,
    passes: usize,
    alone: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("passes", &self.passes).finish_non_exhaustive()
    }
}

impl Gate {
    pub(crate) fn new(env: Env<WithoutTls>, passes_max: usize) -> Self {
        let state = State { env: Some(env), passes: 0, alone: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), passes_max: passes_max.max(1) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Waits until reading is possible; `None` when the database is closed.
    pub(crate) fn enter(&self) -> Option<Pass<'_>> {
        let mut state = self.lock();
        let is_inside = PASSED.with_borrow(|passed| passed.contains(&self.address()));
        let must_wait = |state: &State| state.alone || state.passes >= self.passes_max;
        while state.env.is_some() && !is_inside && must_wait(&state) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let env = state.env.clone()?;
        state.passes += 1;
        PASSED.with_borrow_mut(|passed| passed.push(self.address()));
        Some(Pass { gate: self, env: Some(env) })
    }

    /// Waits until no read is live, lets none begin, and calls `run`.
    pub(crate) fn alone<T>(&self, run: impl FnOnce() -> T) -> T {
        let mut state = self.lock();
        while state.alone {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.alone = true;
        while state.passes > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        let reopen = Reopen(self);
        let value = run();
        drop(reopen);
        value
    }

    /// Refuses everything from now on and lets go of the environment.
    pub(crate) fn close(&self) {
        let env = self.lock().env.take();
        drop(env);
        self.changed.notify_all();
    }
}

/// Opens the gate again, also when what ran alone panicked.
struct Reopen<'a>(&'a Gate);

impl Drop for Reopen<'_> {
    fn drop(&mut self) {
        self.0.lock().alone = false;
        self.0.changed.notify_all();
    }
}

/// The right to read, for the thread that entered.
pub(crate) struct Pass<'a> {
    gate: &'a Gate,
    env: Option<Env<WithoutTls>>,
}

impl Pass<'_> {
    pub(crate) fn env(&self) -> &Env<WithoutTls> {
        match &self.env {
            Some(env) => env,
            None => unreachable!("a pass has its environment until it is dropped"),
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        // First: who waits to be alone after a close may open the environment again.
        drop(self.env.take());
        PASSED.with_borrow_mut(|passed| {
            let last = passed.iter().rposition(|&gate| gate == self.gate.address());
            last.map(|index| passed.swap_remove(index))
        });
        self.gate.lock().passes -= 1;
        self.gate.changed.notify_all();
    }
}
