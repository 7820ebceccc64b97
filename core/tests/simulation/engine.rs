//! The simulated database as the pipeline drives it: members isolated, sometimes odd.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use groupcommit_core::{Cause, Engine, ExclusiveEnd, Executed, Flush, Group, NotRun, Ran};

use crate::{disk::DiskError, history::World};

/// What closures are given: what the group has written so far.
#[derive(Debug, Default)]
pub(crate) struct Tx {
    written: Vec<u64>,
    /// The transaction whose closure was called last.
    called: Option<u64>,
}

impl Tx {
    /// To be called by each closure, first.
    pub(crate) fn enter(&mut self, id: u64) {
        self.called = Some(id);
    }

    pub(crate) fn put(&mut self, id: u64) {
        self.written.push(id);
    }
}

/// How often the engine itself does what engines do, each one in so many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Oddities {
    pub(crate) refuses_group: u32,
    pub(crate) rejects_member: u32,
    pub(crate) runs_again: u32,
    pub(crate) commits_early: u32,
    /// Where the disk fails, the adapter panics.
    pub(crate) panics: bool,
    /// Groups take in what arrives while they are executed.
    pub(crate) commit_waits: bool,
}

pub(crate) struct SimulatedEngine {
    world: Arc<World>,
    oddities: Oddities,
    rng: fastrand::Rng,
    failed: bool,
    closed: AtomicBool,
}

pub(crate) struct SimulatedFlusher {
    world: Arc<World>,
    panics: bool,
}

/// A panic that no hook tells of: it is expected.
pub(crate) fn panic_expected(message: &'static str) -> ! {
    std::panic::resume_unwind(Box::new(message))
}

fn or_panic<T>(result: Result<T, Cause>, panics: bool) -> Result<T, Cause> {
    if panics && result.is_err() {
        panic_expected("the adapter panics");
    }
    result
}

impl SimulatedEngine {
    pub(crate) fn new(world: Arc<World>, oddities: Oddities, rng: fastrand::Rng) -> Self {
        Self { world, oddities, rng, failed: false, closed: AtomicBool::new(false) }
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.rng.u32(0..count) == 0
    }

    fn check_usable(&self, what: &str) {
        if self.failed {
            self.world.violation(format!("{what} after a commit that failed"));
        }
        if self.closed.load(Ordering::Relaxed) {
            self.world.violation(format!("{what} after the engine was closed"));
        }
    }

    /// Commits what was written, if anything was, and says in how many commits.
    fn commit(&mut self, tx: &mut Tx) -> Result<u64, Cause> {
        if tx.written.is_empty() {
            return Ok(0);
        }
        let committed = self.world.disk.commit(std::mem::take(&mut tx.written));
        self.failed |= committed.is_err();
        or_panic(committed, self.oddities.panics).map(|()| 1)
    }

    /// Runs a member and takes back what it wrote unless it completed and the engine accepts it.
    fn run(&mut self, group: &mut Group<Self>, member: usize, again: bool, tx: &mut Tx) -> bool {
        let before = tx.written.len();
        tx.called = None;
        let ran = if again { group.rerun(member, tx) } else { group.run(member, tx) };
        if ran == Ran::Completed {
            if !self.one_in(self.oddities.rejects_member) {
                return true;
            }
            if let Some(id) = tx.called {
                self.world.engine_rejects(id);
            }
            group.reject(member, Arc::new(DiskError("a constraint is not satisfied")));
        }
        tx.written.truncate(before);
        false
    }
}

impl Engine for SimulatedEngine {
    type Transaction<'g> = Tx;
    type Exclusive = Tx;
    type Flusher = SimulatedFlusher;

    fn flusher(&self) -> SimulatedFlusher {
        SimulatedFlusher { world: self.world.clone(), panics: self.oddities.panics }
    }

    fn commit_waits(&self) -> bool {
        self.oddities.commit_waits
    }

    fn execute(&mut self, group: &mut Group<Self>) -> Result<Executed, Cause> {
        self.check_usable("a group is executed");
        if self.one_in(self.oddities.refuses_group) {
            while let Some(member) = group.next_member() {
                group.refuse(member, NotRun::Busy(Arc::new(DiskError("locked"))));
            }
            return Ok(Executed::default());
        }
        let mut tx = Tx::default();
        let mut commits = 0;
        // Those whose effects a roll back would undo.
        let mut open = Vec::new();
        while let Some(member) = group.next_member() {
            if self.run(group, member, false, &mut tx) {
                open.push(member);
            }
            if self.one_in(self.oddities.runs_again) {
                tx.written.clear();
                for member in std::mem::take(&mut open) {
                    if self.run(group, member, true, &mut tx) {
                        open.push(member);
                    }
                }
            }
            if self.one_in(self.oddities.commits_early) {
                commits += self.commit(&mut tx)?;
                open.clear();
            }
        }
        commits += self.commit(&mut tx)?;
        Ok(Executed { commits })
    }

    fn exclusive(&mut self, run: &mut dyn FnMut(&mut Tx) -> Ran) -> Result<ExclusiveEnd, Cause> {
        self.check_usable("an exclusive runs");
        if self.one_in(self.oddities.refuses_group) {
            return Ok(ExclusiveEnd::Refused(NotRun::Busy(Arc::new(DiskError("locked")))));
        }
        let mut tx = Tx::default();
        if run(&mut tx) == Ran::Completed {
            if self.one_in(self.oddities.rejects_member) {
                if let Some(id) = tx.called {
                    self.world.engine_rejects(id);
                }
                return Ok(ExclusiveEnd::Rejected(Arc::new(DiskError("left a transaction open"))));
            }
            self.commit(&mut tx)?;
        }
        Ok(ExclusiveEnd::Kept)
    }

    fn close(&mut self) -> Result<(), Cause> {
        if self.closed.swap(true, Ordering::Relaxed) {
            self.world.violation("the engine was closed twice".into());
        }
        Ok(())
    }
}

impl Flush for SimulatedFlusher {
    fn flush(&self) -> Result<(), Cause> {
        or_panic(self.world.disk.flush(), self.panics)
    }
}

/// Threads for tasks: each its own, and crowded whenever the seed says so.
#[derive(Debug)]
pub(crate) struct SimulatedPool {
    rng: Mutex<fastrand::Rng>,
    crowded_one_in: u32,
    /// Tasks that have not ended.
    pub(crate) running: Arc<std::sync::atomic::AtomicUsize>,
}

impl SimulatedPool {
    pub(crate) fn new(mut rng: fastrand::Rng) -> Self {
        let crowded_one_in = rng.u32(1..8);
        Self { rng: Mutex::new(rng), crowded_one_in, running: Arc::default() }
    }
}

impl groupcommit_core::Spawn for SimulatedPool {
    fn spawn(&self, task: groupcommit_core::Task) {
        let running = self.running.clone();
        running.fetch_add(1, Ordering::Relaxed);
        shuttle::thread::spawn(move || {
            task();
            running.fetch_sub(1, Ordering::Relaxed);
        });
    }

    fn spawn_callback(&self, callback: groupcommit_core::Task) {
        self.spawn(callback);
    }

    fn is_crowded(&self) -> bool {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        rng.u32(0..self.crowded_one_in) == 0
    }
}
