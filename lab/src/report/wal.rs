//! Experiment 4, the price of the write-ahead log, as part of a report.

use std::fmt::Write as _;

use crate::condition::Condition;
use crate::measurement::{Measurement, WalFigures};
use crate::report::axis::Axis;
use crate::report::case::{Case, cases};
use crate::report::head::Head;
use crate::report::rows::{Mark, Row, RowChart, RowGroup};
use crate::report::scale::Scale;
use crate::report::section::{Chart, Disk, Figure, Part, Section, Table, parts};
use crate::report::tables::figure as figure_of;
use crate::setting::Benchmark;
use crate::table::{grouped, significant};

/// As published: log, benchmark, MB/s, space and write amplification, mean latency in microseconds.
const PUBLISHED: [(&str, Benchmark, &str, &str, &str, &str); 4] = [
    ("off", Benchmark::Fillseq, "180.22", "2.667", "2", "0.61416"),
    ("off", Benchmark::Fillrandom, "77.33", "1.625", "1.7", "1.43117"),
    ("on, not flushed", Benchmark::Fillseq, "51.73", "2.06667", "2", "2.13972"),
    ("on, not flushed", Benchmark::Fillrandom, "36.17", "1.625", "1.7", "3.06011"),
];

const NOT_MEASURED: &str = "–";

/// The section, `None` without records.
pub(super) fn section(measurements: &[Measurement]) -> Option<Section> {
    let own: Vec<_> = measurements.iter().filter(|m| m.experiment == "wal").collect();
    (!own.is_empty()).then(|| Section {
        name: "wal",
        heading: "The price of the write-ahead log",
        question: "What does a log-structured store pay for its log, and what for making every transaction \
                   durable?",
        parts: parts(&own, part),
        how_to_read: how_to_read(),
        published: Some(published(&own)),
    })
}

fn part(disk: Disk, measurements: &[&Measurement]) -> Part {
    let cases = cases(measurements.iter().copied());
    let figure = |name: &str, chart| Figure {
        file: format!("wal-{name}{}", disk.suffix()),
        chart: Chart::Rows(chart),
        half: false,
    };
    Part {
        disk,
        findings: findings(&cases),
        charts: vec![
            figure("throughput", throughput(disk, &cases)),
            figure("log", log(disk, &cases)),
        ],
        tables: vec![table(disk, &cases)],
    }
}

fn wal(case: &Case<'_>, figure: fn(&WalFigures) -> f64) -> f64 {
    case.median(|m| m.wal.as_ref().map_or(0.0, figure))
}

fn is_of(case: &Case<'_>, benchmark: Benchmark) -> bool {
    case.first().setting.as_deref() == Some(benchmark.name())
}

fn find<'a, 'b>(
    cases: &'a [Case<'b>],
    condition: Condition,
    benchmark: Benchmark,
) -> Option<&'a Case<'b>> {
    cases.iter().find(|case| case.first().condition == condition && is_of(case, benchmark))
}

/// For each benchmark that writes: durable through groupcommit against no log at all.
fn findings(cases: &[Case<'_>]) -> Vec<String> {
    let finding = |benchmark: Benchmark| {
        let durable = find(cases, Condition::Groupcommit, benchmark)?;
        let without = find(cases, Condition::NoWal, benchmark)?;
        let rate = |case: &Case<'_>| case.median(|m| m.rows_per_second);
        let mut text = format!(
            "{}: groupcommit made {} transactions/s durable, {} times what RocksDB wrote without a log",
            benchmark.name(),
            grouped(rate(durable)),
            significant(rate(durable) / rate(without).max(f64::MIN_POSITIVE)),
        );
        for (condition, what) in [
            (Condition::WalNosync, "with a log that is not flushed"),
            (Condition::WalSync, "with every write flushed"),
        ] {
            if let Some(other) = find(cases, condition, benchmark) {
                let ratio = significant(rate(durable) / rate(other).max(f64::MIN_POSITIVE));
                let _infallible = write!(text, ", {ratio} times {what}");
            }
        }
        text.push('.');
        Some(text)
    };
    [Benchmark::Fillseq, Benchmark::Fillrandom].into_iter().filter_map(finding).collect()
}

fn groups(
    cases: &[Case<'_>],
    benchmarks: &[Benchmark],
    row: impl Fn(&Case<'_>) -> Row,
) -> Vec<RowGroup> {
    let group = |benchmark: &Benchmark| RowGroup {
        heading: benchmark.name().to_owned(),
        rows: cases.iter().filter(|case| is_of(case, *benchmark)).map(&row).collect(),
    };
    benchmarks.iter().map(group).filter(|group| !group.rows.is_empty()).collect()
}

fn throughput(disk: Disk, cases: &[Case<'_>]) -> RowChart {
    let rate = |m: &Measurement| m.wal.as_ref().map_or(0.0, |wal| wal.megabytes_per_second);
    let row = |case: &Case<'_>| {
        let spread = case.spread(rate);
        Row {
            name: case.name(cases),
            class: case.full_class(),
            mark: Mark::Bar {
                parts: vec![(spread.median, "")],
                spread: (case.repeats().len() > 1).then_some((spread.min, spread.max)),
            },
            figure: figure_of(spread.median),
        }
    };
    RowChart {
        head: Head {
            title:
                "Keys and values a second, with the log off, on, flushed, and through groupcommit"
                    .to_owned(),
            remark: "Medians over the repeats; the line is the least and the most. * not durable."
                .to_owned(),
            simulated: disk.remark(),
            key: Vec::new(),
        },
        axis: Axis::new("MB/s", Scale::linear(cases.iter().map(|case| case.spread(rate).max))),
        groups: groups(cases, &Benchmark::ALL, row),
    }
}

/// Seconds of the log, of a million transactions.
fn log(disk: Disk, cases: &[Case<'_>]) -> RowChart {
    let per_million = |case: &Case<'_>, figure: fn(&WalFigures) -> f64| {
        case.median(|m| m.wal.as_ref().map_or(0.0, figure) * 1e6 / (m.rows.max(1) as f64))
    };
    let write = |case: &Case<'_>| per_million(case, |wal| wal.log_write_seconds);
    let flush = |case: &Case<'_>| per_million(case, |wal| wal.log_flush_seconds);
    let fills = [Benchmark::Fillseq, Benchmark::Fillrandom];
    let row = |case: &Case<'_>| Row {
        name: case.name(cases),
        class: case.full_class(),
        mark: Mark::Bar {
            parts: vec![(write(case), "shade"), (flush(case), "light")],
            spread: None,
        },
        figure: format!("{} + {}", figure_of(write(case)), figure_of(flush(case))),
    };
    let longest = cases
        .iter()
        .filter(|case| fills.iter().any(|&benchmark| is_of(case, benchmark)))
        .map(|case| write(case) + flush(case));
    RowChart {
        head: Head {
            title: "Time spent writing the log, and flushing it, for a million transactions"
                .to_owned(),
            remark:
                "Writing (dark) and flushing (light). Through groupcommit the flush goes on beside \
                     the next group."
                    .to_owned(),
            simulated: disk.remark(),
            key: Vec::new(),
        },
        axis: Axis::new("seconds", Scale::linear(longest)),
        groups: groups(cases, &fills, row),
    }
}

fn optional(case: &Case<'_>, figure: fn(&WalFigures) -> Option<f64>) -> String {
    let there = case.first().wal.as_ref().and_then(figure).is_some();
    if !there {
        return NOT_MEASURED.to_owned();
    }
    figure_of(case.median(|m| m.wal.as_ref().and_then(figure).unwrap_or_default()))
}

fn table(disk: Disk, cases: &[Case<'_>]) -> Table {
    let row = |case: &Case<'_>| {
        let first = case.first();
        let rocksdb =
            |wal: &WalFigures| (wal.log_bytes + wal.flush_bytes + wal.compaction_bytes) as f64;
        let written = wal(case, rocksdb);
        let kernel = wal(case, |wal| wal.kernel_bytes.unwrap_or_default() as f64);
        let checked = if written > 0.0 && kernel > 0.0 {
            figure_of(kernel / written)
        } else {
            NOT_MEASURED.to_owned()
        };
        vec![
            first.setting.clone().unwrap_or_default(),
            case.name(cases),
            figure_of(wal(case, |wal| wal.megabytes_per_second)),
            grouped(case.median(|m| m.rows_per_second)),
            figure_of(case.median(|m| m.latency_ms.mean * 1e3)),
            optional(case, |wal| wal.space_amplification),
            optional(case, |wal| wal.write_amplification),
            optional(case, |wal| wal.table_write_amplification),
            checked,
            figure_of(wal(case, |wal| wal.log_write_seconds)),
            figure_of(wal(case, |wal| wal.log_flush_seconds)),
        ]
    };
    let sorted =
        Benchmark::ALL.iter().flat_map(|&b| cases.iter().filter(move |case| is_of(case, b)));
    Table {
        caption: format!("The price of the write-ahead log. {}", disk.heading()),
        columns: vec![
            "benchmark",
            "condition",
            "MB/s",
            "operations/s",
            "mean wait, µs",
            "space amplification",
            "write amplification",
            "without the log",
            "kernel ÷ RocksDB",
            "writing the log, s",
            "flushing the log, s",
        ],
        rows: sorted.map(row).collect(),
        notes: vec![
            "MB: 1,048,576 bytes of keys and values. * not durable. Amplifications are by RocksDB's own \
             statistics; \"kernel ÷ RocksDB\" is what the kernel saw written against what RocksDB counted."
                .to_owned(),
        ],
    }
}

fn published(measurements: &[&Measurement]) -> Table {
    let cases = cases(measurements.iter().copied());
    let row = |&(log, benchmark, rate, space, write, latency): &(
        &str,
        Benchmark,
        &str,
        &str,
        &str,
        &str,
    )| {
        let condition = if log == "off" { Condition::NoWal } else { Condition::WalNosync };
        let ours = find(&cases, condition, benchmark);
        let here =
            |text: fn(&Case<'_>) -> String| ours.map_or_else(|| NOT_MEASURED.to_owned(), text);
        let beside = |published: &str, ours: String| format!("{published} | {ours}");
        vec![
            log.to_owned(),
            benchmark.name().to_owned(),
            beside(rate, here(|case| figure_of(wal(case, |wal| wal.megabytes_per_second)))),
            beside(space, here(|case| optional(case, |wal| wal.space_amplification))),
            beside(write, here(|case| optional(case, |wal| wal.table_write_amplification))),
            beside(latency, here(|case| figure_of(case.median(|m| m.latency_ms.mean * 1e3)))),
        ]
    };
    Table {
        caption: "Beside the publication (the price of the WAL): published | here".to_owned(),
        columns: vec![
            "log",
            "benchmark",
            "MB/s",
            "space amplification",
            "write amplification",
            "mean latency, µs",
        ],
        rows: PUBLISHED.iter().map(row).collect(),
        notes: vec![
            "Another machine, another disk: so no ratio. Published as means of 10 runs; ours are medians. \
             The published write amplification does not count the log, so ours beside it does not either."
                .to_owned(),
        ],
    }
}

fn how_to_read() -> Vec<String> {
    [
        "Every condition writes the same entries, one a call or transaction. no-wal and wal-nosync lose \
         what they acknowledged: the first when the process ends, both when the power does. wal-sync \
         flushes the log for every write; groupcommit acknowledges a transaction only when it is flushed, \
         and many share a flush.",
        "A wait through groupcommit is longer than one call, because many transactions are in flight at \
         once. Reads go through no log; they are there to show that nothing is paid for them.",
    ]
    .map(str::to_owned)
    .into()
}
