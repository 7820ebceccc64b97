//! Experiment 1, pure write, as part of a report.

use crate::condition::Condition;
use crate::engine::Engine;
use crate::measurement::Measurement;
use crate::report::Spec;
use crate::report::case::{Case, Setup, by, notes};
use crate::report::model::{Axis, Body, Chart, Item, Plot, Row, Scale, Series, Table};
use crate::report::number::{grouped, ratio, significant};
use crate::report::published;
use crate::statistics::{TARGET_LATENCY_MS, effective_throughput_1ms};

pub(super) const SPEC: Spec = Spec {
    experiment: "write",
    heading: "Pure write",
    question: "How many rows become durable, and how long does a caller wait for its transaction?",
    how_to_read: &[
        "Effective throughput, the published metric, weighs speed by waiting: rows/s × (1 ms ÷ mean wait). \
         It comes first because rows/s alone rewards making callers wait: twice the rows/s at twice the wait \
         is no gain.",
        "The wait is the time from submitting a transaction to its answer. The completion interval is the time \
         between two answers, the reciprocal of throughput. The published figures call the interval \
         latency; with 1,000 transactions in flight a caller waits for about 1,000 of them.",
        "Batch: rows that a caller puts into one transaction. In flight: transactions not yet answered. Group: \
         transactions that share one commit, on average.",
    ],
    body,
};

fn effective(m: &Measurement) -> f64 {
    m.effective_throughput_1ms
}

/// What ratios refer to: the engine's own durable commit, with the smallest batch and the fewest callers.
pub(super) fn baseline<'a, 'b>(cases: &'a [Case<'b>]) -> Option<&'a Case<'b>> {
    let is_reference = |case: &&Case<'_>| case.condition().is_reference();
    cases
        .iter()
        .filter(is_reference)
        .min_by_key(|case| (case.first().batch, case.first().in_flight))
}

/// The column of ratios, and what it means: the same in every table of rows/s.
pub(super) fn against(baseline: Option<&Case<'_>>, rate: &str) -> (String, String) {
    let Some(case) = baseline else { return ("×".to_owned(), String::new()) };
    let name = case.condition().name();
    let meaning =
        format!("× {name}: {rate} divided by those of the row marked 1.00. More is better.");
    (format!("× {name}"), meaning)
}

fn body(setup: Setup, cases: &[Case<'_>]) -> Body {
    let by_batch = by(cases, |case| case.first().batch);
    let mut shown = vec![Item::Table(table(cases, &by_batch))];
    if let Some((batch, smallest)) = by_batch.first() {
        shown.insert(0, Item::Chart(effective_chart(*batch, smallest)));
    }
    let mut more: Vec<Item> = by_batch
        .iter()
        .skip(1)
        .map(|(batch, cases)| effective_chart(*batch, cases))
        .map(Item::Chart)
        .collect();
    if let Some((_, smallest)) = by_batch.first() {
        more.extend([by_callers(smallest), percentiles("write", smallest)].map(Item::Chart));
    }
    more.push(Item::Table(two_readings(cases, &by_batch)));
    if setup.engine == Some(Engine::Sqlite) && setup.flush_delay_ms.is_none() {
        more.push(Item::Table(published::write(cases)));
    }
    Body { findings: findings(setup, &by_batch), shown, more }
}

fn heading(batch: usize) -> String {
    if batch == 1 {
        "1 row per transaction".to_owned()
    } else {
        format!("{} rows per transaction", grouped(batch as f64))
    }
}

fn findings(setup: Setup, by_batch: &[(usize, Vec<Case<'_>>)]) -> Vec<String> {
    let Some((batch, cases)) = by_batch.first() else { return Vec::new() };
    let (Some(plain), Some(ours)) = (baseline(cases), most_in_flight(cases)) else {
        return Vec::new();
    };
    let p50 = |case: &Case<'_>| case.median(|m| m.latency_ms.p50);
    let mut findings = vec![format!(
        "With {} transactions in flight and {}, groupcommit reached {} × the effective throughput of {} with {}: {} against \
         {} rows/s, and a median wait of {} against {} ms.",
        grouped(ours.first().in_flight as f64),
        heading(*batch),
        ratio(ours.median(effective), Some(plain.median(effective))),
        setup.plain(plain.condition()),
        callers(plain),
        grouped(ours.rate()),
        grouped(plain.rate()),
        significant(p50(ours)),
        significant(p50(plain)),
    )];
    findings.extend(at_equal_load(*batch, cases));
    findings.extend(by_hand(by_batch, ours));
    let alone = cases.iter().find(|case| {
        case.condition() == Condition::GroupcommitBlocking && case.first().in_flight == 1
    });
    findings.extend(alone.filter(|_| plain.first().in_flight == 1).map(|alone| {
        format!(
            "A caller alone gains nothing: a median wait of {} ms with groupcommit, {} ms with {}.",
            significant(p50(alone)),
            significant(p50(plain)),
            setup.plain(plain.condition()),
        )
    }));
    findings
}

fn callers(case: &Case<'_>) -> String {
    match (case.first().in_flight, case.condition()) {
        (1, _) => "one caller".to_owned(),
        (count, Condition::Connections | Condition::AsyncCommit) => {
            format!("{} connections", grouped(count as f64))
        }
        (count, _) => format!("{} callers", grouped(count as f64)),
    }
}

fn most_in_flight<'a, 'b>(cases: &'a [Case<'b>]) -> Option<&'a Case<'b>> {
    let ours = cases.iter().filter(|case| case.condition() == Condition::GroupcommitAsync);
    ours.max_by_key(|case| case.first().in_flight)
}

/// The effective throughput of transactions in flight against the best other durable condition with as
/// many callers.
fn at_equal_load(batch: usize, cases: &[Case<'_>]) -> Option<String> {
    let ours = most_in_flight(cases)?;
    let in_flight = ours.first().in_flight;
    let best = cases
        .iter()
        .filter(|case| case.condition() != ours.condition() && case.first().durable)
        .filter(|case| case.first().in_flight == in_flight && in_flight > 1)
        .max_by(|one, other| one.median(effective).total_cmp(&other.median(effective)))?;
    Some(format!(
        "With {} callers in every condition and {}, its effective throughput was {} × that of the next best \
         durable condition, `{}`.",
        grouped(in_flight as f64),
        heading(batch),
        ratio(ours.median(effective), Some(best.median(effective))),
        best.condition(),
    ))
}

/// The largest batches of the engine used directly, against transactions of the smallest batch in flight.
fn by_hand(by_batch: &[(usize, Vec<Case<'_>>)], ours: &Case<'_>) -> Option<String> {
    let (batch, cases) = by_batch.iter().rev().find(|(batch, _)| *batch > ours.first().batch)?;
    let direct = |case: &&Case<'_>| !case.condition().is_grouped() && case.first().durable;
    let hand =
        cases.iter().filter(direct).max_by(|one, other| one.rate().total_cmp(&other.rate()))?;
    Some(format!(
        "Batching by hand with {} (`{}`, {}) wrote {} rows/s, {} × what groupcommit wrote with {}.",
        heading(*batch),
        hand.condition(),
        callers(hand),
        grouped(hand.rate()),
        ratio(hand.rate(), Some(ours.rate())),
        heading(ours.first().batch),
    ))
}

fn table(cases: &[Case<'_>], by_batch: &[(usize, Vec<Case<'_>>)]) -> Table {
    let baseline = baseline(cases);
    let reference = baseline.map(Case::rate);
    let (against, meaning) = against(baseline, "rows/s");
    let star = |case: &Case<'_>| if case.first().durable { "" } else { " *" };
    let mut table = Table::of(
        by_batch.iter().flat_map(|(_, cases)| cases),
        &[
            ("condition", "", &|case| format!("{}{}", case.condition(), star(case))),
            ("batch", "", &|case| grouped(case.first().batch as f64)),
            ("in flight", "", &|case| grouped(case.first().in_flight as f64)),
            ("effective rows/s", "", &|case| grouped(case.median(effective))),
            ("rows/s", "", &|case| grouped(case.rate())),
            ("range", "", &|case| case.range(|m| m.rows_per_second)),
            (&against, "", &|case| ratio(case.rate(), reference)),
            ("wait p50", "ms", &|case| significant(case.median(|m| m.latency_ms.p50))),
            ("wait p99", "ms", &|case| significant(case.median(|m| m.latency_ms.p99))),
            ("group", "", &|case| significant(case.median(|m| m.group_transactions_mean))),
        ],
    )
    .with_notes(notes(cases))
    .with_note(meaning);
    table.notes.extend(cut_short(cases));
    table
}

/// Cases that the time limit ended before all rows were written.
fn cut_short(cases: &[Case<'_>]) -> Option<String> {
    let rows = |case: &Case<'_>| case.repeats().iter().map(|m| m.rows).min().unwrap_or_default();
    let most = cases.iter().flat_map(Case::repeats).map(|m| m.rows).max()?;
    let ended: Vec<u64> = cases.iter().map(rows).filter(|&rows| rows < most).collect();
    let fewest = ended.iter().min()?;
    Some(format!(
        "The time limit ended {} of {} settings before all {} rows were written, the first after {}; rates \
         count what was written.",
        ended.len(),
        cases.len(),
        grouped(most as f64),
        grouped(*fewest as f64),
    ))
}

fn effective_chart(batch: usize, cases: &[Case<'_>]) -> Chart {
    Chart {
        name: format!("write-effective-throughput-{batch}"),
        title: format!("Effective throughput, {}", heading(batch)),
        note: "Point: median; line: range of the repeats; hollow: not durable. Further right is better."
            .to_owned(),
        plot: Plot::Points {
            axis: Axis { label: "rows/s × (1 ms ÷ mean wait)", scale: Scale::Log },
            rows: cases.iter().map(|case| case.row(cases, effective)).collect::<Vec<Row>>(),
        },
    }
}

/// Rows/s against transactions in flight.
fn by_callers(cases: &[Case<'_>]) -> Chart {
    let series = by(cases, |case| case.condition().name())
        .into_iter()
        .map(|(name, own)| Series {
            name: name.to_owned(),
            role: own[0].role(),
            points: by(&own, |case| case.first().in_flight)
                .iter()
                .map(|(in_flight, own)| (*in_flight as f64, own[0].rate()))
                .collect(),
        })
        .filter(|series| series.points.len() > 1)
        .collect();
    Chart {
        name: "write-by-callers".to_owned(),
        title: "Rows/s by transactions in flight".to_owned(),
        note: "Medians.".to_owned(),
        plot: Plot::Lines {
            x: Axis { label: "transactions in flight", scale: Scale::Doubling },
            y: Axis { label: "rows/s", scale: Scale::Log },
            series,
        },
    }
}

/// One curve per case, over the share of transactions that waited no longer.
pub(super) fn percentiles(experiment: &str, cases: &[Case<'_>]) -> Chart {
    let curve = |case: &Case<'_>| Series {
        name: case.name(cases),
        role: case.role(),
        points: case.percentiles().into_iter().filter(|&(quantile, _)| quantile < 1.0).collect(),
    };
    Chart {
        name: format!("{experiment}-latency-percentiles"),
        title: "What a caller waits, by percentile of transactions".to_owned(),
        note: "Medians over the repeats.".to_owned(),
        plot: Plot::Lines {
            x: Axis { label: "percentile", scale: Scale::Percentile },
            y: Axis { label: "ms", scale: Scale::Log },
            series: cases.iter().map(curve).collect(),
        },
    }
}

/// Effective throughput with the wait, and as published, with the completion interval.
fn two_readings(cases: &[Case<'_>], by_batch: &[(usize, Vec<Case<'_>>)]) -> Table {
    let by_interval =
        |m: &Measurement| effective_throughput_1ms(m.rows_per_second, m.completion_interval_ms);
    Table::of(
        by_batch.iter().flat_map(|(_, cases)| cases),
        &[
            ("condition", "", &|case| case.name(cases)),
            ("batch", "", &|case| grouped(case.first().batch as f64)),
            ("mean wait", "ms", &|case| significant(case.median(|m| m.latency_ms.mean))),
            ("completion interval", "ms", &|case| {
                significant(case.median(|m| m.completion_interval_ms))
            }),
            ("effective, by the wait", "rows/s", &|case| grouped(case.median(effective))),
            ("effective, by the interval", "rows/s", &|case| grouped(case.median(by_interval))),
        ],
    )
    .with_caption("Both readings of latency")
    .with_note(format!(
        "Effective throughput at {TARGET_LATENCY_MS} ms with the wait of a caller, and with the completion \
         interval, as it was published. Nobody waits for the interval."
    ))
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
        assert!(found.contains("was 4.00 ×") && found.contains("`wal`"), "{found}");
        assert_eq!(at_equal_load(1, &cases([&records[0], &records[4]])), None);
    }

    #[test]
    fn the_ratio_refers_to_one_row_of_the_table() {
        let records = [
            example(Condition::Default, 1, 500.0),
            example(Condition::Wal, 1, 1_000.0),
            example(Condition::Wal, 100, 8_000.0),
        ];
        let (cases, column) = (cases(&records), 6);
        let table = table(&cases, &by(&cases, |case| case.first().batch));
        assert_eq!(table.columns[column].name, "× wal");
        let ratios: Vec<&str> = table.rows.iter().map(|row| &*row[column]).collect();
        assert_eq!(ratios, ["0.500", "1.00", "8.00"]);
    }

    #[test]
    fn batching_by_hand_is_told_also_where_it_wins() {
        let ours = Measurement { in_flight: 1_000, ..example(Condition::GroupcommitAsync, 1, 1e6) };
        let records = [example(Condition::Wal, 1, 1e3), ours, example(Condition::Wal, 1_000, 2e6)];
        let cases = cases(&records);
        let found = findings(Setup::of(&records[0]), &by(&cases, |case| case.first().batch));
        let by_hand = found.iter().find(|text| text.starts_with("Batching by hand")).expect("told");
        assert!(by_hand.contains("2,000,000 rows/s, 2.00 ×"), "{by_hand}");
    }
}
