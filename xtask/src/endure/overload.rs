//! Twice as much as the database can take: refusals are explicit, memory stays flat, and nobody is
//! starved.

use std::{
    collections::VecDeque,
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use groupcommit::{
    Failure, NotRun, Terms, Ticket,
    sqlite::{Database, Transaction, rusqlite},
};
use serde::{Deserialize, Serialize};

/// How much is offered.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    /// Transactions by which the capacity is measured.
    pub(crate) capacity_transactions: u64,
    /// How long too much is offered.
    pub(crate) time: Duration,
    /// Offers of each submitter after which it stops anyway.
    pub(crate) offers_max: u64,
}

impl Load {
    pub(crate) fn of(time: Duration) -> Self {
        Self { capacity_transactions: 400_000, time, offers_max: u64::MAX }
    }
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
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OverloadRun {
    pub(crate) seconds: f64,
    pub(crate) capacity_per_second: f64,
    pub(crate) offered_per_second: f64,
    pub(crate) offered: u64,
    pub(crate) committed: u64,
    pub(crate) refused: u64,
    pub(crate) late: u64,
    pub(crate) unaccounted: u64,
    /// After each tenth of the time.
    pub(crate) resident_mib: Vec<f64>,
    pub(crate) resident_mib_max: f64,
    pub(crate) resident_slope_kib_per_minute: f64,
    pub(crate) submitters: Vec<Submitter>,
}

/// What became of one submitter's transactions.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Submitter {
    pub(crate) name: String,
    pub(crate) offered: u64,
    pub(crate) committed: u64,
    pub(crate) refused: u64,
    pub(crate) late: u64,
    /// From the offer to the resolution, of those that were admitted.
    pub(crate) longest_wait_ms: f64,
    /// Between two that were admitted.
    pub(crate) longest_without_ms: f64,
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

pub(crate) fn run(folder: &Path, load: &Load) -> Result<OverloadRun> {
    let db = Database::open(folder.join("overload.db"))?;
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
    })?;
    let capacity_per_second = capacity(&db, load.capacity_transactions)?;
    eprintln!("overload: the capacity is {capacity_per_second:.0} transactions a second");
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
        let mut ended: Vec<Result<Submitter>> =
            impatient.into_iter().filter_map(|thread| thread.join().ok()).collect();
        stop.store(true, Relaxed);
        ended.extend(patient.into_iter().filter_map(|thread| thread.join().ok()));
        let ended: Result<Vec<_>> = ended.into_iter().collect();
        (ended, sampler.join().unwrap_or_default())
    });
    let submitters = submitters?;
    ensure!(submitters.len() == IMPATIENT + PATIENT, "a submitter panicked");
    let seconds = began.elapsed().as_secs_f64();
    let sum = |of: fn(&Submitter) -> u64| submitters.iter().map(of).sum::<u64>();
    let (offered, committed) = (sum(|one| one.offered), sum(|one| one.committed));
    let (refused, late) = (sum(|one| one.refused), sum(|one| one.late));
    let mut unaccounted = offered.abs_diff(committed + refused + late);
    for (id, one) in (0_i64..).zip(&submitters) {
        let n: i64 = db.read(|conn| {
            conn.query_row("SELECT n FROM counted WHERE id = ?1", [id], |row| row.get(0))
        })?;
        unaccounted += n.cast_unsigned().abs_diff(one.committed);
    }
    ensure!(unaccounted == 0, "{unaccounted} transactions are unaccounted for: {submitters:#?}");
    db.transact(|tx| tx.execute("UPDATE counted SET n = 0", ())).context("after the overload")?;
    db.close()?;
    let impatient_offered: u64 = submitters[..IMPATIENT].iter().map(|one| one.offered).sum();
    let settled = &samples[samples.len() / 2..];
    Ok(OverloadRun {
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
    })
}

/// Transactions a second while the queue is never empty: as many submitters as will offer too much,
/// which keep thousands in flight.
fn capacity(db: &Database, transactions: u64) -> Result<f64> {
    let began = Instant::now();
    thread::scope(|scope| {
        let submitters: Vec<_> = (0..IMPATIENT)
            .map(|_| {
                scope.spawn(|| {
                    let mut in_flight = VecDeque::new();
                    for _ in 0..transactions / IMPATIENT as u64 {
                        in_flight.push_back(db.submit(transaction(99)));
                        if in_flight.len() > 2_000 {
                            in_flight.pop_front().map(Ticket::wait).transpose()?;
                        }
                    }
                    in_flight.into_iter().try_for_each(|ticket| ticket.wait().map(drop))
                })
            })
            .collect();
        submitters.into_iter().try_for_each(|submitter| match submitter.join() {
            Ok(ended) => Ok(ended?),
            Err(_) => bail!("a submitter panicked"),
        })
    })?;
    Ok(transactions as f64 / began.elapsed().as_secs_f64())
}

/// Offers so many a second, whatever comes of them, and never waits.
fn offer(
    db: &Database,
    load: &Load,
    began: Instant,
    id: usize,
    per_second: f64,
) -> Result<Submitter> {
    let has_deadline = id % 2 == 1;
    let name = if has_deadline { "`try_submit` with a deadline" } else { "`try_submit`" };
    let mut one = Submitter { name: name.to_owned(), ..Submitter::default() };
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
                Err(refused) if matches!(refused.reason, NotRun::Overloaded) => one.refused += 1,
                Err(refused) => return Err(refused.reason.into()),
            }
        }
        while in_flight.front().is_some_and(|(_, ticket)| ticket.is_resolved()) {
            in_flight.pop_front().map(|front| one.settle(front)).transpose()?;
        }
        // The pace of the offers, not a wait for anything.
        thread::sleep(Duration::from_millis(1));
    }
    in_flight.into_iter().try_for_each(|front| one.settle(front))?;
    Ok(one)
}

/// Waits for room and for its ticket, again and again.
fn insist(
    db: &Database,
    load: &Load,
    began: Instant,
    stop: &AtomicBool,
    id: usize,
) -> Result<Submitter> {
    let mut one = Submitter { name: "`submit`, one at a time".to_owned(), ..Submitter::default() };
    while began.elapsed() < load.time && !stop.load(Relaxed) {
        one.offered += 1;
        let now = Instant::now();
        let ticket = db.with(Terms::new().deadline(DEADLINE_PATIENT)).submit(transaction(id));
        one.longest_without_ms = one.longest_without_ms.max(ms(now.elapsed()));
        one.settle((now, ticket))?;
    }
    Ok(one)
}

impl Submitter {
    fn settle(
        &mut self,
        (offered, ticket): (Instant, Ticket<usize, rusqlite::Error>),
    ) -> Result<()> {
        match ticket.wait() {
            Ok(_) => self.committed += 1,
            Err(Failure::NotRun(NotRun::DeadlinePassed)) => self.late += 1,
            Err(failure) => return Err(failure.into()),
        }
        self.longest_wait_ms = self.longest_wait_ms.max(ms(offered.elapsed()));
        Ok(())
    }
}

/// Resident memory in KiB, with the time in seconds, twice a second until told to stop.
fn sample(began: Instant, stop: &AtomicBool) -> Vec<(f64, f64)> {
    let mut samples = Vec::new();
    while !stop.load(Relaxed) {
        samples.extend(resident_kib().map(|kib| (began.elapsed().as_secs_f64(), kib)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_slope() {
        let points = [(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)];
        assert!((slope(&points) - 2.0).abs() < 1e-9);
        assert!(slope(&points[..1]).abs() < 1e-9);
    }

    #[test]
    fn every_offer_is_accounted_for() {
        let folder = tempfile::tempdir().unwrap();
        let load =
            Load { capacity_transactions: 2_000, time: Duration::from_hours(1), offers_max: 5_000 };
        let run = run(folder.path(), &load).unwrap();
        assert!(run.offered >= 4 * 5_000, "{run:?}");
        assert_eq!(run.offered, run.committed + run.refused + run.late, "{run:?}");
    }
}
