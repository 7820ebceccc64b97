//! Twice as much as the database can take: refusals are explicit, memory stays flat, and nobody is
//! starved.

use std::{
    collections::VecDeque,
    fs,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use groupcommit_sqlite::{Database, Failure, NotRun, Terms, Ticket, Transaction, rusqlite};
use serde::Serialize;

use crate::{long_form, say};

/// How much is offered.
#[derive(Debug, Clone)]
struct Load {
    /// Transactions by which the capacity is measured.
    capacity_transactions: u64,
    /// How long too much is offered.
    time: Duration,
    /// Offers of each submitter after which it stops anyway.
    offers_max: u64,
}

/// Submitters that refuse to wait, each offering the same share; every second one with a deadline.
const IMPATIENT: usize = 4;

/// Submitters that wait for room and for each ticket, with a deadline.
const PATIENT: usize = 2;

/// Rows of a thousand bytes, one of which each transaction writes anew.
const ROWS: i64 = 20_000;

/// The deadline of those who do not wait.
const DEADLINE: Duration = Duration::from_millis(250);

/// The deadline of those who wait.
const DEADLINE_PATIENT: Duration = Duration::from_secs(5);

/// Offered, as a multiple of the capacity.
const FACTOR: f64 = 2.0;

/// What a run came to.
#[derive(Debug, Serialize)]
struct OverloadRun {
    seconds: f64,
    capacity_per_second: f64,
    offered_per_second: f64,
    offered: u64,
    committed: u64,
    refused: u64,
    late: u64,
    unaccounted: u64,
    /// After each tenth of the time.
    resident_mib: Vec<f64>,
    resident_mib_max: f64,
    resident_slope_kib_per_minute: f64,
    submitters: Vec<Submitter>,
}

/// What became of one submitter's transactions.
#[derive(Debug, Default, Serialize)]
struct Submitter {
    name: &'static str,
    offered: u64,
    committed: u64,
    refused: u64,
    late: u64,
    /// From the offer to the resolution, of those that were admitted.
    longest_wait_ms: f64,
    /// Between two that were admitted.
    longest_without_ms: f64,
}

type Closure = Box<dyn FnMut(&mut Transaction<'_>) -> rusqlite::Result<usize> + Send>;

/// One transaction of submitter `id`.
fn transaction(id: usize) -> Closure {
    let id = i64::try_from(id).unwrap_or(i64::MAX);
    let row = fastrand::i64(0..ROWS);
    Box::new(move |tx| {
        tx.execute("UPDATE filler SET b = randomblob(1000) WHERE id = ?1", [row])?;
        tx.execute("UPDATE counted SET n = n + 1 WHERE id = ?1", [id])
    })
}

#[test]
fn every_offer_is_accounted_for() {
    let load = match long_form() {
        Some(time) => Load { capacity_transactions: 400_000, time, offers_max: u64::MAX },
        // The offers are the limit.
        None => {
            Load { capacity_transactions: 2_000, time: Duration::from_hours(1), offers_max: 5_000 }
        }
    };
    let run = run(&load);
    assert!(long_form().is_some() || run.offered >= 4 * load.offers_max, "{run:?}");
    assert_eq!(run.offered, run.committed + run.refused + run.late, "{run:?}");
    say("overload", &run);
}

fn run(load: &Load) -> OverloadRun {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("overload.db")).unwrap();
    db.transact(|tx| {
        tx.execute_batch(
            "CREATE TABLE counted (id INTEGER PRIMARY KEY, n INTEGER);
             WITH RECURSIVE c (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 99)
             INSERT INTO counted SELECT i, 0 FROM c;
             CREATE TABLE filler (id INTEGER PRIMARY KEY, b BLOB);",
        )?;
        tx.execute(
            "WITH RECURSIVE c (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < ?1 - 1)
             INSERT INTO filler SELECT i, zeroblob(1000) FROM c",
            [ROWS],
        )
    })
    .unwrap();
    let capacity_per_second = capacity(&db, load.capacity_transactions);
    let each_per_second = capacity_per_second * FACTOR / IMPATIENT as f64;
    let began = Instant::now();
    let stop = AtomicBool::new(false);
    let (submitters, samples) = thread::scope(|scope| {
        let (db, stop) = (&db, &stop);
        let sampler = scope.spawn(move || sample(began, stop));
        let impatient: Vec<_> = (0..IMPATIENT)
            .map(|id| scope.spawn(move || offer(db, load, began, id, each_per_second)))
            .collect();
        let patient: Vec<_> = (IMPATIENT..IMPATIENT + PATIENT)
            .map(|id| scope.spawn(move || insist(db, load, began, stop, id)))
            .collect();
        let ended: Vec<_> = impatient.into_iter().map(thread::ScopedJoinHandle::join).collect();
        stop.store(true, Relaxed);
        let ended =
            ended.into_iter().chain(patient.into_iter().map(thread::ScopedJoinHandle::join));
        let submitters: Vec<Submitter> = ended.map(Result::unwrap).collect();
        (submitters, sampler.join().unwrap())
    });
    let seconds = began.elapsed().as_secs_f64();
    let sum = |of: fn(&Submitter) -> u64| submitters.iter().map(of).sum::<u64>();
    let (offered, committed) = (sum(|one| one.offered), sum(|one| one.committed));
    let (refused, late) = (sum(|one| one.refused), sum(|one| one.late));
    let mut unaccounted = offered.abs_diff(committed + refused + late);
    for (id, one) in (0_i64..).zip(&submitters) {
        let count = "SELECT n FROM counted WHERE id = ?1";
        let n: i64 = db.read(|conn| conn.query_row(count, [id], |row| row.get(0))).unwrap();
        unaccounted += n.cast_unsigned().abs_diff(one.committed);
    }
    assert_eq!(unaccounted, 0, "transactions are unaccounted for: {submitters:#?}");
    db.transact(|tx| tx.execute("UPDATE counted SET n = 0", ())).expect("it works afterwards");
    db.close().unwrap();
    let impatient_offered: u64 = submitters[..IMPATIENT].iter().map(|one| one.offered).sum();
    let settled = &samples[samples.len() / 2..];
    OverloadRun {
        seconds,
        capacity_per_second,
        offered_per_second: impatient_offered as f64 / seconds,
        offered,
        committed,
        refused,
        late,
        unaccounted,
        resident_mib: tenths(&samples),
        resident_mib_max: samples.iter().map(|(_, kib)| kib / 1024.0).fold(0.0, f64::max),
        resident_slope_kib_per_minute: slope(settled) * 60.0,
        submitters,
    }
}

/// Transactions a second while the queue is never empty: as many submitters as will offer too much,
/// which keep thousands in flight.
fn capacity(db: &Database, transactions: u64) -> f64 {
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..IMPATIENT {
            scope.spawn(|| {
                let mut in_flight = VecDeque::new();
                for _ in 0..transactions / IMPATIENT as u64 {
                    in_flight.push_back(db.submit(transaction(99)));
                    if in_flight.len() > 2_000 {
                        in_flight.pop_front().map(Ticket::wait).transpose().unwrap();
                    }
                }
                for ticket in in_flight {
                    ticket.wait().unwrap();
                }
            });
        }
    });
    transactions as f64 / began.elapsed().as_secs_f64()
}

/// Offers so many a second, whatever comes of them, and never waits.
fn offer(db: &Database, load: &Load, began: Instant, id: usize, per_second: f64) -> Submitter {
    let has_deadline = id % 2 == 1;
    let name = if has_deadline { "`try_submit` with a deadline" } else { "`try_submit`" };
    let mut one = Submitter { name, ..Submitter::default() };
    let mut in_flight = VecDeque::new();
    let mut admitted = Instant::now();
    while began.elapsed() < load.time && one.offered < load.offers_max {
        while (one.offered as f64) < began.elapsed().as_secs_f64() * per_second
            && one.offered < load.offers_max
        {
            one.offered += 1;
            let now = Instant::now();
            let terms = Terms::new();
            let terms = if has_deadline { terms.deadline(DEADLINE) } else { terms };
            match db.with(terms).try_submit(transaction(id)) {
                Ok(ticket) => {
                    one.longest_without_ms = one.longest_without_ms.max(ms(admitted.elapsed()));
                    admitted = now;
                    in_flight.push_back((now, ticket));
                }
                Err(refused) => {
                    assert!(matches!(refused.reason, NotRun::Overloaded), "{:?}", refused.reason);
                    one.refused += 1;
                }
            }
        }
        while in_flight.front().is_some_and(|(_, ticket)| ticket.is_resolved()) {
            in_flight.pop_front().into_iter().for_each(|front| one.settle(front));
        }
        // The pace of the offers, not a wait for anything.
        thread::sleep(Duration::from_millis(1));
    }
    in_flight.into_iter().for_each(|front| one.settle(front));
    one
}

/// Waits for room and for its ticket, again and again.
fn insist(db: &Database, load: &Load, began: Instant, stop: &AtomicBool, id: usize) -> Submitter {
    let mut one = Submitter { name: "`submit`, one at a time", ..Submitter::default() };
    while began.elapsed() < load.time && !stop.load(Relaxed) {
        one.offered += 1;
        let now = Instant::now();
        let ticket = db.with(Terms::new().deadline(DEADLINE_PATIENT)).submit(transaction(id));
        one.longest_without_ms = one.longest_without_ms.max(ms(now.elapsed()));
        one.settle((now, ticket));
    }
    one
}

impl Submitter {
    fn settle(&mut self, (offered, ticket): (Instant, Ticket<usize, rusqlite::Error>)) {
        match ticket.wait() {
            Ok(_) => self.committed += 1,
            Err(Failure::NotRun(NotRun::DeadlinePassed)) => self.late += 1,
            Err(failure) => panic!("a transaction failed: {failure:?}"),
        }
        self.longest_wait_ms = self.longest_wait_ms.max(ms(offered.elapsed()));
    }
}

/// Resident memory in KiB, with the time in seconds, twice a second until told to stop.
fn sample(began: Instant, stop: &AtomicBool) -> Vec<(f64, f64)> {
    let mut samples = Vec::new();
    while !stop.load(Relaxed) {
        samples.extend(resident_kib().map(|kib| (began.elapsed().as_secs_f64(), kib)));
        // The rate of the samples, not a wait for anything.
        thread::sleep(Duration::from_millis(500));
    }
    samples.extend(resident_kib().map(|kib| (began.elapsed().as_secs_f64(), kib)));
    samples
}

fn resident_kib() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// The last sample of each tenth, in MiB.
fn tenths(samples: &[(f64, f64)]) -> Vec<f64> {
    let last_of = |tenth: usize| (samples.len() * tenth / 10).saturating_sub(1);
    (1..=10).filter_map(|tenth| Some(samples.get(last_of(tenth))?.1 / 1024.0)).collect()
}

/// The slope of the line through `points` with the least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let (above, below) = points.iter().fold((0.0, 0.0), |(above, below), (x, y)| {
        (above + (x - mean_x) * (y - mean_y), below + (x - mean_x) * (x - mean_x))
    });
    if below > 0.0 { above / below } else { 0.0 }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[test]
fn a_line_has_its_slope() {
    let points = [(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)];
    assert!((slope(&points) - 2.0).abs() < 1e-9);
    assert!(slope(&points[..1]).abs() < 1e-9);
}
