//! The threads of the process that serve every open database.
//!
//! Databases own no threads. A database with work is a task here, scheduled once however many
//! transactions arrive meanwhile. Threads are started when a task finds none free, up to
//! [`THREADS_MAX`], and end after [`LINGER`] without work, so an idle process has none.
//!
//! Invariants:
//! 1. A task waits only while every thread of the pool is inside another task.
//! 2. Callbacks, which are the callers' own code and may block, never hold more than half of the
//!    threads, so they cannot keep databases from working.

use std::{fmt, time::Duration};

#[cfg(not(shuttle))]
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{LazyLock, PoisonError},
};

#[cfg(not(shuttle))]
use crate::sync::{Condvar, Mutex, lock, thread};

/// The most threads that the pool ever has.
pub const THREADS_MAX: usize = 12;

/// How long a thread without work waits for more before it ends.
pub const LINGER: Duration = Duration::from_secs(5);

/// A piece of work for the pool.
pub type Task = Box<dyn FnOnce() + Send>;

/// Where a pipeline's tasks run: the door through which threads come in.
pub trait Spawn: Send + Sync + fmt::Debug {
    /// Runs `task` soon, on a thread other than the caller's.
    fn spawn(&self, task: Task);

    /// Runs a caller's `callback` soon. It may block without keeping tasks from running.
    fn spawn_callback(&self, callback: Task);

    /// Whether tasks of others wait for a thread; one that could go on then steps back in line.
    fn is_crowded(&self) -> bool;
}

/// The pool that all databases of this process share.
#[derive(Debug, Default, Clone, Copy)]
pub struct SharedPool;

#[cfg(not(shuttle))]
static POOL: LazyLock<Pool> = LazyLock::new(Pool::default);

#[cfg(not(shuttle))]
impl Spawn for SharedPool {
    fn spawn(&self, task: Task) {
        POOL.push(|lines| lines.tasks.push_back(task));
    }

    fn spawn_callback(&self, callback: Task) {
        POOL.push(|lines| lines.callbacks.push_back(callback));
    }

    fn is_crowded(&self) -> bool {
        !lock(&POOL.lines).tasks.is_empty()
    }
}

#[cfg(not(shuttle))]
#[derive(Default)]
struct Pool {
    lines: Mutex<Lines>,
    work_arrived: Condvar,
}

#[cfg(not(shuttle))]
#[derive(Default)]
struct Lines {
    tasks: VecDeque<Task>,
    callbacks: VecDeque<Task>,
    callbacks_running: usize,
    threads: usize,
    threads_idle: usize,
}

#[cfg(not(shuttle))]
impl Lines {
    fn next(&mut self) -> Option<(Task, bool)> {
        if let Some(task) = self.tasks.pop_front() {
            return Some((task, false));
        }
        if self.callbacks_running >= THREADS_MAX / 2 {
            return None;
        }
        let callback = self.callbacks.pop_front()?;
        self.callbacks_running += 1;
        Some((callback, true))
    }

    fn runnable(&self) -> usize {
        let callbacks = (THREADS_MAX / 2).saturating_sub(self.callbacks_running);
        self.tasks.len() + self.callbacks.len().min(callbacks)
    }
}

#[cfg(not(shuttle))]
impl Pool {
    fn push(&'static self, enqueue: impl FnOnce(&mut Lines)) {
        let mut lines = lock(&self.lines);
        enqueue(&mut lines);
        let start_thread = lines.runnable() > lines.threads_idle && lines.threads < THREADS_MAX;
        if start_thread {
            lines.threads += 1;
        }
        drop(lines);
        if !start_thread {
            self.work_arrived.notify_one();
            return;
        }
        let started =
            thread::Builder::new().name("groupcommit".into()).spawn(move || self.work());
        if let Err(error) = started {
            let mut lines = lock(&self.lines);
            lines.threads -= 1;
            let stranded = lines.threads == 0;
            drop(lines);
            tracing::error!(%error, "could not start a thread");
            if stranded {
                // Nobody else would ever run it: better slow than never.
                self.run_pending();
            }
        }
    }

    fn work(&self) {
        let mut lines = lock(&self.lines);
        loop {
            if let Some((task, is_callback)) = lines.next() {
                drop(lines);
                run(task);
                lines = lock(&self.lines);
                if is_callback {
                    lines.callbacks_running -= 1;
                }
                continue;
            }
            lines.threads_idle += 1;
            let (woken, timeout) = self
                .work_arrived
                .wait_timeout(lines, LINGER)
                .unwrap_or_else(PoisonError::into_inner);
            lines = woken;
            lines.threads_idle -= 1;
            if timeout.timed_out() && lines.runnable() == 0 {
                lines.threads -= 1;
                return;
            }
        }
    }

    fn run_pending(&self) {
        loop {
            let next = lock(&self.lines).next();
            let Some((task, is_callback)) = next else { return };
            run(task);
            if is_callback {
                lock(&self.lines).callbacks_running -= 1;
            }
        }
    }
}

/// A panic ends its task, not the thread: callbacks are callers' code.
#[cfg(not(shuttle))]
fn run(task: Task) {
    if catch_unwind(AssertUnwindSafe(task)).is_err() {
        tracing::error!("a callback or a task panicked");
    }
}

#[cfg(shuttle)]
impl Spawn for SharedPool {
    fn spawn(&self, task: Task) {
        crate::sync::thread::spawn(task);
    }

    fn spawn_callback(&self, callback: Task) {
        crate::sync::thread::spawn(callback);
    }

    fn is_crowded(&self) -> bool {
        false
    }
}
