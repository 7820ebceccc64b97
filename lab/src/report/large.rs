//! A table larger than the page cache, as part of a report.

use crate::condition::Condition;
use crate::measurement::{LargeFigures, Measurement};
use crate::report::Spec;
use crate::report::case::{Case, Setup, notes};
use crate::report::model::{Axis, Body, Chart, Item, Plot, Row, Scale, Series, Table};
use crate::report::number::{grouped, optional, ratio, significant};

pub(super) const SPEC: Spec = Spec {
    experiment: "large",
    heading: "A table larger than the cache",
    question: "How many rows of a large table are replaced per second, in what order of keys they come, and how \
               long do the slowest wait?",
    how_to_read: &[
        "Each transaction replaces one row of a filled table; a batch by hand replaces the number of rows in its \
         name. Meanwhile checkpoints copy pages from the log into the database. p99 ÷ p50 shows how much callers \
         feel them.",
    ],
    body,
};

const STEPS: f64 = 60.0;

fn body(setup: Setup, cases: &[Case<'_>]) -> Body {
    Body {
        findings: by_keys(cases).into_iter().filter_map(|(_, own)| finding(setup, &own)).collect(),
        shown: vec![Item::Chart(chart(cases)), Item::Table(table(cases))],
        more: vec![Item::Table(more(cases)), Item::Chart(over_time(cases))],
    }
}

/// The cases of each distribution of keys, in the order of their first appearance.
fn by_keys<'a>(cases: &[Case<'a>]) -> Vec<(&'a str, Vec<Case<'a>>)> {
    let mut all: Vec<(&str, Vec<Case<'a>>)> = Vec::new();
    for case in cases {
        let keys = case.first().setting.as_deref().unwrap_or_default();
        match all.iter_mut().find(|(known, _)| *known == keys) {
            Some((_, own)) => own.push(case.clone()),
            None => all.push((keys, vec![case.clone()])),
        }
    }
    all
}

fn by_hand<'a, 'b>(cases: &'a [Case<'b>]) -> Option<&'a Case<'b>> {
    cases.iter().find(|case| case.condition() == Condition::Wal && case.first().batch > 1)
}

fn figure(case: &Case<'_>, of: fn(&LargeFigures) -> Option<f64>) -> Option<f64> {
    case.first().large.as_ref().and_then(of)?;
    Some(case.median(|m| m.large.as_ref().and_then(of).unwrap_or(f64::NAN)))
}

fn tail(m: &Measurement) -> f64 {
    m.latency_ms.p99 / m.latency_ms.p50
}

fn name(case: &Case<'_>, cases: &[Case<'_>]) -> String {
    match case.first().batch {
        1 => case.name(cases),
        rows => format!("{}, {} rows by hand", case.name(cases), grouped(rows as f64)),
    }
}

fn finding(setup: Setup, cases: &[Case<'_>]) -> Option<String> {
    let ours = cases.iter().find(|case| case.condition().is_grouped())?;
    let hand = by_hand(cases)?;
    Some(format!(
        "{} keys, {} rows in the table: groupcommit with {} in flight replaced {} rows/s, {} × the {} of {} with {} \
         rows a transaction by hand; its p99 is {} × its median.",
        match ours.first().setting.as_deref() {
            Some("zipf") => "Skewed",
            _ => "Uniform",
        },
        grouped(figure(ours, |figures| Some(figures.rows as f64)).unwrap_or_default()),
        grouped(ours.first().in_flight as f64),
        grouped(ours.rate()),
        ratio(ours.rate(), Some(hand.rate())),
        grouped(hand.rate()),
        setup.plain(hand.condition()),
        grouped(hand.first().batch as f64),
        significant(ours.median(tail)),
    ))
}

fn table(cases: &[Case<'_>]) -> Table {
    let all = by_keys(cases);
    Table::of(
        rows(&all),
        &[
            ("keys", "", &|(keys, _, _)| (*keys).to_owned()),
            ("condition", "", &|(_, own, case)| name(case, own)),
            ("rows/s", "", &|(_, _, case)| grouped(case.rate())),
            ("× by hand", "", &|(_, own, case)| ratio(case.rate(), by_hand(own).map(Case::rate))),
            ("wait p50", "ms", &|(_, _, case)| significant(case.median(|m| m.latency_ms.p50))),
            ("wait p99", "ms", &|(_, _, case)| significant(case.median(|m| m.latency_ms.p99))),
            ("p99 ÷ p50", "", &|(_, _, case)| significant(case.median(tail))),
            ("written", "bytes", &|(_, _, case)| count(case, |of| of.device_bytes_a_row)),
        ],
    )
    .with_notes(notes(cases))
    .with_note(
        "× by hand: rows/s divided by those of plain SQLite with many rows a transaction. More is better. written: \
         bytes that the disk wrote for each row, including those of other processes.",
    )
}

fn more(cases: &[Case<'_>]) -> Table {
    let all = by_keys(cases);
    let opening = |of: &LargeFigures| of.opening_seconds;
    Table::of(
        rows(&all),
        &[
            ("keys", "", &|(keys, _, _)| (*keys).to_owned()),
            ("condition", "", &|(_, own, case)| name(case, own)),
            ("range", "", &|(_, _, case)| case.range(|m| m.rows_per_second)),
            ("p99.9", "ms", &|(_, _, case)| significant(case.median(|m| m.latency_ms.p999))),
            ("log", "MB", &|(_, _, case)| count(case, |of| Some(of.log_bytes_max as f64 / 1e6))),
            ("reads/s", "", &|(_, _, case)| count(case, |of| of.reads_per_second)),
            ("opening", "s", &|(_, _, case)| optional(figure(case, opening))),
        ],
    )
    .with_notes(notes(cases))
    .with_note(
        "range: of rows/s. log: its greatest length. opening: time to open a copy of the database and its log, as \
         after a crash.",
    )
}

type Line<'a, 'b> = (&'a str, &'a Vec<Case<'b>>, &'a Case<'b>);

fn rows<'a, 'b>(all: &'a [(&'b str, Vec<Case<'b>>)]) -> impl Iterator<Item = Line<'a, 'b>> {
    all.iter().flat_map(|(keys, own)| own.iter().map(move |case| (*keys, own, case)))
}

fn count(case: &Case<'_>, of: fn(&LargeFigures) -> Option<f64>) -> String {
    figure(case, of).map_or_else(|| optional(None), grouped)
}

fn chart(cases: &[Case<'_>]) -> Chart {
    let mut rows = Vec::new();
    for (keys, own) in by_keys(cases) {
        rows.push(Row::Heading(format!("{keys} keys")));
        rows.extend(own.iter().map(|case| match case.row(&own, |m| m.rows_per_second) {
            Row::Point { role, durable, value, range, quartiles, .. } => {
                Row::Point { name: name(case, &own), role, durable, value, range, quartiles }
            }
            heading @ Row::Heading(_) => heading,
        }));
    }
    Chart {
        name: "large-throughput".to_owned(),
        title: "Rows replaced per second in a large table".to_owned(),
        note: "Point: median; line: range of the repeats. Further right is better.".to_owned(),
        plot: Plot::Points { axis: Axis { label: "rows/s", scale: Scale::Log }, rows },
    }
}

/// Of the first repeats, where the records have their series.
fn over_time(cases: &[Case<'_>]) -> Chart {
    let series =
        cases.iter().filter(|case| case.condition().is_grouped() || case.first().batch > 1);
    let series = series.map(|case| {
        let first = case.first();
        let (mut points, mut last) = (Vec::new(), (0.0, 0.0));
        for point in &first.progress {
            let now = (point.seconds, point.rows as f64);
            if now.0 - last.0 >= first.seconds / STEPS {
                points.push((now.0, (now.1 - last.1) / (now.0 - last.0)));
                last = now;
            }
        }
        let keys = first.setting.as_deref().unwrap_or_default();
        Series { name: format!("{}, {keys}", name(case, &[])), role: case.role(), points }
    });
    Chart {
        name: "large-over-time".to_owned(),
        title: "Rows replaced per second, over time".to_owned(),
        note: "The first repeat.".to_owned(),
        plot: Plot::Lines {
            x: Axis { label: "seconds", scale: Scale::Linear },
            y: Axis { label: "rows/s", scale: Scale::Linear },
            series: series.filter(|series| !series.points.is_empty()).collect(),
        },
    }
}
