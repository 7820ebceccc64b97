//! An engine in memory that keeps account of what a power cut would leave, and the ways to run a
//! scenario: many times on real threads, or, under `--cfg shuttle`, over explored interleavings.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
};

use groupcommit_core::{
    Cause, Engine, ExclusiveEnd, Executed, Flush, Group, Limits, Pipeline, Ran, Settings,
};

#[cfg(not(shuttle))]
pub(crate) use std::thread;

#[cfg(shuttle)]
pub(crate) use shuttle::thread;

/// Runs a scenario often enough to meet its races.
#[cfg(not(shuttle))]
pub(crate) fn explore(scenario: fn()) {
    for _ in 0..100 {
        scenario();
    }
}

/// Explores interleavings of a scenario: at random, and with few, well placed preemptions (PCT).
#[cfg(shuttle)]
pub(crate) fn explore(scenario: fn()) {
    let iterations = std::env::var("GROUPCOMMIT_INTERLEAVINGS")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(1_000);
    shuttle::check_random(scenario, iterations);
    shuttle::check_pct(scenario, iterations, 3);
}

/// What the database holds, and what of it a power cut would leave.
#[derive(Default)]
pub(crate) struct Disk {
    state: Mutex<Contents>,
    /// The engine was closed: nothing of it may be called any more.
    closed: AtomicBool,
    /// Flushes that succeed before one fails; negative for "never fails".
    flushes_left: AtomicI64,
    pub(crate) flushes: AtomicU64,
    /// Commits wait for it, so that groups take in what arrives meanwhile.
    commits_wait: bool,
    /// What happens during each flush.
    pub(crate) during_flush: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Debug, Default, Clone)]
struct Contents {
    values: Vec<u64>,
    durable: usize,
}

impl Disk {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { flushes_left: AtomicI64::new(i64::MAX), ..Self::default() })
    }

    pub(crate) fn for_which_commits_wait() -> Arc<Self> {
        let flushes_left = AtomicI64::new(i64::MAX);
        Arc::new(Self { flushes_left, commits_wait: true, ..Self::default() })
    }

    pub(crate) fn failing_after(flushes: i64) -> Arc<Self> {
        Arc::new(Self { flushes_left: AtomicI64::new(flushes), ..Self::default() })
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything committed, in order.
    pub(crate) fn values(&self) -> Vec<u64> {
        self.contents().values.clone()
    }

    /// What a power cut now would leave.
    pub(crate) fn durable(&self) -> Vec<u64> {
        let contents = self.contents();
        contents.values[..contents.durable].to_vec()
    }
}

/// What closures are given: the values of the group so far.
#[derive(Debug, Default)]
pub(crate) struct Tx {
    values: Vec<u64>,
}

impl Tx {
    pub(crate) fn put(&mut self, value: u64) {
        self.values.push(value);
    }
}

pub(crate) struct Memory(pub(crate) Arc<Disk>);

pub(crate) struct MemoryFlusher(Arc<Disk>);

/// What a failing flush says.
#[derive(Debug)]
pub(crate) struct DiskFailed;

impl std::fmt::Display for DiskFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the disk failed")
    }
}

impl std::error::Error for DiskFailed {}

impl Engine for Memory {
    type Transaction<'g> = Tx;
    type Exclusive = Tx;
    type Flusher = MemoryFlusher;

    fn flusher(&self) -> MemoryFlusher {
        MemoryFlusher(self.0.clone())
    }

    fn commit_waits(&self) -> bool {
        self.0.commits_wait
    }

    fn execute(&mut self, group: &mut Group<Self>) -> Result<Executed, Cause> {
        assert!(!self.0.closed.load(Ordering::Relaxed), "executed after it was closed");
        let mut tx = Tx::default();
        while let Some(member) = group.next_member() {
            let before = tx.values.len();
            if group.run(member, &mut tx) != Ran::Completed {
                tx.values.truncate(before);
            }
            thread::yield_now();
        }
        let commits = u64::from(!tx.values.is_empty());
        self.0.contents().values.append(&mut tx.values);
        Ok(Executed { commits })
    }

    fn exclusive(&mut self, run: &mut dyn FnMut(&mut Tx) -> Ran) -> Result<ExclusiveEnd, Cause> {
        let mut tx = Tx::default();
        if run(&mut tx) == Ran::Completed {
            self.0.contents().values.append(&mut tx.values);
        }
        Ok(ExclusiveEnd::Kept)
    }

    fn close(&mut self) -> Result<(), Cause> {
        assert!(!self.0.closed.swap(true, Ordering::Relaxed), "closed twice");
        Ok(())
    }
}

impl Flush for MemoryFlusher {
    /// Covers what was committed when it began, and nothing that came while it ran.
    fn flush(&self) -> Result<(), Cause> {
        let began_with = self.0.contents().values.len();
        thread::yield_now();
        if let Some(during_flush) = self.0.during_flush.get() {
            during_flush();
        }
        self.0.flushes.fetch_add(1, Ordering::Relaxed);
        // A disk that fails once and then says that all is well, as disks do.
        if self.0.flushes_left.fetch_sub(1, Ordering::Relaxed) == 0 {
            return Err(Arc::new(DiskFailed));
        }
        let mut contents = self.0.contents();
        contents.durable = contents.durable.max(began_with);
        Ok(())
    }
}

pub(crate) fn open(disk: &Arc<Disk>) -> Arc<Pipeline<Memory>> {
    open_with(disk, Limits::default())
}

pub(crate) fn open_with(disk: &Arc<Disk>, limits: Limits) -> Arc<Pipeline<Memory>> {
    let settings = Settings { limits, ..Settings::default() };
    Arc::new(Pipeline::new(Memory(disk.clone()), settings))
}

/// A transaction that writes `value` and returns it.
pub(crate) fn put(value: u64) -> impl FnMut(&mut Tx) -> Result<u64, String> + Send + 'static {
    move |tx| {
        tx.put(value);
        Ok(value)
    }
}
