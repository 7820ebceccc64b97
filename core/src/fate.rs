//! The fate of a group: what one flush decides for all of its members at once.
//!
//! A cell that was executed points to its group's fate, so resolving a thousand tickets is one
//! store, however many there are; only those who wait right now are touched.
//!
//! Invariants:
//! 1. A fate is decided once.
//! 2. A waker that was registered before the decision is woken after it; a later one is told at
//!    once that there is nothing to wait for.

use std::task::Waker;

use crate::{
    outcome::Cause,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
        lock,
    },
};

/// What became of those members of a group that completed; rejected ones keep their own result.
#[derive(Debug, Clone)]
pub(crate) enum Decided {
    Durable,
    Unknown(Cause),
}

#[derive(Debug)]
pub(crate) struct Fate {
    /// What `state` says, for those who only ask.
    is_decided: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Pending(Vec<Waker>),
    Decided(Decided),
}

impl Fate {
    pub(crate) fn pending() -> Self {
        Self { is_decided: AtomicBool::new(false), state: Mutex::new(State::Pending(Vec::new())) }
    }

    pub(crate) fn decided(decided: Decided) -> Self {
        Self { is_decided: AtomicBool::new(true), state: Mutex::new(State::Decided(decided)) }
    }

    pub(crate) fn is_decided(&self) -> bool {
        self.is_decided.load(Ordering::Acquire)
    }

    /// What was decided; or registers `waker`, where there is one, to be woken then.
    pub(crate) fn poll(&self, waker: Option<&Waker>) -> Option<Decided> {
        match &mut *lock(&self.state) {
            State::Decided(decided) => Some(decided.clone()),
            State::Pending(wakers) => {
                wakers.extend(waker.cloned());
                None
            }
        }
    }

    /// Registers those who waited for the group's members before they were sealed.
    pub(crate) fn wait_for(&self, waiting: Vec<Waker>) {
        if let State::Pending(wakers) = &mut *lock(&self.state) {
            wakers.extend(waiting);
        }
    }

    /// Decides, and returns whom to wake, once no lock is held.
    #[must_use]
    pub(crate) fn decide(&self, decided: Decided) -> Vec<Waker> {
        let mut state = lock(&self.state);
        if matches!(*state, State::Decided(_)) {
            return Vec::new();
        }
        // Under the lock, so that nobody who has learnt of the decision finds the hint behind it.
        self.is_decided.store(true, Ordering::Release);
        match std::mem::replace(&mut *state, State::Decided(decided)) {
            State::Pending(wakers) => wakers,
            State::Decided(_) => Vec::new(),
        }
    }
}
