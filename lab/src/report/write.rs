//! Experiment 1, pure write, as part of a report.

use crate::condition::Condition;
use crate::measurement::Measurement;
use crate::quality::paired_ratio;
use crate::report::axis::Axis;
use crate::report::case::{Case, cases};
use crate::report::distribution::{box_plot, percentile_curves};
use crate::report::drawing::Marker;
use crate::report::head::{Head, Key, KeyMark};
use crate::report::lines::{LineChart, Series, Stroke};
use crate::report::published;
use crate::report::rows::{Mark, Row, RowChart, RowGroup};
use crate::report::scale::Scale;
use crate::report::section::{Chart, Disk, Figure, Part, Section, parts};
use crate::report::tables::{self, NOT_DURABLE};
use crate::statistics::{TARGET_LATENCY_MS, effective_throughput_1ms};
use crate::table::{grouped, significant};

/// The section, `None` without records.
pub(super) fn section(measurements: &[Measurement]) -> Option<Section> {
    let own: Vec<_> = measurements.iter().filter(|m| m.experiment == "write").collect();
    (!own.is_empty()).then(|| Section {
        name: "write",
        heading: "Pure write",
        question: "How many rows a second become durable, and how long does a caller wait for its \
                   transaction, by rows a transaction and by who commits?",
        parts: parts(&own, part),
        how_to_read: how_to_read(),
        published: Some(published::write(&own)),
    })
}

fn part(disk: Disk, measurements: &[&Measurement]) -> Part {
    let cases = cases(measurements.iter().copied());
    let mut batches: Vec<usize> = cases.iter().map(|case| case.first().batch).collect();
    batches.sort_unstable();
    batches.dedup();
    let of = |batch: usize| -> Vec<Case<'_>> {
        cases.iter().filter(|case| case.first().batch == batch).cloned().collect()
    };
    let by_batch: Vec<(usize, Vec<Case<'_>>)> =
        batches.iter().map(|&batch| (batch, of(batch))).collect();
    let figure = |name: &str, chart, half| Figure {
        file: format!("write-{name}{}", disk.suffix()),
        chart,
        half,
    };

    let mut charts = vec![
        figure("effective-throughput-latency", Chart::Rows(by_latency(disk, &by_batch)), false),
        figure("effective-throughput-interval", Chart::Rows(by_interval(disk, &by_batch)), false),
        figure("two-readings", Chart::Rows(two_readings(disk, &by_batch)), false),
    ];
    for (batch, cases) in &by_batch {
        let chart = Chart::Lines(over_time(disk, *batch, cases));
        charts.push(figure(&format!("over-time-{batch}"), chart, true));
    }
    let groups: Vec<_> =
        by_batch.iter().map(|(batch, cases)| (heading(*batch), cases.clone())).collect();
    let title = "How long callers waited: half of all transactions lie in the box";
    charts.push(figure("latency-boxes", Chart::Rows(box_plot(disk, title, &groups)), false));
    for (batch, cases) in &by_batch {
        let title = format!("Waits by percentile, {}", heading(*batch));
        let chart = Chart::Lines(percentile_curves(disk, title, cases));
        charts.push(figure(&format!("latency-percentiles-{batch}"), chart, true));
    }
    Part { disk, findings: findings(&by_batch), charts, tables: vec![tables::write(disk, &cases)] }
}

fn heading(batch: usize) -> String {
    if batch == 1 {
        "1 row a transaction".to_owned()
    } else {
        format!("{} rows a transaction", grouped(batch as f64))
    }
}

fn findings(by_batch: &[(usize, Vec<Case<'_>>)]) -> Vec<String> {
    let mut findings = by_rate(by_batch);
    findings.extend(by_batch.iter().filter_map(|(batch, cases)| at_equal_load(*batch, cases)));
    findings
}

/// The effective throughput of the async condition against the best durable one of others that had
/// as many callers.
fn at_equal_load(batch: usize, cases: &[Case<'_>]) -> Option<String> {
    let effective: fn(&Measurement) -> f64 = |m| m.effective_throughput_1ms;
    let is_ours = |case: &&Case<'_>| case.first().condition == Condition::GroupcommitAsync;
    cases.iter().filter(is_ours).find_map(|ours| {
        let in_flight = ours.first().in_flight;
        let best = cases
            .iter()
            .filter(|case| !is_ours(case) && case.first().durable)
            .filter(|case| case.first().in_flight == in_flight && in_flight > 1)
            .max_by(|one, other| one.median(effective).total_cmp(&other.median(effective)))?;
        let times = paired_ratio(ours.repeats(), best.repeats(), effective)?;
        Some(format!(
            "At {}, with {} callers or transactions in flight, the effective throughput of groupcommit-async \
             was {} times that of the best other durable condition, {}.",
            heading(batch),
            grouped(in_flight as f64),
            significant(times),
            best.first().condition.name(),
        ))
    })
}

fn by_rate(by_batch: &[(usize, Vec<Case<'_>>)]) -> Vec<String> {
    let Some((batch, cases)) = by_batch.first() else { return Vec::new() };
    let of = |condition| cases.iter().find(|case| case.first().condition == condition);
    // Of several numbers of callers, the reference is meant with the fewest.
    let reference = cases
        .iter()
        .filter(|case| case.first().condition.is_reference())
        .min_by_key(|case| case.first().in_flight);
    let (Some(wal), Some(ours)) = (reference, of(Condition::GroupcommitAsync)) else {
        return Vec::new();
    };
    let rate = |case: &Case<'_>| case.median(|m| m.rows_per_second);
    if rate(wal) <= 0.0 {
        return Vec::new();
    }
    vec![format!(
        "At {}, groupcommit-async with {} in flight made {} rows/s durable, {} times the {} of \
         {}; a caller waited {} ms at the median, against {} ms.",
        heading(*batch),
        grouped(ours.first().in_flight as f64),
        grouped(rate(ours)),
        significant(rate(ours) / rate(wal)),
        grouped(rate(wal)),
        match wal.first().condition {
            Condition::Connections => {
                format!("{} connections", grouped(wal.first().in_flight as f64))
            }
            condition => condition.to_string(),
        },
        significant(ours.median(|m| m.latency_ms.p50)),
        significant(wal.median(|m| m.latency_ms.p50)),
    )]
}

fn head(disk: Disk, title: &str, remark: &str, cases: &[(usize, Vec<Case<'_>>)]) -> Head {
    let loose = cases.iter().flat_map(|(_, cases)| cases).any(|case| !case.first().durable);
    let remark = if loose { format!("{remark} {NOT_DURABLE}") } else { remark.to_owned() };
    Head { title: title.to_owned(), remark, simulated: disk.remark(), key: Vec::new() }
}

fn by_latency(disk: Disk, by_batch: &[(usize, Vec<Case<'_>>)]) -> RowChart {
    let title =
        "Effective throughput by rows a transaction, reading latency as what a caller waits";
    let remark =
        "Rows/s × (1 ms ÷ mean latency). Bars: medians; whiskers: the repeats' least and most.";
    bars(head(disk, title, remark, by_batch), by_batch, |m| m.effective_throughput_1ms)
}

fn by_interval(disk: Disk, by_batch: &[(usize, Vec<Case<'_>>)]) -> RowChart {
    let title =
        "Effective throughput by rows a transaction, reading latency as the completion interval";
    let remark =
        "Rows/s × (1 ms ÷ completion interval): the published reading, which nobody waits for.";
    bars(head(disk, title, remark, by_batch), by_batch, |m| {
        effective_throughput_1ms(m.rows_per_second, m.completion_interval_ms)
    })
}

fn bars(
    head: Head,
    by_batch: &[(usize, Vec<Case<'_>>)],
    figure: impl Fn(&Measurement) -> f64,
) -> RowChart {
    let all = by_batch.iter().flat_map(|(_, cases)| cases);
    let values: Vec<f64> = all.flat_map(Case::repeats).map(|m| figure(m)).collect();
    let row = |case: &Case<'_>, cases: &[Case<'_>]| {
        let spread = case.spread(&figure);
        Row {
            name: case.name(cases),
            class: case.full_class(),
            mark: Mark::Bar {
                parts: vec![(spread.median, "")],
                spread: (case.repeats().len() > 1).then_some((spread.min, spread.max)),
            },
            figure: tables::figure(spread.median),
        }
    };
    RowChart {
        head,
        axis: Axis::new(
            format!("effective rows/s at {TARGET_LATENCY_MS} ms"),
            Scale::logarithmic_for_bars(values),
        ),
        groups: by_batch
            .iter()
            .map(|(batch, cases)| RowGroup {
                heading: heading(*batch),
                rows: cases.iter().map(|case| row(case, cases)).collect(),
            })
            .collect(),
    }
}

fn two_readings(disk: Disk, by_batch: &[(usize, Vec<Case<'_>>)]) -> RowChart {
    let title = "Two readings of latency: what a caller waits, and the time between completions";
    let key = |marker, name: &str| Key {
        mark: KeyMark::Point(marker),
        class: "fixed".to_owned(),
        name: name.to_owned(),
    };
    let mut head = head(disk, title, "Means, in that order, at the right.", by_batch);
    head.key = vec![
        key(Marker::Circle, "latency: what a caller waits"),
        key(Marker::Diamond, "completion interval"),
    ];
    let (waits, intervals) =
        (|m: &Measurement| m.latency_ms.mean, |m: &Measurement| m.completion_interval_ms);
    let all: Vec<_> = by_batch.iter().flat_map(|(_, cases)| cases).collect();
    let values = all.iter().flat_map(|case| [case.median(waits), case.median(intervals)]);
    let row = |case: &Case<'_>, cases: &[Case<'_>]| {
        let (wait, interval) = (case.median(waits), case.median(intervals));
        Row {
            name: case.name(cases),
            class: case.class().to_owned(),
            mark: Mark::Points(vec![(wait, Marker::Circle), (interval, Marker::Diamond)]),
            figure: format!("{} ms, {} ms", significant(wait), significant(interval)),
        }
    };
    RowChart {
        axis: Axis::new("ms", Scale::logarithmic(values)),
        groups: by_batch
            .iter()
            .map(|(batch, cases)| RowGroup {
                heading: heading(*batch),
                rows: cases.iter().map(|case| row(case, cases)).collect(),
            })
            .collect(),
        head,
    }
}

fn over_time(disk: Disk, batch: usize, cases: &[Case<'_>]) -> LineChart {
    let points = |case: &Case<'_>| -> Vec<(f64, f64)> {
        case.typical().progress.iter().map(|p| (p.seconds, p.rows_per_second)).collect()
    };
    let all: Vec<(f64, f64)> = cases.iter().flat_map(points).collect();
    let by_one = [(batch, cases.to_vec())];
    let title = format!("Rows/s so far, at every 10,000 rows, {}", heading(batch));
    LineChart {
        head: head(disk, &title, "The repeat of median throughput.", &by_one),
        across: Axis::new("seconds since the start", Scale::logarithmic(all.iter().map(|p| p.0))),
        upward: Axis::new("rows/s", Scale::logarithmic(all.iter().map(|p| p.1))),
        series: cases
            .iter()
            .map(|case| Series {
                name: case.name(cases),
                class: case.full_class(),
                stroke: Stroke::Marked(case.marker()),
                points: points(case),
            })
            .collect(),
    }
}

fn how_to_read() -> Vec<String> {
    [
        "Effective throughput weighs speed by patience: rows a second × (1 ms ÷ latency). A condition \
         that doubles its throughput by making everybody wait twice as long gains nothing.",
        "Latency has two readings here, and they are never mixed. What a caller waits is the time from \
         submitting a transaction to its answer. The completion interval is the time between two \
         answers, the reciprocal of throughput: with 1,000 transactions in flight, a caller waits about \
         1,000 of them. The published figures use the completion interval; our headline uses what a \
         caller waits.",
        "Conditions differ in how many transactions are in flight: where a caller waits for each, as many as \
         there are threads or connections; groupcommit-async has a window of tickets. More in flight means more throughput and a \
         longer wait, and the first chart shows what is left of the one after the other.",
        "A line over time that falls means that later rows are slower, as when a checkpoint or a full \
         cache sets in. Axes by powers of ten: a step to the next line is ten times as much.",
    ]
    .map(str::to_owned)
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::tests::example;
    use crate::report::case::cases;

    #[test]
    fn effective_throughput_is_compared_at_equal_numbers_in_flight_alone() {
        let record = |condition, in_flight, effective_throughput_1ms| Measurement {
            in_flight,
            effective_throughput_1ms,
            ..example(condition, 1, 1_000.0)
        };
        let records = [
            record(Condition::Wal, 1, 9_999.0),
            record(Condition::Wal, 1_000, 50.0),
            record(Condition::Default, 1_000, 20.0),
            record(Condition::WalNormal, 1_000, 9_999.0),
            record(Condition::GroupcommitAsync, 1_000, 200.0),
        ];
        let found = at_equal_load(1, &cases(&records)).expect("wal had as many callers");
        assert!(found.contains("was 4.00 times") && found.contains(", wal."), "{found}");
        assert_eq!(at_equal_load(1, &cases([&records[0], &records[4]])), None);
    }
}
