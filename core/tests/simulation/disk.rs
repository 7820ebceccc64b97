//! The simulated disk under a simulated database: a log of commits in sectors, a volatile cache
//! above them, and a power cut at a moment that the seed chooses.
//!
//! A commit writes its record to the cache. A flush takes time and then has on the disk what was
//! written when it began. Meanwhile single sectors may reach the disk by themselves, in any order. A
//! power cut keeps what is on the disk and any of the sectors in the cache; what is recovered then
//! is the longest run of whole records. A flush that fails forgets what it should have written, as
//! operating systems do: a later flush succeeds without it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use groupcommit_core::Cause;

use crate::schedule::SimulatedClock;

/// What a failing disk says.
#[derive(Debug)]
pub(crate) struct DiskError(pub(crate) &'static str);

impl std::fmt::Display for DiskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for DiskError {}

/// What goes wrong with a disk, and when: counted in its own steps.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) power_cut_at: Option<u64>,
    /// Which commit fails, after it took effect or without.
    pub(crate) commit_fails_at: Option<u64>,
    pub(crate) flush_fails_at: Option<u64>,
    pub(crate) flush_ns_max: u64,
}

/// One commit: the transactions in it, and which of its sectors are on the disk.
#[derive(Debug, Clone)]
struct Record {
    transactions: Vec<u64>,
    on_disk: Vec<bool>,
    /// The cache takes it for written although it is not.
    forgotten: bool,
}

#[derive(Debug)]
struct State {
    rng: fastrand::Rng,
    faults: Faults,
    log: Vec<Record>,
    steps: u64,
    commits: u64,
    flushes: u64,
    is_flushing: bool,
    /// A commit or flush has failed, or the power is off.
    failed: bool,
    flush_failed: bool,
    /// What is recovered after the power cut.
    survivors: Option<Vec<u64>>,
    violations: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Disk {
    clock: Arc<SimulatedClock>,
    state: Mutex<State>,
}

impl Disk {
    /// A disk that holds the transactions of `recovered`, all flushed.
    pub(crate) fn new(
        clock: Arc<SimulatedClock>,
        rng: fastrand::Rng,
        faults: Faults,
        recovered: &[u64],
    ) -> Self {
        let whole =
            |&id: &u64| Record { transactions: vec![id], on_disk: vec![true], forgotten: false };
        let state = State {
            rng,
            faults,
            log: recovered.iter().map(whole).collect(),
            steps: 0,
            commits: 0,
            flushes: 0,
            is_flushing: false,
            failed: false,
            flush_failed: false,
            survivors: None,
            violations: Vec::new(),
        };
        Self { clock, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a commit to the log, in the cache.
    pub(crate) fn commit(&self, transactions: Vec<u64>) -> Result<(), Cause> {
        let took_ns = self.state().rng.u64(0..20_000);
        self.clock.sleep(took_ns);
        let mut state = self.state();
        state.step()?;
        state.commits += 1;
        let fails = state.faults.commit_fails_at == Some(state.commits);
        if !fails || state.rng.bool() {
            let sectors = state.rng.usize(1..4);
            let on_disk = vec![false; sectors];
            state.log.push(Record { transactions, on_disk, forgotten: false });
        }
        if fails {
            return Err(state.fail("a commit could not be confirmed"));
        }
        state.step()
    }

    /// Makes durable what was committed before it began.
    pub(crate) fn flush(&self) -> Result<(), Cause> {
        let (covered, pieces) = {
            let mut state = self.state();
            if std::mem::replace(&mut state.is_flushing, true) {
                state.violations.push("two flushes at once".into());
            }
            if state.flush_failed {
                state.violations.push("a flush after one that failed".into());
            }
            (state.log.len(), state.rng.usize(0..3))
        };
        let flushed = self.write_out(covered, pieces);
        let mut state = self.state();
        state.is_flushing = false;
        state.flush_failed |= flushed.is_err();
        flushed
    }

    fn write_out(&self, covered: usize, pieces: usize) -> Result<(), Cause> {
        self.state().step()?;
        for _ in 0..=pieces {
            let took_ns = {
                let mut state = self.state();
                let longest_ns = state.faults.flush_ns_max;
                state.rng.u64(0..longest_ns)
            };
            self.clock.sleep(took_ns);
            self.state().step()?;
        }
        let mut state = self.state();
        state.flushes += 1;
        if state.faults.flush_fails_at == Some(state.flushes) {
            for record in &mut state.log[..covered] {
                record.forgotten |= record.on_disk.contains(&false);
            }
            return Err(state.fail("a flush failed"));
        }
        for record in state.log[..covered].iter_mut().filter(|record| !record.forgotten) {
            record.on_disk.fill(true);
        }
        state.step()
    }

    /// Whether a power cut now could not take `transaction` away.
    pub(crate) fn is_durable(&self, transaction: u64) -> bool {
        let state = self.state();
        match &state.survivors {
            Some(survivors) => survivors.contains(&transaction),
            None => {
                state.recovered(|record| !record.on_disk.contains(&false)).contains(&transaction)
            }
        }
    }

    /// Everything committed, in order.
    pub(crate) fn log(&self) -> Vec<u64> {
        self.state().recovered(|_| true)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.state().failed
    }

    /// Cuts the power, unless it is off, and returns what is recovered.
    pub(crate) fn cut(&self) -> Vec<u64> {
        let mut state = self.state();
        state.cut();
        state.survivors.clone().unwrap_or_default()
    }

    pub(crate) fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.state().violations)
    }
}

impl State {
    /// One step of the disk: a sector may reach it by itself, or the power may go.
    fn step(&mut self) -> Result<(), Cause> {
        self.steps += 1;
        let volatile: Vec<(usize, usize)> = self
            .log
            .iter()
            .enumerate()
            .filter(|(_, record)| !record.forgotten)
            .flat_map(|(at, record)| (0..record.on_disk.len()).map(move |sector| (at, sector)))
            .filter(|&(at, sector)| !self.log[at].on_disk[sector])
            .collect();
        if let Some(&(at, sector)) = self.rng.choice(&volatile)
            && self.rng.u8(0..4) == 0
        {
            self.log[at].on_disk[sector] = true;
        }
        if self.faults.power_cut_at == Some(self.steps) {
            self.cut();
        }
        if self.survivors.is_some() { Err(self.fail("the power is off")) } else { Ok(()) }
    }

    fn cut(&mut self) {
        if self.survivors.is_some() {
            return;
        }
        let kept_of_16 = self.rng.u8(0..=16);
        for record in &mut self.log {
            for sector in &mut record.on_disk {
                *sector |= !record.forgotten && self.rng.u8(0..16) < kept_of_16;
            }
        }
        self.survivors = Some(self.recovered(|record| !record.on_disk.contains(&false)));
    }

    /// The transactions of the longest run of records that are `whole`.
    fn recovered(&self, whole: impl Fn(&Record) -> bool) -> Vec<u64> {
        let records = self.log.iter().take_while(|record| whole(record));
        records.flat_map(|record| record.transactions.iter().copied()).collect()
    }

    fn fail(&mut self, what: &'static str) -> Cause {
        self.failed = true;
        Arc::new(DiskError(what))
    }
}
