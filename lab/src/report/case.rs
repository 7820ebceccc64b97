//! A case: the repeats of one setting, and what a report calls it.

use std::fmt::Write as _;

use crate::condition::Condition;
use crate::measurement::Measurement;
use crate::quality::is_same_setting;
use crate::report::drawing::Marker;
use crate::statistics::{LatencyMs, Spread};
use crate::table::grouped;

/// All repeats of one setting, at least one.
#[derive(Debug, Clone)]
pub(super) struct Case<'a> {
    repeats: Vec<&'a Measurement>,
}

/// Gathers the repeats of each setting, in the order of their first appearance.
pub(super) fn cases<'a>(measurements: impl IntoIterator<Item = &'a Measurement>) -> Vec<Case<'a>> {
    let mut cases: Vec<Case<'a>> = Vec::new();
    for measurement in measurements {
        match cases.iter_mut().find(|case| is_same_setting(case.first(), measurement)) {
            Some(case) => case.repeats.push(measurement),
            None => cases.push(Case { repeats: vec![measurement] }),
        }
    }
    cases
}

impl<'a> Case<'a> {
    /// What the repeats have in common is the same in all.
    pub(super) fn first(&self) -> &'a Measurement {
        self.repeats[0]
    }

    pub(super) fn repeats(&self) -> &[&'a Measurement] {
        &self.repeats
    }

    pub(super) fn spread(&self, figure: impl Fn(&Measurement) -> f64) -> Spread {
        let values = self.repeats.iter().map(|measurement| figure(measurement));
        Spread::of(values).unwrap_or(Spread { min: 0.0, median: 0.0, max: 0.0 })
    }

    pub(super) fn median(&self, figure: impl Fn(&Measurement) -> f64) -> f64 {
        self.spread(figure).median
    }

    /// The repeat whose throughput is the median, for what cannot be averaged.
    pub(super) fn typical(&self) -> &'a Measurement {
        let mut sorted = self.repeats.clone();
        sorted.sort_by(|one, other| one.rows_per_second.total_cmp(&other.rows_per_second));
        sorted[(sorted.len() - 1) / 2]
    }

    /// Quantiles and the latencies there, each the median over the repeats.
    pub(super) fn percentiles(&self) -> Vec<(f64, f64)> {
        let all: Vec<_> = self.repeats.iter().map(|m| percentiles(m)).collect();
        all[0]
            .iter()
            .filter_map(|&(quantile, _)| {
                let at = all.iter().filter_map(|one| value_at(one, quantile));
                Some((quantile, Spread::of(at)?.median))
            })
            .collect()
    }

    pub(super) fn class(&self) -> &'static str {
        class(self.first().condition)
    }

    /// The class, and that it is not durable.
    pub(super) fn full_class(&self) -> String {
        let loose = if self.first().durable { "" } else { " not-durable" };
        format!("{}{loose}", self.class())
    }

    pub(super) fn marker(&self) -> Marker {
        marker(self.first().condition)
    }

    /// The condition; with the number in flight where `others` differ in it; with a star when it is
    /// not durable.
    pub(super) fn name(&self, others: &[Case<'_>]) -> String {
        let first = self.first();
        let mut name = first.condition.name().to_owned();
        let same = |case: &&Case<'_>| case.first().condition == first.condition;
        if others.iter().filter(same).any(|case| case.first().in_flight != first.in_flight) {
            let _infallible = write!(name, ", {} in flight", grouped(first.in_flight as f64));
        }
        if !first.durable {
            name.push_str(" *");
        }
        name
    }
}

/// The latency at `quantile`, where it was recorded.
pub(super) fn value_at(percentiles: &[(f64, f64)], quantile: f64) -> Option<f64> {
    percentiles.iter().find(|(q, _)| (q - quantile).abs() < 1e-9).map(|&(_, ms)| ms)
}

fn percentiles(measurement: &Measurement) -> Vec<(f64, f64)> {
    if measurement.latency_percentiles_ms.is_empty() {
        from_summary(&measurement.latency_ms)
    } else {
        measurement.latency_percentiles_ms.clone()
    }
}

/// What can be said about the distribution from its summary alone.
fn from_summary(latency: &LatencyMs) -> Vec<(f64, f64)> {
    let LatencyMs { p50, p90, p99, p999, max, .. } = *latency;
    vec![(0.5, p50), (0.9, p90), (0.99, p99), (0.999, p999), (1.0, max)]
}

fn class(condition: Condition) -> &'static str {
    match condition {
        Condition::Default
        | Condition::Batched
        | Condition::OneConnection
        | Condition::Blocking => "default",
        Condition::Wal
        | Condition::Shared
        | Condition::Sync
        | Condition::WalSync
        | Condition::BlockingPool => "wal",
        Condition::WalNormal | Condition::WalNosync | Condition::AsyncPool => "wal-normal",
        Condition::GroupcommitBlocking | Condition::Bridge => "blocking",
        Condition::GroupcommitAsync | Condition::Merged | Condition::Groupcommit => "async",
        Condition::Connections | Condition::SyncThreads | Condition::NoWal => "other",
    }
}

fn marker(condition: Condition) -> Marker {
    match condition {
        Condition::Default
        | Condition::Batched
        | Condition::OneConnection
        | Condition::Blocking => Marker::Cross,
        Condition::Wal
        | Condition::Shared
        | Condition::Sync
        | Condition::WalSync
        | Condition::BlockingPool => Marker::Square,
        Condition::WalNormal
        | Condition::WalNosync
        | Condition::NoWal
        | Condition::Connections
        | Condition::SyncThreads
        | Condition::AsyncPool => Marker::Diamond,
        Condition::GroupcommitBlocking | Condition::Bridge => Marker::Triangle,
        Condition::GroupcommitAsync | Condition::Merged | Condition::Groupcommit => Marker::Circle,
    }
}
