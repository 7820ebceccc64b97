//! Making histories: writers and readers on threads of their own, against any [`Store`], checked
//! round by round so that memory stays bounded however long it goes on.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;

use super::{Checked, History, Read, State, Token, Violation, Write, check};

/// Of the durable reads of a thread, one in so many is compared with [`Store::durable`], which may
/// cost more than the read.
const WITNESSED: usize = 4;

/// Between two reads, a reader rests for less than so many microseconds.
const PAUSE_US_MAX: u64 = 1_000;

/// A database under test. Its methods may panic: then the run has failed.
pub trait Store: Sync {
    /// A write that was submitted and is waited for.
    type Pending: Send;

    /// Submits a transaction that adds one to the position and puts `token` into `cells`; with
    /// `fails`, it then fails of itself and must leave nothing.
    fn submit(&self, token: Token, cells: &[u16], fails: bool) -> Self::Pending;

    /// Waits for it; the position that it took, `None` when it failed as asked.
    fn wait(&self, pending: Self::Pending) -> Option<u64>;

    /// Reads the position and all cells, in one snapshot.
    fn read(&self, durable: bool) -> State;

    /// How many commits of this workload are durable, by a count other than that of the position.
    fn durable(&self) -> u64;
}

/// How much is done, and by how many.
#[derive(Debug, Clone)]
pub struct Load {
    /// Threads that write.
    pub writers: usize,
    /// Threads that read: every second one durably.
    pub readers: usize,
    /// Cells.
    pub cells: u16,
    /// Writes of each writer in one round; then all rest, and the history is checked.
    pub writes_a_round: usize,
    /// Rounds go on until this much time has passed; at least one is made.
    pub time: Duration,
    /// What all random choices follow from; the threads' interleaving does not.
    pub seed: u64,
}

/// What a run came to.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Rounds, each checked.
    pub rounds: u64,
    /// Commits.
    pub commits: u64,
    /// Writes that failed as they were asked to.
    pub failed: u64,
    /// Reads that were not durable.
    pub reads: u64,
    /// Durable reads.
    pub durable_reads: u64,
    /// Reads that saw more than what was resolved when they began.
    pub reads_beside_commits: u64,
    /// The longest wait of each writer for one ticket, in milliseconds.
    pub longest_write_ms: Vec<f64>,
    /// The longest wait of each reader for one read, in milliseconds.
    pub longest_read_ms: Vec<f64>,
    /// Wall clock, in seconds.
    pub seconds: f64,
}

/// Runs `load` on `store`, which must be empty; calls `after_round` after each round.
///
/// # Errors
///
/// The first violation that a history holds.
///
/// # Panics
///
/// When a method of the store does.
pub fn drive<S: Store>(
    store: &S,
    load: &Load,
    mut after_round: impl FnMut(&Summary),
) -> Result<Summary, Violation> {
    let began = Instant::now();
    let mut state = State::new(usize::from(load.cells));
    let mut summary = Summary {
        longest_write_ms: vec![0.0; load.writers],
        longest_read_ms: vec![0.0; load.readers],
        ..Summary::default()
    };
    loop {
        let history = round(store, load, &mut summary);
        let Checked { end, commits, reads_beside_commits } = check(&state, &history)?;
        summary.rounds += 1;
        summary.commits += commits;
        summary.failed += history.writes.len() as u64 - commits;
        summary.reads_beside_commits += reads_beside_commits;
        // At rest, everybody sees everything.
        let at_rest = store.read(true);
        if at_rest != end {
            let read = Read { seen: at_rest, began_ns: 0, ended_ns: u64::MAX, durable: None };
            return Err(Violation::Torn { read });
        }
        state = end;
        summary.seconds = began.elapsed().as_secs_f64();
        after_round(&summary);
        if began.elapsed() >= load.time {
            return Ok(summary);
        }
    }
}

/// One round of all threads.
fn round<S: Store>(store: &S, load: &Load, summary: &mut Summary) -> History {
    let clock = Instant::now();
    let history = Mutex::new(History::default());
    let writing = AtomicUsize::new(load.writers);
    let durable_reads = AtomicU64::new(0);
    let round = summary.rounds;
    thread::scope(|scope| {
        let (history, writing, durable_reads) = (&history, &writing, &durable_reads);
        for (writer, longest_ms) in summary.longest_write_ms.iter_mut().enumerate() {
            scope.spawn(move || {
                let _done = Countdown(writing);
                let first = ((round * load.writers as u64 + writer as u64)
                    * load.writes_a_round as u64)
                    + 1;
                let rng = Rng::with_seed(load.seed ^ first);
                let writes = write(store, load, clock, writer, first, rng);
                for write in &writes {
                    *longest_ms = longest_ms.max(ms(write.ended_ns - write.began_ns));
                }
                lock(history).writes.extend(writes);
            });
        }
        for (reader, longest_ms) in summary.longest_read_ms.iter_mut().enumerate() {
            scope.spawn(move || {
                let durable = reader % 2 == 1;
                let mut reads = Vec::new();
                let mut rng = Rng::with_seed(load.seed ^ reader as u64);
                while writing.load(Relaxed) > 0 {
                    let witness = durable && reads.len() % WITNESSED == 0;
                    let read = read(store, clock, durable, witness);
                    *longest_ms = longest_ms.max(ms(read.ended_ns - read.began_ns));
                    reads.push(read);
                    // Else readers would take all of a small machine for themselves.
                    thread::sleep(Duration::from_micros(rng.u64(0..PAUSE_US_MAX)));
                }
                if durable {
                    durable_reads.fetch_add(reads.len() as u64, Relaxed);
                }
                lock(history).reads.extend(reads);
            });
        }
    });
    let history = history.into_inner().unwrap_or_else(PoisonError::into_inner);
    let durable_reads = durable_reads.into_inner();
    summary.durable_reads += durable_reads;
    summary.reads += history.reads.len() as u64 - durable_reads;
    history
}

/// The writes of one writer: the even ones wait for each before the next, the odd ones keep a random
/// number in flight.
fn write<S: Store>(
    store: &S,
    load: &Load,
    clock: Instant,
    writer: usize,
    first: Token,
    mut rng: Rng,
) -> Vec<Write> {
    let mut done: Vec<Write> = Vec::with_capacity(load.writes_a_round);
    let mut in_flight: VecDeque<(Write, S::Pending)> = VecDeque::new();
    let mut settle = |(mut write, pending): (Write, S::Pending)| {
        write.position = store.wait(pending);
        write.ended_ns = now_ns(clock);
        done.push(write);
    };
    for token in (first..).take(load.writes_a_round) {
        let cells: Vec<u16> = (0..rng.usize(1..4)).map(|_| rng.u16(0..load.cells)).collect();
        let fails = rng.u8(0..64) == 0;
        let began_ns = now_ns(clock);
        let pending = store.submit(token, &cells, fails);
        let mut cells = cells;
        cells.sort_unstable();
        cells.dedup();
        let write = Write { token, cells, began_ns, ended_ns: 0, position: None };
        in_flight.push_back((write, pending));
        let most = if writer.is_multiple_of(2) { 0 } else { rng.usize(0..64) };
        while in_flight.len() > most {
            in_flight.pop_front().into_iter().for_each(&mut settle);
        }
    }
    in_flight.into_iter().for_each(&mut settle);
    done
}

fn read<S: Store>(store: &S, clock: Instant, durable: bool, witness: bool) -> Read {
    let began_ns = now_ns(clock);
    let seen = store.read(durable);
    let ended_ns = now_ns(clock);
    let durable = witness.then(|| store.durable());
    Read { seen, began_ns, ended_ns, durable }
}

/// Counts down when its thread ends, however it does.
struct Countdown<'a>(&'a AtomicUsize);

impl Drop for Countdown<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_ns(clock: Instant) -> u64 {
    u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}
