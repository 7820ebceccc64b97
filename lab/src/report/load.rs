//! The behaviour under growing load as part of a report: the adaptive setting in colour, in front of
//! the fixed ones in grey.

use crate::measurement::Measurement;
use crate::report::axis::Axis;
use crate::report::case::{Case, cases};
use crate::report::drawing::Marker;
use crate::report::envelope;
use crate::report::head::{Head, Key, KeyMark};
use crate::report::lines::{LineChart, Series, Stroke};
use crate::report::scale::Scale;
use crate::report::section::{Chart, Disk, Figure, Part, Section, parts};
use crate::report::tables;

/// The name of the setting that is not fixed.
pub(super) const ADAPTIVE: &str = "adaptive";

/// The section, `None` without records.
pub(super) fn section(measurements: &[Measurement]) -> Option<Section> {
    let own: Vec<_> = measurements.iter().filter(|m| m.experiment == "load").collect();
    (!own.is_empty()).then(|| Section {
        name: "load",
        heading: "As load grows",
        question: "Does the adaptive setting keep up with the best fixed setting at every load, so that \
                   there is nothing to tune?",
        parts: parts(&own, part),
        how_to_read: how_to_read(),
        published: None,
    })
}

/// What lies on the horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loop {
    /// A number in flight.
    Closed,
    /// A rate of arrivals.
    Open,
}

impl Loop {
    fn of(measurement: &Measurement) -> Self {
        if measurement.arrivals.as_deref() == Some("open") { Self::Open } else { Self::Closed }
    }

    /// Where a case lies.
    pub(super) fn load(self, case: &Case<'_>) -> f64 {
        let first = case.first();
        match (self, first.offered_share) {
            (Self::Closed, _) => first.in_flight as f64,
            (Self::Open, Some(share)) => share * 100.0,
            (Self::Open, None) => case.median(|m| m.offered_per_second.unwrap_or_default()),
        }
    }

    fn axis(self, cases: &[Case<'_>]) -> Axis {
        let loads = cases.iter().map(|case| self.load(case));
        match self {
            Self::Closed => Axis::new("transactions in flight", Scale::settings(loads)),
            Self::Open if cases.iter().all(|case| case.first().offered_share.is_some()) => {
                Axis::new("arrivals, % of the measured capacity", Scale::linear(loads))
            }
            Self::Open => Axis::new("arrivals/s", Scale::linear(loads)),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
        }
    }
}

pub(super) fn setting(measurement: &Measurement) -> &str {
    measurement.setting.as_deref().unwrap_or(ADAPTIVE)
}

fn part(disk: Disk, measurements: &[&Measurement]) -> Part {
    let mut part = Part { disk, findings: Vec::new(), charts: Vec::new(), tables: Vec::new() };
    for arrivals in [Loop::Closed, Loop::Open] {
        let own = measurements.iter().copied().filter(|m| Loop::of(m) == arrivals);
        let cases = cases(own);
        if cases.is_empty() {
            continue;
        }
        part.charts.extend(charts(disk, arrivals, &cases));
        if arrivals == Loop::Closed {
            let loads = envelope::against_best_fixed(&cases);
            part.findings.extend(envelope::finding(&loads));
            part.tables.extend(envelope::table(disk, &loads));
        }
        part.tables.push(tables::load(disk, arrivals, &cases));
    }
    part
}

fn charts(disk: Disk, arrivals: Loop, cases: &[Case<'_>]) -> Vec<Figure> {
    let by = match arrivals {
        Loop::Closed => "by transactions in flight",
        Loop::Open => "by rate of arrivals",
    };
    let throughput = |m: &Measurement| m.rows_per_second;
    let mut wanted = vec![
        (
            "throughput",
            format!("Durable rows a second {by}"),
            "rows/s",
            throughput as fn(&Measurement) -> f64,
        ),
        (
            "latency-p50",
            format!("What half of the callers waited at most {by}"),
            "latency p50, ms",
            |m| m.latency_ms.p50,
        ),
        (
            "latency-p99",
            format!("What 99 of 100 callers waited at most {by}"),
            "latency p99, ms",
            |m| m.latency_ms.p99,
        ),
        (
            "group-size",
            format!("Transactions that share one commit {by}"),
            "transactions a group",
            |m| m.group_transactions_mean,
        ),
    ];
    if arrivals == Loop::Open {
        // An open loop completes what arrives: a line for everybody alike.
        wanted.remove(0);
    }
    let mut figures: Vec<Figure> = wanted
        .into_iter()
        .map(|(name, title, unit, figure)| Figure {
            file: format!("load-{}-{name}{}", arrivals.name(), disk.suffix()),
            chart: Chart::Lines(chart(disk, title, arrivals, unit, cases, figure)),
            half: true,
        })
        .collect();
    if arrivals == Loop::Closed {
        figures.push(Figure {
            file: format!("load-closed-throughput-against-latency{}", disk.suffix()),
            chart: Chart::Lines(against_latency(disk, cases)),
            half: false,
        });
    }
    figures
}

fn head(disk: Disk, title: String, cases: &[Case<'_>]) -> Head {
    let fixed = cases.iter().any(|case| setting(case.first()) != ADAPTIVE);
    let key = Key {
        mark: KeyMark::Plain,
        class: "fixed thin".to_owned(),
        name: "fixed settings, named at their ends".to_owned(),
    };
    Head {
        title,
        remark: "Medians over the repeats.".to_owned(),
        simulated: disk.remark(),
        key: if fixed { vec![key] } else { Vec::new() },
    }
}

fn chart(
    disk: Disk,
    title: String,
    arrivals: Loop,
    unit: &str,
    cases: &[Case<'_>],
    figure: impl Fn(&Measurement) -> f64,
) -> LineChart {
    LineChart {
        head: head(disk, title, cases),
        across: arrivals.axis(cases),
        upward: Axis::new(unit, Scale::logarithmic(cases.iter().map(|c| c.median(&figure)))),
        series: series(arrivals, cases, |case| (arrivals.load(case), case.median(&figure))),
    }
}

fn against_latency(disk: Disk, cases: &[Case<'_>]) -> LineChart {
    let wait = |case: &Case<'_>| case.median(|m| m.latency_ms.p99);
    let rate = |case: &Case<'_>| case.median(|m| m.rows_per_second);
    let title = "Durable rows a second against what callers wait: up and to the left is better";
    LineChart {
        head: head(disk, title.to_owned(), cases),
        across: Axis::new("latency p99, ms", Scale::logarithmic(cases.iter().map(wait))),
        upward: Axis::new("rows/s", Scale::logarithmic(cases.iter().map(rate))),
        series: series(Loop::Closed, cases, |case| (wait(case), rate(case))),
    }
}

/// The fixed settings first, so behind, then the adaptive one.
fn series(
    arrivals: Loop,
    cases: &[Case<'_>],
    point: impl Fn(&Case<'_>) -> (f64, f64),
) -> Vec<Series> {
    let mut settings: Vec<&str> = Vec::new();
    for case in cases {
        if !settings.contains(&setting(case.first())) {
            settings.push(setting(case.first()));
        }
    }
    settings.sort_by_key(|name| *name == ADAPTIVE);
    settings
        .into_iter()
        .map(|name| {
            let mut own: Vec<_> = cases.iter().filter(|c| setting(c.first()) == name).collect();
            own.sort_by(|one, other| arrivals.load(one).total_cmp(&arrivals.load(other)));
            let adaptive = name == ADAPTIVE;
            Series {
                name: name.to_owned(),
                class: if adaptive { "async" } else { "fixed" }.to_owned(),
                stroke: if adaptive { Stroke::Marked(Marker::Circle) } else { Stroke::Background },
                points: own.into_iter().map(&point).collect(),
            }
        })
        .collect()
}

fn how_to_read() -> Vec<String> {
    [
        "Closed loop: a fixed number of transactions is always in flight; each that is answered is \
         followed by the next. Open loop: transactions arrive at random (Poisson) at a given rate, whether \
         or not earlier ones are answered, and a wait counts from the intended arrival, so that a stall \
         falls on everybody who arrives during it.",
        "The grey lines are the same pipeline with a fixed group size, or held open for a fixed delay. A \
         fixed setting may win at one load; nothing to tune means that the coloured line is with the best \
         of them at every load. The table sets it beside the fixed setting of highest throughput: at \
         least 0.95 of the throughput, at no more than 1.1 of the wait of that setting.",
    ]
    .map(str::to_owned)
    .into()
}
