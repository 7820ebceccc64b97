//! Experiment 2, transaction merging, as part of a report.

use crate::condition::Condition;
use crate::measurement::Measurement;
use crate::report::axis::Axis;
use crate::report::case::{Case, cases};
use crate::report::drawing::Marker;
use crate::report::head::Head;
use crate::report::lines::{LineChart, Series, Stroke};
use crate::report::published::{self, MERGED_PER_SECOND, MERGED_THREADS};
use crate::report::scale::Scale;
use crate::report::section::{Chart, Disk, Figure, Part, Section, parts};
use crate::report::tables;
use crate::table::{grouped, significant};

/// The section, `None` without records.
pub(super) fn section(measurements: &[Measurement]) -> Option<Section> {
    let own: Vec<_> = measurements.iter().filter(|m| m.experiment == "threads").collect();
    (!own.is_empty()).then(|| Section {
        name: "threads",
        heading: "Many threads, one document each",
        question: "How many documents a second become durable when many threads insert single documents, \
                   each in a transaction of its own?",
        parts: parts(&own, part),
        how_to_read: how_to_read(),
        published: Some(published::threads(&own)),
    })
}

fn part(disk: Disk, measurements: &[&Measurement]) -> Part {
    let cases = cases(measurements.iter().copied());
    let figure = |name: &str, chart, half| Figure {
        file: format!("threads-{name}{}", disk.suffix()),
        chart: Chart::Lines(chart),
        half,
    };
    let throughput = {
        let title = "Durable documents a second by number of threads";
        let mut chart = by_threads(disk, title, "documents/s", &cases, |m| m.rows_per_second, 1.0);
        // Measured on another machine, so beside ours only where the disk is the real one.
        if disk.flush_delay_ms.is_none() {
            let rates = cases.iter().map(|case| case.median(|m| m.rows_per_second));
            chart.upward.scale = Scale::logarithmic(rates.chain([MERGED_PER_SECOND]));
            let threads = cases.iter().map(|case| case.first().threads as f64);
            chart.across.scale = Scale::settings(threads);
            chart.series.push(Series {
                name: "published: merged, 25 threads (RavenDB, another machine)".to_owned(),
                class: "published".to_owned(),
                stroke: Stroke::Points(Marker::Cross),
                points: vec![(MERGED_THREADS as f64, MERGED_PER_SECOND)],
            });
        }
        chart
    };
    Part {
        disk,
        findings: finding(&cases).into_iter().collect(),
        charts: vec![
            figure("throughput", throughput, false),
            figure(
                "latency-p50",
                by_threads(
                    disk,
                    "What half of the callers waited at most, by number of threads",
                    "latency p50, ms",
                    &cases,
                    |m| m.latency_ms.p50,
                    0.0,
                ),
                true,
            ),
            figure(
                "latency-p99",
                by_threads(
                    disk,
                    "What 99 of 100 callers waited at most, by number of threads",
                    "latency p99, ms",
                    &cases,
                    |m| m.latency_ms.p99,
                    0.0,
                ),
                true,
            ),
        ],
        tables: vec![tables::threads(disk, &cases)],
    }
}

/// At the most threads with which both were measured.
fn finding(cases: &[Case<'_>]) -> Option<String> {
    let reference = |threads| {
        cases
            .iter()
            .find(|case| case.first().is_reference_of_threads() && case.first().threads == threads)
    };
    let merged = cases.iter().filter(|case| case.first().condition == Condition::Merged);
    let (merged, shared) = merged
        .filter_map(|merged| Some((merged, reference(merged.first().threads)?)))
        .max_by_key(|(merged, _)| merged.first().threads)?;
    let rate = |case: &Case<'_>| case.median(|m| m.rows_per_second);
    (rate(shared) > 0.0).then(|| {
        format!(
            "With {} threads, merging made {} documents/s durable, {} times the {} of {}.",
            grouped(merged.first().threads as f64),
            grouped(rate(merged)),
            significant(rate(merged) / rate(shared)),
            grouped(rate(shared)),
            tables::threads_name(shared.first().condition),
        )
    })
}

fn by_threads(
    disk: Disk,
    title: &str,
    unit: &str,
    cases: &[Case<'_>],
    figure: impl Fn(&Measurement) -> f64,
    least: f64,
) -> LineChart {
    let mut conditions = Vec::new();
    for case in cases {
        if !conditions.contains(&case.first().condition) {
            conditions.push(case.first().condition);
        }
    }
    let values = || cases.iter().map(|case| case.median(&figure).max(least));
    let series = conditions.into_iter().map(|condition| {
        let own: Vec<_> = cases.iter().filter(|c| c.first().condition == condition).collect();
        let mut points: Vec<_> =
            own.iter().map(|c| (c.first().threads as f64, c.median(&figure))).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Series {
            name: tables::threads_name(condition).to_owned(),
            class: own[0].full_class(),
            stroke: Stroke::Marked(own[0].marker()),
            points,
        }
    });
    LineChart {
        head: Head {
            title: title.to_owned(),
            remark: "Medians over the repeats.".to_owned(),
            simulated: disk.remark(),
            key: Vec::new(),
        },
        across: Axis::new(
            "threads",
            Scale::settings(cases.iter().map(|c| c.first().threads as f64)),
        ),
        upward: Axis::new(unit, Scale::logarithmic(values())),
        series: series.collect(),
    }
}

fn how_to_read() -> Vec<String> {
    [
        "Each thread inserts one document, waits until it is durable, and inserts the next. A line that \
         stays level means that the threads queue for the disk one after the other; one that rises means \
         that they share its flushes.",
        "The published figure stands beside ours to show the shape of the experiment. It was measured on \
         another machine with another database, so no ratio is made of the two.",
    ]
    .map(str::to_owned)
    .into()
}
