//! Experiment 4, the price of the write-ahead log, as part of a report.

use crate::condition::Condition;
use crate::measurement::{Measurement, WalFigures};
use crate::report::Spec;
use crate::report::case::{Case, Setup, notes};
use crate::report::model::{Axis, Body, Chart, Item, Plot, Row, Scale, Table};
use crate::report::number::{grouped, optional, ratio, significant};
use crate::report::published::{Beside, beside};
use crate::setting::Benchmark;

pub(super) const SPEC: Spec = Spec {
    experiment: "wal",
    heading: "The price of the write-ahead log",
    question: "What does RocksDB pay for its log, and what for making every transaction durable?",
    how_to_read: &[
        "`fillseq` and `fillrandom` write keys in ascending and in random order, `readrandom` reads random keys. \
         Every condition writes the same entries, one per call or transaction.",
        "Space: bytes of table files ÷ bytes that can be read. Written: bytes written ÷ bytes given, and in \
         brackets without the log, as it was published. Log write and log flush: seconds per million entries, \
         in which other work may go on.",
    ],
    body,
};

/// As published: condition, benchmark, MB/s, space, written without the log, mean latency in microseconds.
const PUBLISHED: [(Condition, Benchmark, [&str; 4]); 4] = [
    (Condition::NoWal, Benchmark::Fillseq, ["180.22", "2.667", "2", "0.614"]),
    (Condition::NoWal, Benchmark::Fillrandom, ["77.33", "1.625", "1.7", "1.43"]),
    (Condition::WalNosync, Benchmark::Fillseq, ["51.73", "2.067", "2", "2.14"]),
    (Condition::WalNosync, Benchmark::Fillrandom, ["36.17", "1.625", "1.7", "3.06"]),
];

fn body(_: Setup, cases: &[Case<'_>]) -> Body {
    Body {
        findings: [Benchmark::Fillseq, Benchmark::Fillrandom]
            .into_iter()
            .filter_map(|benchmark| finding(cases, benchmark))
            .collect(),
        shown: vec![Item::Chart(chart(cases)), Item::Table(table(cases))],
        more: vec![Item::Table(published(cases))],
    }
}

fn megabytes(m: &Measurement) -> f64 {
    m.wal.as_ref().map_or(f64::NAN, |wal| wal.megabytes_per_second)
}

fn wait_us(m: &Measurement) -> f64 {
    m.latency_ms.mean * 1e3
}

/// The median of a figure that some conditions do not have.
fn figure(case: &Case<'_>, of: fn(&WalFigures) -> Option<f64>) -> Option<f64> {
    case.first().wal.as_ref().and_then(of)?;
    Some(case.median(|m| m.wal.as_ref().and_then(of).unwrap_or(f64::NAN)))
}

/// Seconds for a million entries.
fn per_million(case: &Case<'_>, of: fn(&WalFigures) -> f64) -> Option<f64> {
    figure(case, |wal| wal.write_amplification)?;
    Some(case.median(|m| m.wal.as_ref().map_or(f64::NAN, of) * 1e6 / m.rows.max(1) as f64))
}

fn of_benchmark<'a, 'b>(
    cases: &'a [Case<'b>],
    benchmark: Benchmark,
) -> impl Iterator<Item = &'a Case<'b>> {
    cases.iter().filter(move |case| case.first().setting.as_deref() == Some(benchmark.name()))
}

fn find<'a, 'b>(
    cases: &'a [Case<'b>],
    condition: Condition,
    benchmark: Benchmark,
) -> Option<&'a Case<'b>> {
    of_benchmark(cases, benchmark).find(|case| case.condition() == condition)
}

/// Durable through groupcommit against no log at all, and against a flush per write.
fn finding(cases: &[Case<'_>], benchmark: Benchmark) -> Option<String> {
    let durable = find(cases, Condition::Groupcommit, benchmark)?;
    let times =
        |condition| ratio(durable.rate(), find(cases, condition, benchmark).map(Case::rate));
    Some(format!(
        "`{}`: groupcommit made {} transactions/s durable, {} × what RocksDB wrote without a log and {} × what it \
         wrote with every write flushed.",
        benchmark.name(),
        grouped(durable.rate()),
        times(Condition::NoWal),
        times(Condition::WalSync),
    ))
}

fn chart(cases: &[Case<'_>]) -> Chart {
    let mut rows = Vec::new();
    for benchmark in Benchmark::ALL {
        rows.push(Row::Heading(benchmark.name().to_owned()));
        rows.extend(of_benchmark(cases, benchmark).map(|case| case.row(&[], megabytes)));
    }
    Chart {
        name: "wal-throughput".to_owned(),
        title: "Keys and values per second".to_owned(),
        note: "Point: median; line: range of the repeats; hollow: not durable. Further right is better."
            .to_owned(),
        plot: Plot::Points { axis: Axis { label: "MB/s", scale: Scale::Log }, rows },
    }
}

fn table(cases: &[Case<'_>]) -> Table {
    let rows = Benchmark::ALL
        .into_iter()
        .flat_map(|benchmark| of_benchmark(cases, benchmark).map(move |case| (benchmark, case)));
    let no_wal = |benchmark| find(cases, Condition::NoWal, benchmark).map(Case::rate);
    let written = |case: &Case<'_>| {
        let tables = figure(case, |wal| wal.table_write_amplification);
        figure(case, |wal| wal.write_amplification).map_or_else(
            || optional(None),
            |all| format!("{} ({})", significant(all), optional(tables)),
        )
    };
    Table::of(
        rows,
        &[
            ("condition", "", &|(_, case)| case.name(&[])),
            ("benchmark", "", &|(benchmark, _)| benchmark.name().to_owned()),
            ("MB/s", "", &|(_, case)| significant(case.median(megabytes))),
            ("range", "", &|(_, case)| case.range(megabytes)),
            ("rows/s", "", &|(_, case)| grouped(case.rate())),
            ("× no-wal", "", &|(benchmark, case)| ratio(case.rate(), no_wal(*benchmark))),
            ("mean wait", "µs", &|(_, case)| significant(case.median(wait_us))),
            ("space", "", &|(_, case)| optional(figure(case, |wal| wal.space_amplification))),
            ("written", "", &|(_, case)| written(case)),
            ("log write", "s", &|(_, case)| {
                optional(per_million(case, |wal| wal.log_write_seconds))
            }),
            ("log flush", "s", &|(_, case)| {
                optional(per_million(case, |wal| wal.log_flush_seconds))
            }),
        ],
    )
    .with_notes(notes(cases))
    .with_note(
        "MB: 1,048,576 bytes of keys and values. × no-wal: rows/s divided by those of `no-wal` in the same \
         benchmark. More is better.",
    )
}

fn published(cases: &[Case<'_>]) -> Table {
    let rows = PUBLISHED.map(|(condition, benchmark, published)| {
        let case = find(cases, condition, benchmark);
        let here = [
            case.map(|case| case.median(megabytes)),
            case.and_then(|case| figure(case, |wal| wal.space_amplification)),
            case.and_then(|case| figure(case, |wal| wal.table_write_amplification)),
            case.map(|case| case.median(wait_us)),
        ];
        Beside { condition, setting: benchmark.name(), published, here }
    });
    beside(["benchmark", "MB/s", "space", "written", "wait"], ["", "", "", "µs"], &rows)
        .with_caption("Beside the publication (mean of 10 runs)")
        .with_note(
            "The published write amplification does not count the log, so ours does not either.",
        )
}
