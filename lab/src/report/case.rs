//! A case: the repeats of one setting, and what a report calls it.

use std::fmt::Write as _;

use crate::condition::Condition;
use crate::engine::Engine;
use crate::measurement::Measurement;
use crate::quality::is_same_setting;
use crate::report::model::{Role, Row};
use crate::report::number::{grouped, short};
use crate::statistics::Spread;

/// What a star means.
pub(super) const NOT_DURABLE: &str = "* not durable: a power cut loses acknowledged transactions.";

/// An engine on the disk as it is, or with a delay added to every flush.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Setup {
    pub(super) engine: Option<Engine>,
    pub(super) flush_delay_ms: Option<f64>,
}

impl Setup {
    pub(super) fn of(measurement: &Measurement) -> Self {
        let delayed = measurement.simulated || measurement.flush_delay_ms.is_some();
        let flush_delay_ms = delayed.then(|| measurement.flush_delay_ms.unwrap_or_default());
        Self { engine: measurement.engine.parse().ok(), flush_delay_ms }
    }

    /// The engine, or what the run is called, and the disk where it is simulated.
    pub(super) fn heading(self, title: Option<&String>) -> String {
        let title = title.map_or(self.engine.map_or("", Engine::title), String::as_str);
        match self.flush_delay_ms {
            Some(ms) => format!("{title}, simulated disk, {ms} ms more per flush"),
            None => title.to_owned(),
        }
    }

    /// For every table and chart of a simulated disk.
    pub(super) fn remark(self) -> Option<String> {
        let delay_ms = self.flush_delay_ms?;
        Some(format!("Simulated disk: {delay_ms} ms added to every flush."))
    }

    /// The engine used directly, under a condition.
    pub(super) fn plain(self, condition: Condition) -> String {
        format!("plain {} (`{condition}`)", self.engine.map_or("database", Engine::title))
    }

    /// The end of a file's name.
    pub(super) fn suffix(self) -> String {
        let engine = self.engine.filter(|&engine| engine != Engine::Sqlite);
        let engine = engine.map(|engine| format!("-{}", engine.name()));
        let delay = self.flush_delay_ms.map(|delay_ms| format!("-simulated-{delay_ms}ms"));
        [engine, delay].into_iter().flatten().collect()
    }
}

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

    pub(super) fn condition(&self) -> Condition {
        self.first().condition
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

    pub(super) fn rate(&self) -> f64 {
        self.median(|m| m.rows_per_second)
    }

    /// The least and the most of the repeats.
    pub(super) fn range(&self, figure: impl Fn(&Measurement) -> f64) -> String {
        let Spread { min, max, .. } = self.spread(figure);
        format!("{}–{}", short(min), short(max))
    }

    /// The latency at each quantile that was recorded, each the median over the repeats.
    pub(super) fn percentiles(&self) -> Vec<(f64, f64)> {
        let at = |m: &Measurement, quantile: f64| {
            let found = m.latency_percentiles_ms.iter().find(|(q, _)| (q - quantile).abs() < 1e-9);
            found.map(|&(_, ms)| ms)
        };
        let quantiles = self.first().latency_percentiles_ms.iter().map(|&(quantile, _)| quantile);
        quantiles
            .filter_map(|quantile| {
                let values = self.repeats.iter().filter_map(|m| at(m, quantile));
                Some((quantile, Spread::of(values)?.median))
            })
            .collect()
    }

    /// The condition; with the number in flight where `others` of the same condition and batch differ in
    /// it; with a star when it is not durable.
    pub(super) fn name(&self, others: &[Case<'_>]) -> String {
        let first = self.first();
        let mut name = first.condition.name().to_owned();
        let alike = |case: &&Case<'_>| {
            case.condition() == first.condition && case.first().batch == first.batch
        };
        if others.iter().filter(alike).any(|case| case.first().in_flight != first.in_flight) {
            let _infallible = write!(name, ", {} in flight", grouped(first.in_flight as f64));
        }
        if !first.durable {
            name.push_str(" *");
        }
        name
    }

    pub(super) fn role(&self) -> Role {
        match self.condition() {
            Condition::Default
            | Condition::Batched
            | Condition::OneConnection
            | Condition::Blocking => Role::Plain,
            Condition::Wal
            | Condition::Shared
            | Condition::Sync
            | Condition::WalSync
            | Condition::BlockingPool => Role::Reference,
            Condition::GroupcommitBlocking | Condition::Bridge => Role::OursBlocking,
            Condition::GroupcommitAsync | Condition::Merged | Condition::Groupcommit => Role::Ours,
            Condition::WalNormal
            | Condition::WalNosync
            | Condition::NoWal
            | Condition::AsyncPool
            | Condition::AsyncCommit
            | Condition::Connections
            | Condition::SyncThreads => Role::Other,
        }
    }

    /// A row of a chart, with the range of the repeats.
    pub(super) fn row(&self, others: &[Case<'_>], figure: impl Fn(&Measurement) -> f64) -> Row {
        let Spread { min, median, max } = self.spread(figure);
        Row::Point {
            name: self.name(others),
            role: self.role(),
            durable: self.first().durable,
            value: median,
            range: (min, max),
            quartiles: None,
        }
    }
}

/// "Medians of 3 repeats", and what a star means.
pub(super) fn notes(cases: &[Case<'_>]) -> Vec<String> {
    let counts = || cases.iter().map(|case| case.repeats().len());
    let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    let mut notes = vec![match (least, most) {
        (1, 1) => "One repeat, so there is no range.".to_owned(),
        _ if least == most => format!("Medians of {most} interleaved repeats."),
        _ => format!("Medians of {least} to {most} interleaved repeats."),
    }];
    if cases.iter().any(|case| !case.first().durable) {
        notes.push(NOT_DURABLE.to_owned());
    }
    notes
}

/// One entry per value of `key`, in ascending order.
pub(super) fn by<'a, K: Ord>(
    cases: &[Case<'a>],
    key: impl Fn(&Case<'a>) -> K,
) -> Vec<(K, Vec<Case<'a>>)> {
    let mut groups: Vec<(K, Vec<Case<'a>>)> = Vec::new();
    for case in cases {
        let of = key(case);
        match groups.iter_mut().find(|(other, _)| *other == of) {
            Some((_, group)) => group.push(case.clone()),
            None => groups.push((of, vec![case.clone()])),
        }
    }
    groups.sort_by(|one, other| one.0.cmp(&other.0));
    groups
}
