//! What waits for a thread, and how many threads there are.
//!
//! Invariants:
//! 1. Never more threads than connections are allowed; a thread is started only when a call comes
//!    and none is free for it.
//! 2. A thread ends only when the queue is closed and empty: what was admitted is run.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use crate::connect::Connect;

/// One call, with the way back of its answer.
pub(crate) trait Job<C: Connect>: Send {
    /// Whether somebody still waits for the answer.
    fn is_wanted(&self) -> bool;

    /// Runs it on the connection and answers; says whether it panicked.
    fn run(self: Box<Self>, connection: &mut C::Connection) -> bool;

    /// Answers that there is no connection for it.
    fn refuse(self: Box<Self>, error: C::Error);
}

pub(crate) struct Queue<C: Connect> {
    state: Mutex<State<C>>,
    came: Condvar,
    threads_max: usize,
}

struct State<C: Connect> {
    waiting: VecDeque<Box<dyn Job<C>>>,
    /// Threads that wait for a call.
    idle: usize,
    threads: usize,
    is_closed: bool,
}

/// What a new call needs.
pub(crate) enum Pushed {
    /// It is in the queue, and a thread will come for it.
    Queued,
    /// The same, once the caller has started one more thread.
    NeedsThread,
    /// The queue is closed, and the call is dropped.
    Closed,
}

impl<C: Connect> Queue<C> {
    pub(crate) fn new(threads_max: usize) -> Self {
        let state = State { waiting: VecDeque::new(), idle: 0, threads: 0, is_closed: false };
        Self { state: Mutex::new(state), came: Condvar::new(), threads_max }
    }

    /// No code of callers runs under the lock.
    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, job: Box<dyn Job<C>>) -> Pushed {
        let mut state = self.lock();
        if state.is_closed {
            drop(state);
            drop(job);
            return Pushed::Closed;
        }
        state.waiting.push_back(job);
        if state.waiting.len() > state.idle && state.threads < self.threads_max {
            state.threads += 1;
            return Pushed::NeedsThread;
        }
        drop(state);
        self.came.notify_one();
        Pushed::Queued
    }

    /// The next call, for a thread; `None` ends the thread.
    pub(crate) fn pop(&self) -> Option<Box<dyn Job<C>>> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state.idle += 1;
            state = self.came.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// A thread that was counted has ended, or could not be started. Returns what nobody is left to
    /// run.
    pub(crate) fn thread_ended(&self) -> Vec<Box<dyn Job<C>>> {
        let mut state = self.lock();
        state.threads -= 1;
        if state.threads == 0 { state.waiting.drain(..).collect() } else { Vec::new() }
    }

    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.came.notify_all();
    }

    pub(crate) fn threads(&self) -> usize {
        self.lock().threads
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, thread};

    use super::*;

    struct Server;

    impl Connect for Server {
        type Connection = ();
        type Error = Infallible;

        fn connect(&self) -> Result<(), Infallible> {
            Ok(())
        }
    }

    struct Nothing;

    impl Job<Server> for Nothing {
        fn is_wanted(&self) -> bool {
            true
        }

        fn run(self: Box<Self>, (): &mut ()) -> bool {
            false
        }

        fn refuse(self: Box<Self>, error: Infallible) {
            match error {}
        }
    }

    struct Closed<'a>(&'a Queue<Server>);

    impl Drop for Closed<'_> {
        fn drop(&mut self) {
            self.0.close();
        }
    }

    #[test]
    fn a_thread_that_waits_gets_the_next_call_instead_of_a_new_one() {
        let queue = Queue::<Server>::new(8);
        assert!(matches!(queue.push(Box::new(Nothing)), Pushed::NeedsThread));
        let is_free = || {
            let state = queue.lock();
            state.idle > 0 && state.waiting.is_empty()
        };
        thread::scope(|scope| {
            let popping = scope.spawn(|| while queue.pop().is_some() {});
            // Closed also when an assertion fails: the scope waits for the thread.
            let _closed = Closed(&queue);
            for _ in 0..100 {
                while !is_free() {
                    assert!(!popping.is_finished());
                    thread::yield_now();
                }
                assert!(matches!(queue.push(Box::new(Nothing)), Pushed::Queued));
            }
        });
        assert_eq!(queue.threads(), 1);
    }
}
