//! The random choices of a cycle, made from the seed and the cycle's number alone, so that both
//! the harness and its writers come to the same.

use crate::{
    disk::{Operation, Survivors},
    medium,
};

/// Cycles after which the database begins afresh at the latest.
pub(crate) const FRESH_EVERY: u64 = 8;

/// One cycle: some runs of a writer, the last of which ends in a power cut.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    /// The database begins afresh.
    pub(crate) is_fresh: bool,
    pub(crate) runs: Vec<Run>,
    /// What survives on a device of that which it had not flushed.
    pub(crate) survivors: Survivors,
    /// How long a flush of the device takes, in microseconds.
    pub(crate) flush_us: u64,
    /// A write of the device that fails in the last run.
    pub(crate) fault: Option<Fault>,
    /// The device loses power at this operation of the last run, if the writer does not cut first.
    pub(crate) cut_at: Option<(Operation, u64)>,
}

/// One write of a device fails, counted from the beginning of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) write: u64,
    /// Not one of the journal, whose failing ends the file system at once: so it is mostly one of the
    /// database's log.
    pub(crate) spares_journal: bool,
    /// It is dying: its power goes at this flush after the write that failed. Later, a checkpoint
    /// would have brought what the page cache still shows to another place.
    pub(crate) cut_after: Option<u64>,
}

/// How a writer's thread submits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// So many in flight; the oldest ticket is waited for.
    Tickets(usize),
    /// So many in flight; a callback is told.
    Callbacks(usize),
    /// One after so many microseconds on average, whatever became of those before, so that some are
    /// always executed while others are being flushed; a callback is told.
    Paced(u64),
    /// One at a time, by the blocking call, on the caller's own thread while the database is idle.
    Blocking,
}

/// One run of a writer.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) threads: Vec<Style>,
    pub(crate) items_max: u32,
    pub(crate) bytes_max: u32,
    /// Every so many submissions, each in place of none: upkeep, reopening, one that fails on
    /// purpose; every so many acknowledgements: a durable read.
    pub(crate) tidy_every: Option<u64>,
    pub(crate) reopen_every: Option<u64>,
    pub(crate) fail_every: Option<u64>,
    pub(crate) read_every: Option<u64>,
    /// Acknowledgements after which it ends.
    pub(crate) acknowledgements: u64,
    /// How long it goes on after these, in microseconds.
    pub(crate) linger_us: u64,
    pub(crate) end: End,
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// In a power cut.
    Cut,
    /// The process kills itself.
    Kill,
    /// In order.
    Close,
}

/// What the cycles of one call have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) seed: u64,
    pub(crate) medium: medium::Kind,
}

impl Schedule {
    pub(crate) fn of(terms: Terms, cycle: u64) -> Self {
        let mut random =
            fastrand::Rng::with_seed(terms.seed.rotate_left(32) ^ cycle.wrapping_mul(0x9e37_79b9));
        let random = &mut random;
        let is_fresh = cycle.is_multiple_of(FRESH_EVERY) || random.u8(..8) == 0;
        let mut ends = vec![End::Cut];
        match random.u8(..10) {
            0 | 1 => ends.insert(0, End::Kill),
            2 => ends.insert(0, End::Close),
            _ => {}
        }
        let runs = ends.into_iter().map(|end| Run::random(random, end)).collect();
        let survivors = [Survivors::None, Survivors::Pages, Survivors::Sectors][random.usize(..3)];
        let on_device = terms.medium == medium::Kind::Device;
        let flush_us = if random.u8(..4) == 0 { 0 } else { random.u64(200..2_500) };
        let fault = Fault {
            write: log_uniform(random, 25, 400),
            spares_journal: random.u8(..8) != 0,
            cut_after: (random.u8(..5) != 0).then(|| log_uniform(random, 3, 40)),
        };
        let fault = Some(fault).filter(|_| random.u8(..5) < 3 && on_device);
        let operation = if random.bool() { Operation::Write } else { Operation::Flush };
        let number = log_uniform(random, 1, 2_000);
        let cuts = on_device && fault.is_none() && random.bool();
        let cut_at = cuts.then_some((operation, number));
        Self { is_fresh, runs, survivors, flush_us, fault, cut_at }
    }
}

impl Run {
    fn random(random: &mut fastrand::Rng, end: End) -> Self {
        let blocking = random.u8(..5) == 0;
        let threads = if random.u8(..5) == 0 { 1 } else { random.usize(2..=16) };
        let threads: Vec<Style> = (0..threads)
            .map(|_| match random.u8(..8) {
                _ if blocking => Style::Blocking,
                0 => Style::Tickets(1),
                1 | 2 => Style::Callbacks(within(random, 1, 512)),
                3 | 4 => Style::Paced(log_uniform(random, 50, 1_000)),
                _ => Style::Tickets(within(random, 1, 512)),
            })
            .collect();
        let in_flight: usize = threads
            .iter()
            .map(|style| match style {
                Style::Tickets(n) | Style::Callbacks(n) => *n,
                Style::Paced(_) | Style::Blocking => 1,
            })
            .sum();
        let most =
            if random.u8(..8) == 0 { random.u64(1..200) } else { log_uniform(random, 400, 14_000) };
        // So that a run takes about a second at most, however few are in flight.
        let most = most.min(600 * in_flight as u64);
        let is_large = random.u8(..10) == 0;
        let often = |random: &mut fastrand::Rng, least, most| {
            random.bool().then(|| log_uniform(random, least, most))
        };
        Self {
            threads,
            items_max: random.u32(0..6),
            bytes_max: if is_large { 20_000 } else { random.u32(1..600) },
            tidy_every: often(random, 50, 4_000),
            reopen_every: often(random, 500, 10_000).filter(|_| random.bool()),
            fail_every: often(random, 20, 2_000),
            read_every: often(random, 5, 2_000),
            acknowledgements: if is_large { most.min(1_000) } else { most },
            linger_us: if random.bool() { 0 } else { random.u64(..3_000) },
            end,
        }
    }
}

fn within(random: &mut fastrand::Rng, least: u64, most: u64) -> usize {
    usize::try_from(log_uniform(random, least, most)).unwrap_or(1)
}

/// A number whose order of magnitude is as likely as any other between the two.
fn log_uniform(random: &mut fastrand::Rng, least: u64, most: u64) -> u64 {
    let (low, high) = ((least as f64).ln(), (most as f64).ln());
    let number = (low + random.f64() * (high - low)).exp();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, small")]
    let number = number.round() as u64;
    number.clamp(least, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_cycle_give_the_same_schedule() {
        let terms = Terms { seed: 7, medium: medium::Kind::Device };
        let said = |cycle| format!("{:?}", Schedule::of(terms, cycle));
        assert_eq!(said(3), said(3));
        assert_ne!(said(3), said(4));
        let terms = Terms { seed: 8, ..terms };
        assert_ne!(said(3), format!("{:?}", Schedule::of(terms, 3)));
    }

    #[test]
    fn every_kind_of_choice_is_made_within_a_hundred_cycles() {
        let terms = Terms { seed: 1, medium: medium::Kind::Device };
        let all: Vec<Schedule> = (0..100).map(|cycle| Schedule::of(terms, cycle)).collect();
        let runs: Vec<&Run> = all.iter().flat_map(|schedule| &schedule.runs).collect();
        let some = |found: bool, what: &str| assert!(found, "no schedule with {what}");
        let faults: Vec<Fault> = all.iter().filter_map(|s| s.fault).collect();
        some(faults.iter().any(|f| f.spares_journal), "a write that fails");
        some(faults.iter().any(|f| !f.spares_journal), "any write that fails");
        some(faults.iter().any(|f| f.cut_after.is_none()), "a device that goes on");
        some(faults.iter().any(|f| f.cut_after.is_some()), "a device that dies");
        some(all.iter().any(|s| s.cut_at.is_some()), "a cut at an operation");
        for end in [End::Cut, End::Kill, End::Close] {
            some(runs.iter().any(|run| run.end == end), "one of the ends");
        }
        some(runs.iter().any(|run| run.threads.contains(&Style::Blocking)), "blocking threads");
        let paced = |style: &Style| matches!(style, Style::Paced(_));
        some(runs.iter().any(|run| run.threads.iter().any(paced)), "threads with a pace");
        some(runs.iter().any(|run| run.reopen_every.is_some()), "reopening");
        some(runs.iter().any(|run| run.tidy_every.is_some()), "checkpoints");
        some(runs.iter().any(|run| run.fail_every.is_some()), "failures");
        some(runs.iter().any(|run| run.read_every.is_some()), "durable reads");
        let mean = runs.iter().map(|run| run.acknowledgements).sum::<u64>() / runs.len() as u64;
        some(mean > 1_500, "enough acknowledgements");
    }
}
