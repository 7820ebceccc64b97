//! Counters and histograms: recorded a group at a time, read as a snapshot, and exported through
//! the `metrics` facade.

use hdrhistogram::Histogram;

use crate::{
    fate::Decided,
    outcome::Outcome,
    state::Committed,
    sync::{Mutex, lock},
};

/// What a pipeline has done since it was opened.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Transactions that are durable.
    pub committed: u64,
    /// Transactions that were rolled back.
    pub rejected: u64,
    /// Transactions that were not run (cancelled, past their deadline, refused after a failure).
    pub not_run: u64,
    /// Transactions whose outcome is unknown.
    pub unknown: u64,
    /// Engine commits.
    pub commits: u64,
    /// Flushes.
    pub flushes: u64,
    /// Closures run again because the engine had rolled back what they had done.
    pub reruns: u64,
    /// Transactions in flight now: admitted and not resolved.
    pub in_flight: usize,
    /// Transactions queued now: admitted and not yet in a group.
    pub queued: usize,
    /// Transactions in a group.
    pub group_transactions: Summary,
    /// From submission to the start of the group's execution, in nanoseconds.
    pub queue_wait_ns: Summary,
    /// Execution of a group, its commit included, in nanoseconds.
    pub execute_ns: Summary,
    /// One flush, in nanoseconds.
    pub flush_ns: Summary,
    /// From submission to resolution, in nanoseconds.
    pub total_ns: Summary,
}

/// A distribution in seven numbers; quantiles are exact to one percent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// Values recorded.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Half of the values are no larger.
    pub p50: u64,
    /// 90% of the values are no larger.
    pub p90: u64,
    /// 99% of the values are no larger.
    pub p99: u64,
    /// 99.9% of the values are no larger.
    pub p999: u64,
    /// The largest value.
    pub max: u64,
}

impl Summary {
    fn of(histogram: &Histogram<u32>) -> Self {
        Self {
            count: histogram.len(),
            mean: histogram.mean(),
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }
}

/// A histogram here and its twin behind the `metrics` facade.
struct Distribution {
    histogram: Histogram<u32>,
    exported: metrics::Histogram,
}

impl Distribution {
    fn new(exported: metrics::Histogram) -> Self {
        Self { histogram: new_histogram(), exported }
    }

    fn record(&mut self, value: u64) {
        self.count(value);
        self.exported.record(value as f64);
    }

    fn count(&mut self, value: u64) {
        // A histogram that resizes itself takes every value.
        if self.histogram.record(value).is_err() {
            self.histogram.saturating_record(value);
        }
    }

    fn record_ns(&mut self, value_ns: u64) {
        self.record_all_ns([value_ns]);
    }

    /// Records values of which neighbours are often alike: those that the histogram takes for equal
    /// are recorded together, by the largest of them. Returns how many there were.
    fn record_all_ns(&mut self, values_ns: impl IntoIterator<Item = u64>) -> u32 {
        let (mut alike, mut largest, mut count, mut counted) = (0..=0, 0, 0, 0);
        for value_ns in values_ns {
            if count > 0 && alike.contains(&value_ns) {
                largest = value_ns.max(largest);
                count += 1;
                continue;
            }
            self.record_many_ns(largest, count);
            counted += count;
            let of = |bound: fn(&Histogram<u32>, u64) -> u64| bound(&self.histogram, value_ns);
            alike = of(Histogram::lowest_equivalent)..=of(Histogram::highest_equivalent);
            (largest, count) = (value_ns, 1);
        }
        self.record_many_ns(largest, count);
        counted + count
    }

    fn record_many_ns(&mut self, value_ns: u64, count: u32) {
        if count > 0 && self.histogram.record_n(value_ns, count).is_err() {
            self.histogram.saturating_record_n(value_ns, count);
        }
        self.exported.record_many(value_ns as f64 / 1e9, count as usize);
    }
}

/// A histogram of two significant digits that grows with what it is given.
#[expect(clippy::expect_used, reason = "two digits are within what the library accepts")]
fn new_histogram() -> Histogram<u32> {
    let mut histogram = Histogram::new(2).expect("two significant digits are valid");
    histogram.auto(true);
    histogram
}

/// Where a pipeline writes what it does. Each role has its own part, so that they do not wait for
/// each other.
pub(crate) struct Recorder {
    executing: Mutex<Executing>,
    flushing: Mutex<Flushing>,
}

struct Executing {
    commits: u64,
    reruns: u64,
    group_transactions: Distribution,
    queue_wait: Distribution,
    execute: Distribution,
    exported_commits: metrics::Counter,
    exported_reruns: metrics::Counter,
    exported_queued: metrics::Gauge,
}

struct Flushing {
    outcomes: [u64; 4],
    flushes: u64,
    flush: Distribution,
    total: Distribution,
    exported_outcomes: [metrics::Counter; 4],
    exported_flushes: metrics::Counter,
    exported_in_flight: metrics::Gauge,
}

impl Recorder {
    /// A recorder whose metrics carry the label `database`.
    pub(crate) fn new(database: &str) -> Self {
        let label = database.to_owned();
        let histogram = |name: &'static str| {
            Distribution::new(metrics::histogram!(name, "database" => label.clone()))
        };
        let counter = |name: &'static str| metrics::counter!(name, "database" => label.clone());
        let gauge = |name: &'static str| metrics::gauge!(name, "database" => label.clone());
        Self {
            executing: Mutex::new(Executing {
                commits: 0,
                reruns: 0,
                group_transactions: histogram("groupcommit_group_transactions"),
                queue_wait: histogram("groupcommit_queue_wait_seconds"),
                execute: histogram("groupcommit_execute_seconds"),
                exported_commits: counter("groupcommit_commits_total"),
                exported_reruns: counter("groupcommit_reruns_total"),
                exported_queued: gauge("groupcommit_queued"),
            }),
            flushing: Mutex::new(Flushing {
                outcomes: [0; 4],
                flushes: 0,
                flush: histogram("groupcommit_flush_seconds"),
                total: histogram("groupcommit_total_seconds"),
                exported_outcomes: Outcome::ALL.map(|outcome| {
                    metrics::counter!(
                        "groupcommit_transactions_total",
                        "database" => label.clone(),
                        "outcome" => outcome.as_str(),
                    )
                }),
                exported_flushes: counter("groupcommit_flushes_total"),
                exported_in_flight: gauge("groupcommit_in_flight"),
            }),
        }
    }

    /// A group was executed in `execute_ns`; its transactions had waited `queue_waits_ns`, and
    /// `queued` more wait now.
    pub(crate) fn executed(
        &self,
        commits: u64,
        reruns: u64,
        execute_ns: u64,
        queued: usize,
        queue_waits_ns: impl Iterator<Item = u64>,
    ) {
        let mut executing = lock(&self.executing);
        executing.commits += commits;
        executing.reruns += reruns;
        executing.exported_commits.increment(commits);
        executing.exported_reruns.increment(reruns);
        executing.exported_queued.set(queued as f64);
        let transactions = executing.queue_wait.record_all_ns(queue_waits_ns);
        if transactions > 0 {
            executing.group_transactions.record(transactions.into());
            executing.execute.record_ns(execute_ns);
        }
    }

    pub(crate) fn flushed(&self, took_ns: u64) {
        let mut flushing = lock(&self.flushing);
        flushing.flushes += 1;
        flushing.exported_flushes.increment(1);
        flushing.flush.record_ns(took_ns);
    }

    /// A group's tickets were resolved at `now_ns`.
    pub(crate) fn resolved(&self, group: &Committed, decided: &Decided, now_ns: u64) {
        let mut outcomes = group.outcomes;
        if matches!(decided, Decided::Unknown(_)) {
            outcomes[Outcome::Unknown as usize] += outcomes[Outcome::Committed as usize];
            outcomes[Outcome::Committed as usize] = 0;
        }
        let mut flushing = lock(&self.flushing);
        let waits_ns = group.submitted_ns.iter().map(|&ns| now_ns.saturating_sub(ns));
        flushing.total.record_all_ns(waits_ns);
        for (index, &count) in outcomes.iter().enumerate().filter(|(_, count)| **count > 0) {
            flushing.outcomes[index] += count;
            flushing.exported_outcomes[index].increment(count);
        }
    }

    pub(crate) fn in_flight(&self, transactions: usize) {
        lock(&self.flushing).exported_in_flight.set(transactions as f64);
    }

    pub(crate) fn snapshot(&self, in_flight: usize, queued: usize) -> Stats {
        let executing = lock(&self.executing);
        let flushing = lock(&self.flushing);
        let [committed, rejected, not_run, unknown] = flushing.outcomes;
        Stats {
            committed,
            rejected,
            not_run,
            unknown,
            commits: executing.commits,
            flushes: flushing.flushes,
            reruns: executing.reruns,
            in_flight,
            queued,
            group_transactions: Summary::of(&executing.group_transactions.histogram),
            queue_wait_ns: Summary::of(&executing.queue_wait.histogram),
            execute_ns: Summary::of(&executing.execute.histogram),
            flush_ns: Summary::of(&flushing.flush.histogram),
            total_ns: Summary::of(&flushing.total.histogram),
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn values_recorded_together_are_counted_as_one_by_one() {
        let new = || Distribution::new(metrics::Histogram::noop());
        let (mut together, mut one_by_one) = (new(), new());
        for longest_ns in [0, 10, 1_000, 3_000_000, u64::MAX / 2] {
            // Near each other at first, and then further and further apart.
            let values_ns: Vec<u64> =
                (0..1_000).map(|n| longest_ns - longest_ns / 1_000_000 * n * n).collect();
            assert_eq!(together.record_all_ns(values_ns.iter().copied()), 1_000);
            values_ns.into_iter().for_each(|value_ns| one_by_one.count(value_ns));
        }
        assert_eq!(Summary::of(&together.histogram), Summary::of(&one_by_one.histogram));
        assert_eq!(together.record_all_ns([]), 0);
    }
}
