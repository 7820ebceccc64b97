//! Experiment 3, the asynchronous client, as part of a report.

use crate::condition::Condition;
use crate::measurement::Measurement;
use crate::report::Spec;
use crate::report::case::{Case, Setup, notes};
use crate::report::model::{Axis, Body, Chart, Item, Plot, Row, Scale, Table};
use crate::report::number::{grouped, optional, ratio, significant};
use crate::report::published::{Beside, beside};
use crate::setting::{Queries, WebLoad};

pub(super) const SPEC: Spec = Spec {
    experiment: "web",
    heading: "Requests of a web application",
    question: "How long does a request take that asks for important and less important data at once, and \
               updates something when the important part is answered?",
    how_to_read: &[
        "A request runs one important query, three less important ones and, after the important one, an update. \
         Each query takes 0.2 to 6 ms of a processor of the database or, where that is said, waits in the server. \
         A blocking client does one after another. An asynchronous one sends at once whatever depends on nothing.",
        "A latency counts from the intended arrival. High load: as many threads as there are processors compute \
         beside the database. At once: all requests arrive at the same moment, with the shortest queries.",
    ],
    body,
};

/// As published: minimum, median, mean and maximum in milliseconds.
const PUBLISHED: [(Condition, WebLoad, [&str; 4]); 6] = [
    (Condition::Blocking, WebLoad::Normal, ["36", "47", "66.26", "222"]),
    (Condition::BlockingPool, WebLoad::Normal, ["17", "30", "41.37", "156"]),
    (Condition::Groupcommit, WebLoad::Normal, ["20", "32", "41.25", "155"]),
    (Condition::Bridge, WebLoad::Normal, ["40", "72", "85.35", "197"]),
    (Condition::Blocking, WebLoad::High, ["41", "142", "160.22", "604"]),
    (Condition::Groupcommit, WebLoad::High, ["20", "59.5", "77.43", "298"]),
];

/// The shortest latency.
fn least_ms(m: &Measurement) -> f64 {
    m.latency_percentiles_ms.first().map_or(f64::NAN, |&(_, ms)| ms)
}

fn p50(m: &Measurement) -> f64 {
    m.latency_ms.p50
}

fn find<'a, 'b>(
    cases: &'a [Case<'b>],
    condition: Condition,
    setting: &str,
) -> Option<&'a Case<'b>> {
    cases.iter().find(|case| {
        case.condition() == condition && case.first().setting.as_deref() == Some(setting)
    })
}

/// The loads that occur, in the order of their definition.
fn settings(cases: &[Case<'_>]) -> Vec<String> {
    let all = Queries::ALL.into_iter().flat_map(|q| WebLoad::ALL.map(|load| load.label(q)));
    all.filter(|label| cases.iter().any(|c| c.first().setting.as_deref() == Some(label))).collect()
}

fn body(_: Setup, cases: &[Case<'_>]) -> Body {
    let settings = settings(cases);
    Body {
        findings: settings.iter().filter_map(|setting| finding(cases, setting)).collect(),
        shown: vec![Item::Chart(chart(cases, &settings)), Item::Table(table(cases, &settings))],
        more: vec![Item::Table(published(cases))],
    }
}

fn finding(cases: &[Case<'_>], setting: &str) -> Option<String> {
    let ours = find(cases, Condition::Groupcommit, setting)?;
    let beside = |condition| find(cases, condition, setting).map(|case| case.median(p50));
    Some(format!(
        "Load {setting}: half of the requests were done within {} ms with groupcommit, {} ms with a blocking pool, {} \
         ms with a connection per request.",
        significant(ours.median(p50)),
        optional(beside(Condition::BlockingPool)),
        optional(beside(Condition::Blocking)),
    ))
}

fn chart(cases: &[Case<'_>], settings: &[String]) -> Chart {
    let row = |case: &Case<'_>| {
        let percentiles = case.percentiles();
        let at = |quantile: f64| {
            percentiles.iter().find(|(q, _)| (q - quantile).abs() < 1e-9).map(|&(_, ms)| ms)
        };
        let middle = case.median(p50);
        Row::Point {
            name: case.name(&[]),
            role: case.role(),
            durable: true,
            value: middle,
            range: (at(0.0).unwrap_or(middle), case.median(|m| m.latency_ms.p99)),
            quartiles: at(0.25).zip(at(0.75)),
        }
    };
    let mut rows = Vec::new();
    for setting in settings {
        rows.push(Row::Heading(format!("load: {setting}")));
        let own = cases.iter().filter(|case| case.first().setting.as_deref() == Some(setting));
        rows.extend(own.map(row));
    }
    Chart {
        name: "web-done".to_owned(),
        title: "How long a request took until all of it was answered".to_owned(),
        note: "Point: median; box: middle half, where it was recorded; line: shortest to 99th percentile. Further \
               left is better."
            .to_owned(),
        plot: Plot::Points { axis: Axis { label: "ms", scale: Scale::Log }, rows },
    }
}

fn table(cases: &[Case<'_>], settings: &[String]) -> Table {
    let is_of = |case: &&Case<'_>, load: &String| case.first().setting.as_ref() == Some(load);
    let rows = settings.iter().flat_map(|load| {
        cases.iter().filter(move |case| is_of(case, load)).map(move |case| (load, case))
    });
    let blocking = |load: &str| find(cases, Condition::Blocking, load).map(|case| case.median(p50));
    let peak = |case: &Case<'_>| case.repeats().iter().filter_map(|m| m.connections_peak).max();
    let important = |m: &Measurement| m.read_latency_ms.map_or(f64::NAN, |first| first.p50);
    Table::of(
        rows,
        &[
            ("condition", "", &|(_, case)| case.condition().to_string()),
            ("load", "", &|(load, _)| (*load).clone()),
            ("requests", "", &|(_, case)| grouped(case.median(|m| m.rows as f64))),
            ("min", "ms", &|(_, case)| significant(case.median(least_ms))),
            ("median", "ms", &|(_, case)| significant(case.median(p50))),
            ("mean", "ms", &|(_, case)| significant(case.median(|m| m.latency_ms.mean))),
            ("p99", "ms", &|(_, case)| significant(case.median(|m| m.latency_ms.p99))),
            ("max", "ms", &|(_, case)| significant(case.median(|m| m.latency_ms.max))),
            ("median × blocking", "", &|(load, case)| ratio(case.median(p50), blocking(load))),
            ("important part", "ms", &|(_, case)| significant(case.median(important))),
            ("connec\u{ad}tions", "", &|(_, case)| {
                grouped(peak(case).map_or(f64::NAN, |peak| peak as f64))
            }),
        ],
    )
    .with_notes(notes(cases))
    .with_note(
        "min to max: until all of a request is answered. median × blocking: divided by the median of `blocking` \
         under the same load; less is better. important part: median. connections: the most seen at once.",
    )
}

fn published(cases: &[Case<'_>]) -> Table {
    let figures: [fn(&Measurement) -> f64; 4] =
        [least_ms, p50, |m| m.latency_ms.mean, |m| m.latency_ms.max];
    let rows = PUBLISHED.map(|(condition, load, published)| {
        let case = Queries::ALL.into_iter().find_map(|q| find(cases, condition, &load.label(q)));
        let here = figures.map(|figure| case.map(|case| case.median(figure)));
        Beside { condition, setting: load.name(), published, here }
    });
    beside(["load", "min", "median", "mean", "max"], ["ms"; 4], &rows)
        .with_caption("Beside the publication (Akka Async SQL over ADBCJ, MySQL)")
        .with_note(
            "The published asynchronous client stands beside `groupcommit`. Under high load the published bridge \
             opened too many connections and crashed; this one is bounded.",
        )
}
