//! The behaviour under growing load as part of a report: the adaptive grouping beside the best fixed
//! setting.

use crate::measurement::Measurement;
use crate::report::Spec;
use crate::report::case::{Case, Setup, by, notes};
use crate::report::model::{Axis, Body, Chart, Item, Plot, Role, Scale, Series, Table};
use crate::report::number::{grouped, ratio, significant};

pub(super) const SPEC: Spec = Spec {
    experiment: "load",
    heading: "As load grows",
    question: "Does the adaptive grouping keep up with the best fixed setting at every load, so that there is \
               nothing to tune?",
    how_to_read: &[
        "`adaptive` is groupcommit as it comes. A fixed setting is the same pipeline that holds each group \
         open, as batching by hand does: `group 64` until 64 transactions wait (10 ms at most), `delay 1 ms` \
         for that time after the first.",
        "Closed loop: a fixed number of transactions is in flight; each answer is followed by the next. Open \
         loop: transactions arrive at random (Poisson) at a share of the measured capacity, and a wait counts \
         from the intended arrival, so that a stall falls on everybody who arrives during it.",
    ],
    body,
};

const ADAPTIVE: &str = "adaptive";

/// What the claim "nothing to tune" asks for, as shares of the best fixed setting.
const THROUGHPUT_LEAST: f64 = 0.95;
const WAIT_MOST: f64 = 1.1;

fn setting<'a>(case: &Case<'a>) -> &'a str {
    case.first().setting.as_deref().unwrap_or(ADAPTIVE)
}

fn p99(case: &Case<'_>) -> f64 {
    case.median(|m| m.latency_ms.p99)
}

fn group(case: &Case<'_>) -> String {
    significant(case.median(|m| m.group_transactions_mean))
}

fn unserved(case: &Case<'_>) -> f64 {
    case.median(|m| m.unserved.unwrap_or_default() as f64)
}

/// What lies on the horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loop {
    /// A number in flight.
    Closed,
    /// A share of the capacity.
    Open,
}

impl Loop {
    fn of(m: &Measurement) -> Self {
        if m.arrivals.as_deref() == Some("open") { Self::Open } else { Self::Closed }
    }

    /// Where a case lies, in transactions in flight or per cent.
    fn load(self, case: &Case<'_>) -> f64 {
        match self {
            Self::Closed => case.first().in_flight as f64,
            Self::Open => case.first().offered_share.unwrap_or_default() * 100.0,
        }
    }

    /// Which of two fixed settings is better: in an open loop all complete what arrives.
    fn merit(self, case: &Case<'_>) -> f64 {
        match self {
            Self::Closed => case.rate(),
            Self::Open => -p99(case),
        }
    }

    fn holds(self, adaptive: &Case<'_>, best: &Case<'_>) -> bool {
        let waits = p99(adaptive) <= WAIT_MOST * p99(best);
        match self {
            Self::Closed => waits && adaptive.rate() >= THROUGHPUT_LEAST * best.rate(),
            Self::Open => waits && unserved(adaptive) <= unserved(best),
        }
    }
}

/// The adaptive case at each load, with the best fixed one.
fn pairs<'a, 'b>(kind: Loop, cases: &'a [Case<'b>]) -> Vec<(&'a Case<'b>, &'a Case<'b>)> {
    let mut adaptive: Vec<&Case<'_>> =
        cases.iter().filter(|case| setting(case) == ADAPTIVE).collect();
    adaptive.sort_by(|one, other| kind.load(one).total_cmp(&kind.load(other)));
    let best = |adaptive: &Case<'_>| {
        cases
            .iter()
            .filter(|case| setting(case) != ADAPTIVE)
            .filter(|case| kind.load(case).total_cmp(&kind.load(adaptive)).is_eq())
            .max_by(|one, other| kind.merit(one).total_cmp(&kind.merit(other)))
    };
    adaptive.into_iter().filter_map(|case| Some((case, best(case)?))).collect()
}

fn body(_: Setup, cases: &[Case<'_>]) -> Body {
    let of = |kind: Loop| -> Vec<Case<'_>> {
        cases.iter().filter(|case| Loop::of(case.first()) == kind).cloned().collect()
    };
    let (closed, open) = (of(Loop::Closed), of(Loop::Open));
    let (in_flight, arriving) = (pairs(Loop::Closed, &closed), pairs(Loop::Open, &open));
    let mut body =
        Body { findings: finding(&in_flight, &arriving).into_iter().collect(), ..Body::default() };
    if !closed.is_empty() {
        let rate = |case: &Case<'_>| case.rate();
        body.shown.push(Item::Chart(chart(Loop::Closed, &closed, "throughput", "rows/s", rate)));
        body.shown.push(Item::Table(closed_table(&closed, &in_flight)));
        body.more.push(Item::Chart(chart(Loop::Closed, &closed, "wait", "p99, ms", p99)));
    }
    if !open.is_empty() {
        body.shown.push(Item::Table(open_table(&open, &arriving)));
        body.more.push(Item::Chart(chart(Loop::Open, &open, "wait", "p99, ms", p99)));
    }
    body
}

/// At how many loads the claim holds, in both loops.
fn finding(closed: &[(&Case<'_>, &Case<'_>)], open: &[(&Case<'_>, &Case<'_>)]) -> Option<String> {
    let held = |kind: Loop, pairs: &[(&Case<'_>, &Case<'_>)]| {
        pairs.iter().filter(|(adaptive, best)| kind.holds(adaptive, best)).count()
    };
    let mut said = Vec::new();
    if !closed.is_empty() {
        let held = held(Loop::Closed, closed);
        said.push(format!("at {held} of {} numbers in flight", closed.len()));
    }
    if !open.is_empty() {
        said.push(format!("at {} of {} rates of arrival", held(Loop::Open, open), open.len()));
    }
    (!said.is_empty()).then(|| {
        format!("The adaptive grouping kept up with the best fixed setting {}.", said.join(" and "))
    })
}

/// What "holds" means, computed from the figures beside it.
fn holds(kind: Loop, adaptive: &Case<'_>, best: &Case<'_>) -> String {
    if kind.holds(adaptive, best) { "yes" } else { "no" }.to_owned()
}

fn closed_table(cases: &[Case<'_>], pairs: &[(&Case<'_>, &Case<'_>)]) -> Table {
    Table::of(
        pairs,
        &[
            ("in flight", "", &|(adaptive, _)| grouped(adaptive.first().in_flight as f64)),
            ("rows/s", "", &|(adaptive, _)| grouped(adaptive.rate())),
            ("range", "", &|(adaptive, _)| adaptive.range(|m| m.rows_per_second)),
            ("wait p99", "ms", &|(adaptive, _)| significant(p99(adaptive))),
            ("group", "", &|(adaptive, _)| group(adaptive)),
            ("best fixed setting", "", &|(_, best)| setting(best).to_owned()),
            ("its rows/s", "", &|(_, best)| grouped(best.rate())),
            ("its wait p99", "ms", &|(_, best)| significant(p99(best))),
            ("rows/s × best", "", &|(adaptive, best)| ratio(adaptive.rate(), Some(best.rate()))),
            ("p99 × best", "", &|(adaptive, best)| ratio(p99(adaptive), Some(p99(best)))),
            ("holds", "", &|(adaptive, best)| holds(Loop::Closed, adaptive, best)),
        ],
    )
    .with_caption("Closed loop: the adaptive grouping, and the fixed setting of most rows/s")
    .with_notes(notes(cases))
    .with_note(format!(
        "× best: the quotient of the two medians in the row. holds: at least {THROUGHPUT_LEAST} of the rows/s \
         at no more than {WAIT_MOST} of the p99 wait."
    ))
}

fn open_table(cases: &[Case<'_>], pairs: &[(&Case<'_>, &Case<'_>)]) -> Table {
    let arrivals = |m: &Measurement| m.offered_per_second.unwrap_or_default();
    Table::of(
        pairs,
        &[
            ("load", "%", &|(adaptive, _)| significant(Loop::Open.load(adaptive))),
            ("arrivals/s", "", &|(adaptive, _)| grouped(adaptive.median(arrivals))),
            ("wait p50", "ms", &|(adaptive, _)| significant(adaptive.median(|m| m.latency_ms.p50))),
            ("wait p99", "ms", &|(adaptive, _)| significant(p99(adaptive))),
            ("group", "", &|(adaptive, _)| group(adaptive)),
            ("left", "", &|(adaptive, _)| grouped(unserved(adaptive))),
            ("best fixed setting", "", &|(_, best)| setting(best).to_owned()),
            ("its wait p99", "ms", &|(_, best)| significant(p99(best))),
            ("its left", "", &|(_, best)| grouped(unserved(best))),
            ("p99 × best", "", &|(adaptive, best)| ratio(p99(adaptive), Some(p99(best)))),
            ("holds", "", &|(adaptive, best)| holds(Loop::Open, adaptive, best)),
        ],
    )
    .with_caption("Open loop: the adaptive grouping, and the fixed setting of the shortest p99 wait")
    .with_notes(notes(cases))
    .with_note(format!(
        "load: share of the measured capacity. left: arrivals that could not be submitted in time; with any, \
         waits are lower bounds. p99 × best: the quotient of the two medians in the row. holds: no more than {WAIT_MOST} of the p99 wait, and no more left."
    ))
}

/// The fixed settings in grey, so behind, then the adaptive grouping.
fn chart(
    kind: Loop,
    cases: &[Case<'_>],
    name: &str,
    label: &'static str,
    figure: impl Fn(&Case<'_>) -> f64,
) -> Chart {
    // `false` sorts first, so the adaptive grouping comes last.
    let lines: Vec<Series> = by(cases, |case| (setting(case) == ADAPTIVE, setting(case)))
        .into_iter()
        .map(|((adaptive, setting), mut own)| {
            own.sort_by(|one, other| kind.load(one).total_cmp(&kind.load(other)));
            Series {
                name: setting.to_owned(),
                role: if adaptive { Role::Ours } else { Role::Background },
                points: own.iter().map(|case| (kind.load(case), figure(case))).collect(),
            }
        })
        .collect();
    let (what, x) = match kind {
        Loop::Closed => {
            ("closed", Axis { label: "transactions in flight", scale: Scale::Doubling })
        }
        Loop::Open => ("open", Axis { label: "arrivals, % of the capacity", scale: Scale::Linear }),
    };
    Chart {
        name: format!("load-{what}-{name}"),
        title: match name {
            "wait" => format!("What 99 of 100 callers waited at most, {what} loop"),
            _ => format!("Durable rows per second, {what} loop"),
        },
        note: "Coloured: the adaptive grouping. Grey: the fixed settings. Medians.".to_owned(),
        plot: Plot::Lines { x, y: Axis { label, scale: Scale::Log }, series: lines },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Condition;
    use crate::measurement::tests::example;
    use crate::report::case::cases;

    fn record(setting: &str, arrivals: &str, in_flight: usize, rate: f64, p99: f64) -> Measurement {
        let mut record = example(Condition::GroupcommitAsync, 1, rate);
        "load".clone_into(&mut record.experiment);
        (record.setting, record.arrivals) = (Some(setting.to_owned()), Some(arrivals.to_owned()));
        (record.in_flight, record.latency_ms.p99) = (in_flight, p99);
        if arrivals == "open" {
            (record.offered_share, record.unserved) = (Some(0.5), Some(0));
        }
        record
    }

    #[test]
    fn the_finding_counts_both_loops_and_what_holds_agrees_with_the_figures_shown() {
        // Round by round the adaptive grouping is ahead twice; the medians shown say 0.900.
        let records = [
            record("adaptive", "closed", 8, 9_000.0, 1.1),
            record("group 1", "closed", 8, 10_000.0, 1.0),
            record("group 64", "closed", 8, 5_000.0, 3.0),
            record("adaptive", "closed", 16, 20_000.0, 1.0),
            record("group 1", "closed", 16, 20_000.0, 1.0),
            record("adaptive", "open", 0, 100.0, 2.0),
            record("delay 1 ms", "open", 0, 100.0, 1.0),
        ];
        let body = body(Setup { engine: None, flush_delay_ms: None }, &cases(&records));
        let finding = &body.findings[0];
        assert!(finding.contains("at 1 of 2 numbers in flight and at 0 of 1 rates"), "{finding}");
        let tables: Vec<&Table> = body
            .shown
            .iter()
            .filter_map(|item| if let Item::Table(table) = item { Some(table) } else { None })
            .collect();
        let eight = &tables[0].rows[0];
        assert_eq!(eight[5..], ["group 1", "10,000", "1.00", "0.900", "1.10", "no"]);
        assert_eq!(tables[1].rows[0][9..], ["2.00", "no"]);
    }
}
