//! A closed loop that carries a workload to a condition and notes when each transaction was answered:
//! callers that block, callers that keep a window of tickets outstanding, and callers that read in
//! between. It knows no database.
//!
//! 1. Rows are claimed in ascending order from one [`Cursor`], whatever the number of threads, and
//!    every claimed row is submitted: the rows written are a prefix of the workload, also when the
//!    time limit ends a run early.
//! 2. In a closed loop the answer to one transaction is the moment the next is submitted, so one
//!    reading of the clock serves as both: one reading a transaction, and one more while a window
//!    fills. The clock is the processor's own counter where it runs evenly: reading it is the
//!    dearest part of what the lab itself costs.
//! 3. While the clock runs, a completion is one append to a list that belongs to the thread and has
//!    its memory already. Histograms and series are made from the lists afterwards.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::Duration;

use quanta::Instant;

use crate::cpu_time::{CpuMeter, CpuTime};

/// How often a running measurement reports how far it is.
const REPORT_EVERY: Duration = Duration::from_secs(2);

/// One answered transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Completion {
    /// When the caller had its answer, since the start, in nanoseconds.
    pub(crate) at_ns: u64,
    /// From submit to the answer, in nanoseconds.
    pub(crate) latency_ns: u64,
    /// Rows in the transaction.
    pub(crate) rows: u64,
}

/// Fills memory ahead; all bits set, since zeros would be provided without being touched.
const NO_COMPLETION: Completion =
    Completion { at_ns: u64::MAX, latency_ns: u64::MAX, rows: u64::MAX };

/// What to drive: how many rows, how many a transaction, and for how long at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) rows: usize,
    pub(crate) batch: usize,
    pub(crate) limit: Duration,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Driven {
    /// In order of time.
    pub(crate) completions: Vec<Completion>,
    /// How long each read took, in nanoseconds, where there are any.
    pub(crate) reads_ns: Vec<u64>,
    /// From the start to the last answer, reads included, in nanoseconds.
    pub(crate) elapsed_ns: u64,
    /// Arrivals that were never submitted, in an open loop.
    pub(crate) unserved: Option<u64>,
    /// CPU time of the whole process while the clock ran.
    pub(crate) cpu: CpuTime,
}

impl Driven {
    /// Rows of all transactions that were answered.
    pub(crate) fn acknowledged_rows(&self) -> u64 {
        self.completions.iter().map(|completion| completion.rows).sum()
    }
}

/// Hands out the rows, each once and in order, until they are used up, the time is, or a caller
/// failed.
#[derive(Debug)]
struct Cursor {
    next: AtomicUsize,
    stopped: AtomicBool,
    load: Load,
    limit_ns: u64,
}

impl Cursor {
    fn new(load: Load) -> Self {
        let limit_ns = u64::try_from(load.limit.as_nanos()).unwrap_or(u64::MAX);
        Self { next: AtomicUsize::new(0), stopped: AtomicBool::new(false), load, limit_ns }
    }

    fn claim(&self, now_ns: u64) -> Option<Range<usize>> {
        if now_ns >= self.limit_ns || self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let from = self.next.fetch_add(self.load.batch, Ordering::Relaxed);
        (from < self.load.rows).then(|| from..self.load.rows.min(from + self.load.batch))
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn claimed(&self) -> usize {
        self.next.load(Ordering::Relaxed).min(self.load.rows)
    }
}

/// One thread's view of a run: the shared cursor, the clock, and its own list.
struct Caller<'a> {
    cursor: &'a Cursor,
    start: Instant,
    completions: Vec<Completion>,
    reads_ns: Vec<u64>,
    last_ns: u64,
}

impl Caller<'_> {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Notes an answer and returns its time, at which the next submission begins.
    fn complete(&mut self, submitted_ns: u64, rows: u64) -> u64 {
        let at_ns = self.now_ns();
        self.completions.push(Completion {
            at_ns,
            latency_ns: at_ns.saturating_sub(submitted_ns),
            rows,
        });
        self.last_ns = at_ns;
        at_ns
    }

    /// Notes a read and returns the time at which it ended.
    fn complete_read(&mut self, began_ns: u64) -> u64 {
        let at_ns = self.now_ns();
        self.reads_ns.push(at_ns.saturating_sub(began_ns));
        self.last_ns = at_ns;
        at_ns
    }
}

/// What became of a submission.
#[derive(Debug)]
pub(crate) enum Submitted<T> {
    /// It was a read, and is over.
    Read,
    /// It was answered.
    Answered,
    /// It is outstanding.
    Outstanding(T),
}

/// `threads` callers that together keep `in_flight` tickets outstanding. `submit` is told the number of
/// its thread and the rows; the oldest outstanding ticket is taken with `wait`.
///
/// The window is divided evenly; there are never more threads than tickets. `running` is told about
/// every two seconds how many rows were claimed so far. On the first error the others stop at their
/// next claim; the error is returned.
pub(crate) fn drive<T, E: Send>(
    load: Load,
    threads: usize,
    in_flight: usize,
    submit: impl Fn(usize, Range<usize>) -> Result<Submitted<T>, E> + Sync,
    wait: impl Fn(T) -> Result<(), E> + Sync,
    running: impl FnMut(usize, Duration),
) -> Result<Driven, E> {
    let threads = submitting_threads(threads, in_flight);
    drive_threads(load, threads, running, |thread, caller| {
        let window = share_of_window(in_flight, threads, thread);
        let mut outstanding = VecDeque::with_capacity(window);
        let mut now_ns = caller.now_ns();
        while let Some(rows) = caller.cursor.claim(now_ns) {
            let count = rows.len() as u64;
            match submit(thread, rows)? {
                Submitted::Read => now_ns = caller.complete_read(now_ns),
                Submitted::Answered => now_ns = caller.complete(now_ns, count),
                Submitted::Outstanding(ticket) => {
                    outstanding.push_back((ticket, now_ns, count));
                    if outstanding.len() < window {
                        now_ns = caller.now_ns();
                    } else if let Some((ticket, submitted_ns, count)) = outstanding.pop_front() {
                        wait(ticket)?;
                        now_ns = caller.complete(submitted_ns, count);
                    }
                }
            }
        }
        for (ticket, submitted_ns, count) in outstanding {
            wait(ticket)?;
            caller.complete(submitted_ns, count);
        }
        Ok(())
    })
}

/// `threads` callers, each with one transaction at a time: `transact` returns once it is answered.
#[cfg(any(test, feature = "rocksdb"))]
pub(crate) fn drive_blocking<E: Send>(
    load: Load,
    threads: usize,
    transact: impl Fn(usize, Range<usize>) -> Result<(), E> + Sync,
    running: impl FnMut(usize, Duration),
) -> Result<Driven, E> {
    let submit = |thread, rows| transact(thread, rows).map(|()| Submitted::Answered);
    drive(load, threads, threads, submit, |()| Ok(()), running)
}

/// Threads that submit when `in_flight` tickets are shared by `threads`: each has at least one.
pub(crate) fn submitting_threads(threads: usize, in_flight: usize) -> usize {
    threads.min(in_flight).max(1)
}

fn share_of_window(in_flight: usize, threads: usize, index: usize) -> usize {
    in_flight / threads + usize::from(index < in_flight % threads)
}

/// Runs `body` on `threads` threads that start together, and gathers what they noted.
fn drive_threads<E: Send>(
    load: Load,
    threads: usize,
    mut running: impl FnMut(usize, Duration),
    body: impl Fn(usize, &mut Caller<'_>) -> Result<(), E> + Sync,
) -> Result<Driven, E> {
    let cursor = Cursor::new(load);
    let ready = Barrier::new(threads + 1);
    // The first reading calibrates the clock, which takes a while.
    let _calibrated = Instant::now();
    let clock = OnceLock::new();
    let expected = load.rows.div_ceil(load.batch).div_ceil(threads);
    thread::scope(|scope| {
        let (finished, all_finished) = mpsc::channel::<()>();
        let callers: Vec<_> = (0..threads)
            .map(|index| {
                let (cursor, ready, clock, body) = (&cursor, &ready, &clock, &body);
                let finished = finished.clone();
                scope.spawn(move || {
                    // Touched ahead, so that no page of it has to be provided while the clock runs.
                    let mut completions = vec![NO_COMPLETION; expected];
                    completions.clear();
                    ready.wait();
                    let start = *clock.get_or_init(Instant::now);
                    let reads_ns = Vec::new();
                    let mut caller = Caller { cursor, start, completions, reads_ns, last_ns: 0 };
                    let outcome = body(index, &mut caller);
                    if outcome.is_err() {
                        cursor.stop();
                    }
                    drop(finished);
                    outcome.map(|()| (caller.completions, caller.reads_ns, caller.last_ns))
                })
            })
            .collect();
        drop(finished);
        let meter = CpuMeter::start();
        ready.wait();
        let start = *clock.get_or_init(Instant::now);
        while let Err(RecvTimeoutError::Timeout) = all_finished.recv_timeout(REPORT_EVERY) {
            running(cursor.claimed(), start.elapsed());
        }
        let cpu = meter.stop();

        let mut completions = Vec::with_capacity(load.rows.div_ceil(load.batch));
        let (mut reads_ns, mut elapsed_ns, mut failure) = (Vec::new(), 0, None);
        for caller in callers {
            match caller.join() {
                Ok(Ok((own, own_reads_ns, last_ns))) => {
                    completions.extend(own);
                    reads_ns.extend(own_reads_ns);
                    elapsed_ns = elapsed_ns.max(last_ns);
                }
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        completions.sort_unstable_by_key(|completion| completion.at_ns);
        failure.map_or(Ok(Driven { completions, reads_ns, elapsed_ns, unserved: None, cpu }), Err)
    })
}

/// What the lab itself costs a transaction while the clock runs, in nanoseconds: claiming rows,
/// keeping the window, reading the clock and noting the completion, measured against a condition
/// that does nothing.
pub(crate) fn lab_cost_ns() -> f64 {
    const TRANSACTIONS: usize = 200_000;
    const IN_FLIGHT: usize = 1_000;
    let load = Load { rows: TRANSACTIONS, batch: 1, limit: Duration::MAX };
    let submit = |_, rows: Range<usize>| Ok(Submitted::Outstanding(std::hint::black_box(rows)));
    let wait = |_: Range<usize>| Ok::<(), std::convert::Infallible>(());
    let Ok(driven) = drive(load, 1, IN_FLIGHT, submit, wait, |_, _| {});
    driven.completions.last().map_or(0.0, |last| last.at_ns as f64 / TRANSACTIONS as f64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use super::*;

    const NO_LIMIT: Duration = Duration::MAX;

    fn load(rows: usize, batch: usize) -> Load {
        Load { rows, batch, limit: NO_LIMIT }
    }

    #[test]
    fn every_row_is_driven_once_by_any_number_of_threads() {
        for threads in [1, 3] {
            let seen = Mutex::new(BTreeSet::new());
            let driven = drive_blocking(
                load(1_003, 10),
                threads,
                |_, rows| {
                    let mut seen = seen.lock().expect("not poisoned");
                    for row in rows {
                        assert!(seen.insert(row), "row {row} came twice");
                    }
                    Ok::<(), ()>(())
                },
                |_, _| {},
            )
            .expect("no failure");
            assert_eq!(seen.into_inner().expect("not poisoned"), (0..1_003).collect());
            assert_eq!(driven.completions.len(), 101);
            assert_eq!(driven.completions.iter().map(|c| c.rows).sum::<u64>(), 1_003);
            assert!(driven.completions.is_sorted_by_key(|c| c.at_ns));
        }
    }

    #[test]
    fn the_window_is_kept_full_and_never_exceeded() {
        for (threads, in_flight) in [(1, 7), (3, 7), (5, 2)] {
            let outstanding = Mutex::new((0_usize, 0_usize)); // now, most
            let driven = drive(
                load(500, 1),
                threads,
                in_flight,
                |_, rows| {
                    let mut outstanding = outstanding.lock().expect("not poisoned");
                    outstanding.0 += 1;
                    outstanding.1 = outstanding.1.max(outstanding.0);
                    Ok(Submitted::Outstanding(rows.len()))
                },
                |_| {
                    outstanding.lock().expect("not poisoned").0 -= 1;
                    Ok::<(), ()>(())
                },
                |_, _| {},
            )
            .expect("no failure");
            let (now, most) = *outstanding.lock().expect("not poisoned");
            assert_eq!(now, 0, "all tickets are awaited");
            assert!(most <= in_flight);
            if threads == 1 {
                assert_eq!(most, in_flight);
            }
            assert_eq!(driven.completions.len(), 500);
        }
    }

    #[test]
    fn the_shares_of_the_window_add_up() {
        for (in_flight, threads) in [(1_000, 1), (1_000, 7), (2, 8), (1, 1)] {
            let threads = submitting_threads(threads, in_flight);
            let shares: Vec<_> =
                (0..threads).map(|i| share_of_window(in_flight, threads, i)).collect();
            assert_eq!(shares.iter().sum::<usize>(), in_flight);
            assert!(shares.iter().all(|&share| share > 0));
        }
    }

    #[test]
    fn tickets_are_awaited_oldest_first() {
        let order = Mutex::new(Vec::new());
        drive(
            load(50, 1),
            1,
            8,
            |_, rows| Ok(Submitted::Outstanding(rows.start)),
            |row| {
                order.lock().expect("not poisoned").push(row);
                Ok::<(), ()>(())
            },
            |_, _| {},
        )
        .expect("no failure");
        assert_eq!(order.into_inner().expect("not poisoned"), (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn mixed_operations_keep_their_order_and_at_most_a_window_outstanding() {
        for in_flight in [1, 5] {
            let (order, outstanding) = (Mutex::new(Vec::new()), Mutex::new((0, 0)));
            let submit = |_, rows: Range<usize>| {
                order.lock().expect("not poisoned").push(rows.start);
                let is_write = rows.start % 2 == 1;
                let mut outstanding = outstanding.lock().expect("not poisoned");
                outstanding.0 += usize::from(is_write);
                outstanding.1 = outstanding.1.max(outstanding.0);
                Ok::<_, ()>(if is_write { Submitted::Outstanding(()) } else { Submitted::Read })
            };
            let wait = |()| {
                outstanding.lock().expect("not poisoned").0 -= 1;
                Ok(())
            };
            let driven =
                drive(load(101, 1), 1, in_flight, submit, wait, |_, _| {}).expect("no failure");
            assert_eq!((driven.completions.len(), driven.reads_ns.len()), (50, 51));
            assert_eq!(order.into_inner().expect("not poisoned"), (0..101).collect::<Vec<_>>());
            assert_eq!(outstanding.into_inner().expect("not poisoned"), (0, in_flight));
        }
    }

    #[test]
    fn a_failure_ends_the_run_and_is_returned() {
        let attempts = AtomicUsize::new(0);
        let error = drive_blocking(
            load(1_000_000, 1),
            2,
            |_, rows| {
                attempts.fetch_add(1, Ordering::Relaxed);
                if rows.start == 10 { Err("disk full") } else { Ok(()) }
            },
            |_, _| {},
        )
        .expect_err("row 10 fails");
        assert_eq!(error, "disk full");
    }

    #[test]
    fn the_time_limit_ends_a_run_with_a_prefix() {
        // Each transaction lasts a quarter of the limit at least.
        let limit = Duration::from_millis(1);
        let written = AtomicUsize::new(0);
        let driven = drive_blocking(
            Load { rows: 1_000, batch: 5, limit },
            1,
            |_, rows| {
                assert_eq!(written.fetch_add(rows.len(), Ordering::Relaxed), rows.start);
                let began = Instant::now();
                while began.elapsed() < limit / 4 {
                    std::hint::spin_loop();
                }
                Ok::<(), ()>(())
            },
            |_, _| {},
        )
        .expect("no failure");
        let rows: u64 = driven.completions.iter().map(|c| c.rows).sum();
        assert_eq!(rows, written.load(Ordering::Relaxed) as u64);
        assert!(rows <= 20, "at most four transactions of 5 rows fit into the limit");
    }

    #[test]
    fn a_limit_of_nothing_drives_nothing() {
        let driven = drive_blocking(
            Load { rows: 100, batch: 1, limit: Duration::ZERO },
            2,
            |_, _| -> Result<(), ()> { panic!("nothing may be claimed") },
            |_, _| {},
        )
        .expect("no failure");
        assert!(driven.completions.is_empty());
    }
}
