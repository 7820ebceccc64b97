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
//! 3. A thread that waits for a ticket or for admission, because the transaction or callback that it
//!    runs does, counts as none meanwhile: what it waits for may need a thread. So does one that waits
//!    for a server, or sleeps before it asks one again: however many databases are out of reach, they
//!    keep no other from working, and cost a thread each for as long as they have work.
//! 4. The child of a fork begins with a pool of its own: the parent's threads do not exist there.

use std::{fmt, time::Duration};

#[cfg(not(shuttle))]
use std::{
    cell::Cell,
    collections::VecDeque,
    sync::{
        LazyLock, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread::Thread,
    time::Instant,
};

#[cfg(not(shuttle))]
use crate::{
    quiet,
    sync::{Mutex, MutexGuard, lock, thread, thread_local},
};

/// The most threads that the pool has, besides those that a transaction or a callback keeps waiting
/// for a ticket.
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

    /// Whether tasks wait that no thread is about to take, all being busy; one that could go on then
    /// steps back in line.
    fn is_crowded(&self) -> bool;
}

/// How long a thread that has just finished a task looks for the next before it sleeps.
///
/// Under load the next task is a few microseconds away, and waking a sleeping thread takes tens of
/// them. RocksDB's write thread yields for up to 100 µs for the same reason
/// (`write_thread_max_yield_usec`).
#[cfg(not(shuttle))]
const SPIN: Duration = Duration::from_micros(50);

/// The pool that all databases of this process share.
#[derive(Debug, Default, Clone, Copy)]
pub struct SharedPool;

#[cfg(not(shuttle))]
static FIRST: LazyLock<Pool> = LazyLock::new(Pool::new);

/// The pool of this process.
#[cfg(not(shuttle))]
fn pool() -> &'static Pool {
    let mut pool = &*FIRST;
    while pool.process != std::process::id() {
        pool = pool.of_child.get_or_init(|| Box::new(Pool::new()));
    }
    pool
}

#[cfg(not(shuttle))]
impl Spawn for SharedPool {
    fn spawn(&self, task: Task) {
        pool().push(|lines| lines.tasks.push_back(task));
    }

    fn spawn_callback(&self, callback: Task) {
        pool().push(|lines| lines.callbacks.push_back(callback));
    }

    fn is_crowded(&self) -> bool {
        pool().unattended.load(Ordering::Relaxed) > 0
    }
}

#[cfg(not(shuttle))]
struct Pool {
    process: u32,
    /// The pool of a process that was forked from this one, in that process alone.
    of_child: OnceLock<Box<Pool>>,
    lines: Mutex<Lines>,
    /// What `Lines::runnable` was when the lines were last unlocked: a hint for those without the
    /// lock.
    runnable: AtomicUsize,
    /// The same of `Lines::unattended`.
    unattended: AtomicUsize,
    may_spin: bool,
}

#[cfg(not(shuttle))]
#[derive(Default)]
struct Lines {
    tasks: VecDeque<Task>,
    callbacks: VecDeque<Task>,
    callbacks_running: usize,
    threads: usize,
    /// Threads that look for work without sleeping.
    spinning: usize,
    /// Threads that were started or woken for work and are not there yet.
    called: usize,
    /// Threads that sleep; the last to fall asleep, whose caches are warmest, is woken first.
    sleeping: Vec<Thread>,
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

    /// How many of those no thread is about to take.
    fn unattended(&self) -> usize {
        self.runnable().saturating_sub(self.spinning + self.called)
    }
}

#[cfg(not(shuttle))]
impl Pool {
    fn new() -> Self {
        Self {
            process: std::process::id(),
            of_child: OnceLock::new(),
            lines: Mutex::default(),
            runnable: AtomicUsize::new(0),
            unattended: AtomicUsize::new(0),
            may_spin: thread::available_parallelism().is_ok_and(|cores| cores.get() > 1),
        }
    }

    fn push(&'static self, enqueue: impl FnOnce(&mut Lines)) {
        let mut lines = lock(&self.lines);
        enqueue(&mut lines);
        self.call(lines);
    }

    fn hint(&self, lines: &Lines) {
        self.runnable.store(lines.runnable(), Ordering::Relaxed);
        self.unattended.store(lines.unattended(), Ordering::Relaxed);
    }

    /// Calls another thread if there is work that no thread is about to look for.
    fn call(&'static self, mut lines: MutexGuard<'_, Lines>) {
        let sleeper = if lines.unattended() > 0 { lines.sleeping.pop() } else { None };
        let starts = sleeper.is_none() && lines.unattended() > 0 && lines.threads < THREADS_MAX;
        lines.called += usize::from(starts || sleeper.is_some());
        lines.threads += usize::from(starts);
        self.hint(&lines);
        drop(lines);
        if let Some(sleeper) = sleeper {
            sleeper.unpark();
        } else if starts {
            self.start_thread();
        }
    }

    fn start_thread(&'static self) {
        let started = thread::Builder::new().name("groupcommit".into()).spawn(move || self.work());
        if let Err(error) = started {
            let mut lines = lock(&self.lines);
            lines.threads -= 1;
            lines.called -= 1;
            let stranded = lines.threads == 0;
            drop(lines);
            tracing::error!(%error, "could not start a thread");
            if stranded {
                // Nobody else would ever run it: better slow than never.
                while self.run_next() {}
            }
        }
    }

    fn work(&'static self) {
        WORKS_FOR.with(|works_for| works_for.set(Some(self)));
        lock(&self.lines).called -= 1;
        loop {
            while self.run_next() {}
            self.spin();
            if !self.sleep() {
                return;
            }
        }
    }

    /// Runs one task, if there is one.
    fn run_next(&self) -> bool {
        let next = {
            let mut lines = lock(&self.lines);
            let next = lines.next();
            self.hint(&lines);
            next
        };
        let Some((task, is_callback)) = next else { return false };
        run(task);
        if is_callback {
            lock(&self.lines).callbacks_running -= 1;
        }
        true
    }

    /// Looks for work for a moment without sleeping; one thread at a time.
    fn spin(&self) {
        {
            let mut lines = lock(&self.lines);
            if !self.may_spin || lines.spinning > 0 || lines.runnable() > 0 {
                return;
            }
            lines.spinning += 1;
        }
        let began = Instant::now();
        while self.runnable.load(Ordering::Relaxed) == 0 && began.elapsed() < SPIN {
            thread::yield_now();
        }
        lock(&self.lines).spinning -= 1;
    }

    /// Sleeps until there may be work; `false` when the thread has slept long enough to end.
    fn sleep(&self) -> bool {
        let me = thread::current();
        {
            let mut lines = lock(&self.lines);
            if lines.runnable() > 0 {
                return true;
            }
            if lines.threads > THREADS_MAX {
                lines.threads -= 1; // others came while this or another one was blocked
                return false;
            }
            lines.sleeping.push(me.clone());
        }
        thread::park_timeout(LINGER);
        let mut lines = lock(&self.lines);
        let before = lines.sleeping.len();
        lines.sleeping.retain(|sleeper| sleeper.id() != me.id());
        if lines.sleeping.len() == before {
            lines.called -= 1;
            return true;
        }
        // Still among the sleepers: nobody called; the time is over (or the wake-up was spurious,
        // and then another thread is started when there is work).
        if lines.runnable() == 0 {
            lines.threads -= 1;
            return false;
        }
        true
    }
}

#[cfg(not(shuttle))]
thread_local! {
    /// The pool whose thread this is.
    static WORKS_FOR: Cell<Option<&'static Pool>> = const { Cell::new(None) };
}

/// Calls `wait`, which blocks. A thread of the pool counts as none meanwhile.
#[cfg(not(shuttle))]
pub(crate) fn while_blocked<R>(wait: impl FnOnce() -> R) -> R {
    struct Blocked(&'static Pool);
    impl Drop for Blocked {
        fn drop(&mut self) {
            lock(&self.0.lines).threads += 1;
        }
    }
    let _blocked = WORKS_FOR.with(Cell::get).map(|pool| {
        let mut lines = lock(&pool.lines);
        lines.threads -= 1;
        pool.call(lines);
        Blocked(pool)
    });
    wait()
}

/// A panic ends its task, not the thread: callbacks are callers' code.
#[cfg(not(shuttle))]
fn run(task: Task) {
    if !quiet::quietly(task) {
        tracing::error!("a callback or a task panicked");
    }
}

#[cfg(shuttle)]
pub(crate) fn while_blocked<R>(wait: impl FnOnce() -> R) -> R {
    wait()
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

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_task_for_which_a_thread_was_called_makes_nobody_step_back() {
        let pool: &'static Pool = Box::leak(Box::new(Pool::new()));
        let unattended = || pool.unattended.load(Ordering::Relaxed);
        let (begun, begins) = mpsc::channel();
        let mut gates = Vec::new();
        for count in 0..=THREADS_MAX {
            let begun = begun.clone();
            let (open, gate) = mpsc::channel::<()>();
            gates.push(open);
            pool.push(|lines| {
                lines.tasks.push_back(Box::new(move || {
                    begun.send(()).unwrap();
                    let _is_closed = gate.recv();
                }));
            });
            // Whether or not the thread is there already; the last task has none.
            assert_eq!(unattended(), usize::from(count == THREADS_MAX));
        }
        for _ in 0..THREADS_MAX {
            begins.recv().unwrap();
        }
        assert_eq!(lock(&pool.lines).called, 0);
        assert_eq!(unattended(), 1, "every thread is inside a task");
        drop(gates);
        begins.recv().unwrap();
        assert_eq!(unattended(), 0);
    }
}
