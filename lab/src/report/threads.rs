//! Experiment 2, transaction merging, as part of a report.

use crate::condition::Condition;
use crate::engine::Engine;
use crate::measurement::Measurement;
use crate::report::Spec;
use crate::report::case::{Case, Setup, by, notes};
use crate::report::model::{Axis, Body, Chart, Item, Plot, Scale, Series, Table};
use crate::report::number::{grouped, ratio, significant};
use crate::report::published;

pub(super) const SPEC: Spec = Spec {
    experiment: "threads",
    heading: "Many callers, one row each",
    question: "How many rows become durable when many threads each insert single rows in transactions of \
               their own?",
    how_to_read: &[
        "Each thread inserts a row, waits until it is durable, and inserts the next. A line that stays level \
         means that threads queue for the disk one after another. A line that rises means that they share \
         its flushes.",
    ],
    body,
};

/// What a reader who has not seen the conditions yet can tell apart.
fn title(condition: Condition, setup: Setup) -> String {
    let engine = setup.engine.map_or("", Engine::title);
    match condition {
        Condition::Merged => "groupcommit".to_owned(),
        Condition::Shared => format!("plain {engine} WAL, shared connection"),
        Condition::Connections => format!("plain {engine}, a connection per thread"),
        Condition::SyncThreads => format!("plain {engine}, synced commits"),
        other => other.name().to_owned(),
    }
}

fn body(setup: Setup, cases: &[Case<'_>]) -> Body {
    let lines = |name: &str, title_of: &str, label, figure: fn(&Measurement) -> f64| {
        let series = by(cases, |case| case.condition().name()).into_iter().map(|(_, own)| Series {
            name: title(own[0].condition(), setup),
            role: own[0].role(),
            points: by(&own, |case| case.first().threads)
                .iter()
                .map(|(threads, own)| (*threads as f64, own[0].median(figure)))
                .collect(),
        });
        Chart {
            name: format!("threads-{name}"),
            title: title_of.to_owned(),
            note: "Medians. One row per transaction.".to_owned(),
            plot: Plot::Lines {
                x: Axis { label: "callers (threads)", scale: Scale::Doubling },
                y: Axis { label, scale: Scale::Log },
                series: series.collect(),
            },
        }
    };
    let throughput =
        lines("throughput", "Durable rows per second, by callers", "rows/s", |m| m.rows_per_second);
    let wait = lines("wait", "Median wait of a caller", "ms", |m| m.latency_ms.p50);
    let mut more = vec![Item::Chart(wait)];
    if setup.engine == Some(Engine::Sqlite) && setup.flush_delay_ms.is_none() {
        more.push(Item::Table(published::threads(cases)));
    }
    Body {
        findings: finding(setup, cases).into_iter().collect(),
        shown: vec![Item::Chart(throughput), Item::Table(table(cases))],
        more,
    }
}

fn reference<'a, 'b>(cases: &'a [Case<'b>], threads: usize) -> Option<&'a Case<'b>> {
    cases
        .iter()
        .find(|case| case.first().is_reference_of_threads() && case.first().threads == threads)
}

/// At the most threads with which both were measured.
fn finding(setup: Setup, cases: &[Case<'_>]) -> Option<String> {
    let merged = cases.iter().filter(|case| case.condition() == Condition::Merged);
    let (merged, plain) = merged
        .filter_map(|merged| Some((merged, reference(cases, merged.first().threads)?)))
        .max_by_key(|(merged, _)| merged.first().threads)?;
    Some(format!(
        "With {} threads, groupcommit made {} rows/s durable, {} × the {} of {} with as many threads.",
        grouped(merged.first().threads as f64),
        grouped(merged.rate()),
        ratio(merged.rate(), Some(plain.rate())),
        grouped(plain.rate()),
        setup.plain(plain.condition()),
    ))
}

fn table(cases: &[Case<'_>]) -> Table {
    let name = cases.iter().find(|case| case.first().is_reference_of_threads());
    let name = name.map_or("", |case| case.condition().name());
    let against = format!("× {name}");
    let reference = |case: &Case<'_>| reference(cases, case.first().threads).map(Case::rate);
    Table::of(
        by(cases, |case| case.first().threads).iter().flat_map(|(_, own)| own),
        &[
            ("condition", "", &|case| case.condition().to_string()),
            ("threads", "", &|case| grouped(case.first().threads as f64)),
            ("rows/s", "", &|case| grouped(case.rate())),
            ("range", "", &|case| case.range(|m| m.rows_per_second)),
            (&against, "", &|case| ratio(case.rate(), reference(case))),
            ("wait p50", "ms", &|case| significant(case.median(|m| m.latency_ms.p50))),
            ("wait p99", "ms", &|case| significant(case.median(|m| m.latency_ms.p99))),
            ("longest wait", "ms", &|case| significant(case.median(|m| m.latency_ms.max))),
            ("group", "", &|case| significant(case.median(|m| m.group_transactions_mean))),
        ],
    )
    .with_notes(notes(cases))
    .with_note(format!(
        "{against}: rows/s divided by those of `{name}` with as many threads. More is better. group: \
         transactions per commit."
    ))
}
