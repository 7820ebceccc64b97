//! Counters and histograms: recorded a group at a time, read as a snapshot, and exported through
//! the `metrics` facade.

use hdrhistogram::Histogram;

use crate::{
    outcome::Outcome,
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
        self.count(value_ns);
        self.exported.record(value_ns as f64 / 1e9);
    }
}

/// A histogram of two significant digits that grows with what it is given.
#[expect(clippy::expect_used, reason = "two digits are within what the library accepts")]
fn new_histogram() -> Histogram<u32> {
    let mut histogram = Histogram::new(2).expect("two significant digits are valid");
    histogram.auto(true);
    histogram
}

/// Where a pipeline writes what it does.
pub(crate) struct Recorder {
    inner: Mutex<Inner>,
}

struct Inner {
    outcomes: [u64; 4],
    commits: u64,
    flushes: u64,
    reruns: u64,
    group_transactions: Distribution,
    queue_wait: Distribution,
    execute: Distribution,
    flush: Distribution,
    total: Distribution,
    exported: Exported,
}

struct Exported {
    outcomes: [metrics::Counter; 4],
    commits: metrics::Counter,
    flushes: metrics::Counter,
    reruns: metrics::Counter,
    queued: metrics::Gauge,
    in_flight: metrics::Gauge,
}

impl Recorder {
    /// A recorder whose metrics carry the label `database`.
    pub(crate) fn new(database: &str) -> Self {
        let label = database.to_owned();
        let histogram = |name: &'static str| {
            Distribution::new(metrics::histogram!(name, "database" => label.clone()))
        };
        let exported = Exported {
            outcomes: Outcome::ALL.map(|outcome| {
                metrics::counter!(
                    "groupcommit_transactions_total",
                    "database" => label.clone(),
                    "outcome" => outcome.as_str(),
                )
            }),
            commits: metrics::counter!("groupcommit_commits_total", "database" => label.clone()),
            flushes: metrics::counter!("groupcommit_flushes_total", "database" => label.clone()),
            reruns: metrics::counter!("groupcommit_reruns_total", "database" => label.clone()),
            queued: metrics::gauge!("groupcommit_queued", "database" => label.clone()),
            in_flight: metrics::gauge!("groupcommit_in_flight", "database" => label.clone()),
        };
        Self {
            inner: Mutex::new(Inner {
                outcomes: [0; 4],
                commits: 0,
                flushes: 0,
                reruns: 0,
                group_transactions: histogram("groupcommit_group_transactions"),
                queue_wait: histogram("groupcommit_queue_wait_seconds"),
                execute: histogram("groupcommit_execute_seconds"),
                flush: histogram("groupcommit_flush_seconds"),
                total: histogram("groupcommit_total_seconds"),
                exported,
            }),
        }
    }

    pub(crate) fn executed(&self, group: &ExecutedGroup<'_>) {
        let mut inner = lock(&self.inner);
        inner.commits += group.commits;
        inner.reruns += group.reruns;
        inner.exported.commits.increment(group.commits);
        inner.exported.reruns.increment(group.reruns);
        inner.exported.queued.set(group.queued as f64);
        inner.group_transactions.record(group.queue_waits_ns.len() as u64);
        inner.execute.record_ns(group.execute_ns);
        for &wait_ns in group.queue_waits_ns {
            inner.queue_wait.record_ns(wait_ns);
        }
    }

    pub(crate) fn flushed(&self, took_ns: u64) {
        let mut inner = lock(&self.inner);
        inner.flushes += 1;
        inner.exported.flushes.increment(1);
        inner.flush.record_ns(took_ns);
    }

    pub(crate) fn resolved(&self, resolved: &[(Outcome, u64)]) {
        let mut inner = lock(&self.inner);
        let mut counts = [0_u64; 4];
        for &(outcome, total_ns) in resolved {
            counts[outcome as usize] += 1;
            inner.total.record_ns(total_ns);
        }
        for (index, &count) in counts.iter().enumerate() {
            inner.outcomes[index] += count;
            if count > 0 {
                inner.exported.outcomes[index].increment(count);
            }
        }
    }

    pub(crate) fn in_flight(&self, transactions: usize) {
        lock(&self.inner).exported.in_flight.set(transactions as f64);
    }

    pub(crate) fn snapshot(&self, in_flight: usize, queued: usize) -> Stats {
        let inner = lock(&self.inner);
        let [committed, rejected, not_run, unknown] = inner.outcomes;
        Stats {
            committed,
            rejected,
            not_run,
            unknown,
            commits: inner.commits,
            flushes: inner.flushes,
            reruns: inner.reruns,
            in_flight,
            queued,
            group_transactions: Summary::of(&inner.group_transactions.histogram),
            queue_wait_ns: Summary::of(&inner.queue_wait.histogram),
            execute_ns: Summary::of(&inner.execute.histogram),
            flush_ns: Summary::of(&inner.flush.histogram),
            total_ns: Summary::of(&inner.total.histogram),
        }
    }
}

/// What [`Recorder::executed`] is told of one group.
pub(crate) struct ExecutedGroup<'a> {
    pub(crate) commits: u64,
    pub(crate) reruns: u64,
    pub(crate) queued: usize,
    pub(crate) execute_ns: u64,
    /// One value a transaction.
    pub(crate) queue_waits_ns: &'a [u64],
}
