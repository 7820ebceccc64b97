//! The table for the terminal, made from the records alone and readable at 100 columns.

use std::fmt::Write as _;

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

use crate::condition::Condition;
use crate::environment::Environment;
use crate::measurement::{Measurement, Results};
use crate::statistics::Spread;

/// Lines above, below and under the header; the columns are apart by blanks.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// Repeats of one setting.
struct Row<'a> {
    repeats: Vec<&'a Measurement>,
}

impl Row<'_> {
    fn first(&self) -> &Measurement {
        self.repeats[0]
    }

    fn spread(&self, figure: impl Fn(&Measurement) -> f64) -> Spread {
        let values = self.repeats.iter().map(|measurement| figure(measurement));
        Spread::of(values).unwrap_or(Spread { min: 0.0, median: 0.0, max: 0.0 })
    }
}

/// The environment in a few lines, the table with medians over the repeats, and what has to be
/// known to read it.
#[must_use]
pub fn write_table(results: &Results) -> String {
    let rows = rows_by_setting(&results.measurements);
    let reference = rows.iter().find(|row| row.first().condition == Condition::Wal);
    let reference_rows_per_second = reference.map(|row| row.spread(|m| m.rows_per_second).median);

    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "condition",
        "batch",
        "in\nflight",
        "rows/s",
        "min..max",
        "x wal",
        "wait p50\nms",
        "wait p99\nms",
        "rows/s\nat 1 ms",
        "group",
    ]);
    let mut batch = None;
    for row in &rows {
        if batch.is_some_and(|batch| batch != row.first().batch) {
            table.add_row([""]);
        }
        batch = Some(row.first().batch);
        table.add_row(cells(row, reference_rows_per_second));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 0));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n{table}\n{}", describe(&results.environment), notes(results, &rows))
}

fn cells(row: &Row<'_>, reference_rows_per_second: Option<f64>) -> Vec<Cell> {
    let first = row.first();
    let rows_per_second = row.spread(|m| m.rows_per_second);
    let mark = if first.durable { "" } else { " *" };
    let ratio = reference_rows_per_second.filter(|&reference| reference > 0.0).map_or_else(
        || "-".to_owned(),
        |reference| significant(rows_per_second.median / reference),
    );
    [
        format!("{}{mark}", first.condition),
        grouped(first.batch as f64),
        grouped(first.in_flight as f64),
        grouped(rows_per_second.median),
        format!("{}..{}", short(rows_per_second.min), short(rows_per_second.max)),
        ratio,
        significant(row.spread(|m| m.latency_ms.p50).median),
        significant(row.spread(|m| m.latency_ms.p99).median),
        grouped(row.spread(|m| m.effective_throughput_1ms).median),
        significant(row.spread(|m| m.group_transactions_mean).median),
    ]
    .map(Cell::new)
    .into()
}

/// Gathers the repeats of each setting, in the order of their first appearance.
fn rows_by_setting(measurements: &[Measurement]) -> Vec<Row<'_>> {
    let setting = |m: &Measurement| (m.condition, m.batch, m.in_flight, m.threads);
    let mut rows: Vec<Row<'_>> = Vec::new();
    for measurement in measurements {
        match rows.iter_mut().find(|row| setting(row.first()) == setting(measurement)) {
            Some(row) => row.repeats.push(measurement),
            None => rows.push(Row { repeats: vec![measurement] }),
        }
    }
    rows
}

/// The machine, the disk, the versions and the moment, in four lines.
#[must_use]
pub fn describe(environment: &Environment) -> String {
    let disk = &environment.file_system;
    // Without the compiler's commit and date, which the records keep.
    let rustc = environment.versions.rustc.split(" (").next().unwrap_or_default();
    let flush = &environment.flush;
    let dirty = if environment.git_dirty == Some(true) { " with local changes" } else { "" };
    let commit = environment.git_commit.get(..12).unwrap_or(&environment.git_commit);
    format!(
        "{}, {} cores, {:.1} GiB, {}, {}\n\
         {} on {} ({}), flush p50 {} us, p99 {} us (growing file: {} us, {} us)\n\
         groupcommit {} ({commit}{dirty}), SQLite {}, {rustc}, {} build\n\
         {}, load {:.2}, the lab itself takes {:.0} ns a transaction",
        environment.cpu_model,
        environment.cpu_cores,
        environment.memory_bytes as f64 / f64::from(1 << 30),
        environment.os,
        environment.kernel,
        disk.kind,
        disk.device,
        disk.mount_point.display(),
        significant(flush.overwrite_us.p50),
        significant(flush.overwrite_us.p99),
        significant(flush.extend_us.p50),
        significant(flush.extend_us.p99),
        environment.versions.groupcommit,
        environment.versions.sqlite,
        environment.build_profile,
        environment.date,
        environment.load_average[0],
        environment.lab_cost_ns_per_transaction,
    )
}

fn notes(results: &Results, rows: &[Row<'_>]) -> String {
    let mut text = String::from(
        "rows/s: median over the repeats. x wal: against `wal` at the first batch. wait: what a caller\n\
         waits, from submit to the answer. rows/s at 1 ms: effective throughput, which is\n\
         rows/s x (1 ms / mean wait). group: transactions a commit.",
    );
    let threads = results.measurements.iter().map(|m| m.threads).max().unwrap_or_default();
    if threads > 1 {
        let _infallible = write!(text, "\n{threads} threads submit.");
    }
    if results.measurements.iter().any(|m| !m.durable) {
        text.push_str("\n* not durable: a power cut loses transactions that were acknowledged.");
    }
    let most = results.measurements.iter().map(|m| m.rows).max().unwrap_or_default();
    for row in rows {
        let fewest = row.repeats.iter().map(|m| m.rows).min().unwrap_or_default();
        if fewest < most {
            let _infallible = write!(
                text,
                "\n{}, batch {}: ended by the time limit after {} of {} rows.",
                row.first().condition,
                row.first().batch,
                grouped(fewest as f64),
                grouped(most as f64)
            );
        }
    }
    for warning in &results.environment.warnings {
        let _infallible = write!(text, "\nwarning: {warning}");
    }
    text
}

/// A whole number with commas between thousands.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three significant digits, never fewer than the whole part.
pub(crate) fn significant(number: f64) -> String {
    let decimals = match number {
        n if n >= 100.0 => 0,
        n if n >= 10.0 => 1,
        n if n >= 1.0 => 2,
        _ => 3,
    };
    format!("{number:.decimals$}")
}

/// Three significant digits with `k` or `M`.
pub(crate) fn short(number: f64) -> String {
    match number {
        n if n >= 999_500.0 => format!("{}M", significant(n / 1e6)),
        n if n >= 999.5 => format!("{}k", significant(n / 1e3)),
        n => significant(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::tests::example;

    fn results(measurements: Vec<Measurement>) -> Results {
        Results { environment: Environment::example(), measurements }
    }

    #[test]
    fn repeats_become_one_row_with_median_spread_and_ratio() {
        let text = write_table(&results(vec![
            example(Condition::Wal, 1, 1_000.0),
            example(Condition::GroupcommitAsync, 1, 30_000.0),
            example(Condition::Wal, 1, 3_000.0),
            example(Condition::GroupcommitAsync, 1, 90_000.0),
            example(Condition::Wal, 1, 2_000.0),
            example(Condition::GroupcommitAsync, 1, 50_000.0),
        ]));
        let line = |name: &str| {
            text.lines().find(|line| line.trim().starts_with(name)).expect("a row").to_owned()
        };
        assert!(line("wal").contains("2,000 "), "{text}");
        assert!(line("wal").contains("1.00k..3.00k"), "{text}");
        assert!(line("groupcommit-async").contains("50,000"), "{text}");
        assert!(line("groupcommit-async").contains("25.0"), "{text}");
    }

    #[test]
    fn the_ratio_refers_to_wal_at_the_first_batch_and_is_left_out_without_it() {
        let text = write_table(&results(vec![
            example(Condition::Wal, 1, 1_000.0),
            example(Condition::Wal, 100, 8_000.0),
        ]));
        assert!(text.lines().any(|line| line.contains("8,000") && line.contains("8.00")), "{text}");
        let text = write_table(&results(vec![example(Condition::Default, 1, 1_000.0)]));
        assert!(
            text.lines().any(|line| line.contains("default") && line.contains(" - ")),
            "{text}"
        );
    }

    #[test]
    fn what_is_not_durable_or_not_complete_is_said() {
        let mut slow = example(Condition::Default, 1, 10.0);
        slow.rows = 999;
        let text = write_table(&results(vec![slow, example(Condition::WalNormal, 1, 1e6)]));
        assert!(text.contains("wal-normal *") && text.contains("* not durable"), "{text}");
        assert!(
            text.contains("default, batch 1: ended by the time limit after 999 of 1,000 rows"),
            "{text}"
        );
        assert!(text.contains("warning: a warning"), "{text}");
    }

    #[test]
    fn it_fits_100_columns_with_large_figures() {
        let mut large = example(Condition::GroupcommitBlocking, 1_000, 1_234_567.0);
        large.in_flight = 100_000;
        large.latency_ms.p50 = 12_345.6;
        large.latency_ms.p99 = 12_345.6;
        large.effective_throughput_1ms = 1_234_567.0;
        large.group_transactions_mean = 1_024.0;
        let text = write_table(&results(vec![example(Condition::Wal, 1, 1_234.0), large]));
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        }
    }

    #[test]
    fn numbers_are_written_for_reading() {
        assert_eq!(grouped(1_234_567.4), "1,234,567");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(significant(0.058_4), "0.058");
        assert_eq!(significant(59.42), "59.4");
        assert_eq!(short(999.0), "999");
        assert_eq!(short(16_829.2), "16.8k");
        assert_eq!(short(1_234_567.0), "1.23M");
    }
}
