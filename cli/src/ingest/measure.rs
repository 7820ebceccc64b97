//! The figures that progress and summary show, taken from the database's own counters.

use groupcommit::Stats;

use crate::ingest::summary::LatencyMs;

/// Figures of one database since it was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measure {
    /// Latency from submission to resolution; `None` before the first transaction.
    pub(crate) latency_ms: Option<LatencyMs>,
    /// Mean number of transactions that shared a commit.
    pub(crate) group_transactions_mean: f64,
    /// Flushes to disk.
    pub(crate) flushes: u64,
}

impl Measure {
    /// The figures in a database's counters.
    pub(crate) fn of(stats: &Stats) -> Self {
        let latency = &stats.total_ns;
        let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        let latency_ms = (latency.count > 0).then(|| LatencyMs {
            p50: milliseconds(latency.p50),
            p99: milliseconds(latency.p99),
            max: milliseconds(latency.max),
        });
        Measure {
            latency_ms,
            group_transactions_mean: stats.group_transactions.mean,
            flushes: stats.flushes,
        }
    }
}
