//! Counters, as JavaScript is told them.

use groupcommit_bindings::groupcommit;
use napi_derive::napi;

/// What a database has done since it was opened; see `Stats` in `index.d.ts`.
#[napi(object, object_from_js = false)]
#[expect(missing_docs, reason = "documented for those who read them")]
pub struct Stats {
    pub committed: f64,
    pub rejected: f64,
    pub not_run: f64,
    pub unknown: f64,
    pub commits: f64,
    pub flushes: f64,
    pub reruns: f64,
    pub in_flight: f64,
    pub queued: f64,
    pub group_transactions: Summary,
    pub queue_wait_ms: Summary,
    pub execute_ms: Summary,
    pub flush_ms: Summary,
    pub total_ms: Summary,
}

/// A distribution; see `Summary` in `index.d.ts`.
#[napi(object, object_from_js = false)]
#[expect(missing_docs, reason = "documented for those who read them")]
pub struct Summary {
    pub count: f64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl From<groupcommit::Stats> for Stats {
    fn from(stats: groupcommit::Stats) -> Self {
        let count = |count: u64| count as f64;
        let ms = |summary| Summary::of(summary, 1e6);
        Self {
            committed: count(stats.committed),
            rejected: count(stats.rejected),
            not_run: count(stats.not_run),
            unknown: count(stats.unknown),
            commits: count(stats.commits),
            flushes: count(stats.flushes),
            reruns: count(stats.reruns),
            in_flight: stats.in_flight as f64,
            queued: stats.queued as f64,
            group_transactions: Summary::of(stats.group_transactions, 1.0),
            queue_wait_ms: ms(stats.queue_wait_ns),
            execute_ms: ms(stats.execute_ns),
            flush_ms: ms(stats.flush_ns),
            total_ms: ms(stats.total_ns),
        }
    }
}

impl Summary {
    fn of(summary: groupcommit::Summary, unit: f64) -> Self {
        let in_unit = |value: u64| value as f64 / unit;
        Self {
            count: summary.count as f64,
            mean: summary.mean / unit,
            p50: in_unit(summary.p50),
            p90: in_unit(summary.p90),
            p99: in_unit(summary.p99),
            p999: in_unit(summary.p999),
            max: in_unit(summary.max),
        }
    }
}
