//! The tables for the terminal, made from the records alone and readable at 100 columns.

mod wal;
pub(crate) mod web;

use std::fmt::Write as _;

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

use crate::engine::Engine;
use crate::environment::Environment;
use crate::measurement::{Measurement, Results};
use crate::quality::{is_same_setting, paired_ratio, warnings};
use crate::statistics::Spread;

/// Lines above, below and under the header; the columns are apart by blanks.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// So many settings that the time limit ended are named one by one.
const CUT_SHORT_NAMED: usize = 4;

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

    fn median(&self, figure: impl Fn(&Measurement) -> f64) -> f64 {
        self.spread(figure).median
    }

    fn name(&self) -> String {
        let mark = if self.first().durable { "" } else { " *" };
        format!("{}{mark}", self.first().condition)
    }

    fn rows_per_second(&self) -> Spread {
        self.spread(|m| m.rows_per_second)
    }

    /// Wall-clock time of an operation in microseconds.
    fn operation_us(&self) -> f64 {
        self.median(|m| 1e6 / m.operations_per_second.unwrap_or(f64::INFINITY))
    }

    fn range(&self) -> String {
        let Spread { min, max, .. } = self.rows_per_second();
        format!("{}..{}", short(min), short(max))
    }
}

/// What is comparable: one experiment on one disk, real or simulated.
#[derive(PartialEq)]
struct Section<'a> {
    experiment: &'a str,
    engine: &'a str,
    arrivals: Option<&'a str>,
    flush_delay_ms: Option<f64>,
}

impl<'a> Section<'a> {
    fn of(measurement: &'a Measurement) -> Self {
        Self {
            experiment: &measurement.experiment,
            engine: &measurement.engine,
            arrivals: measurement.arrivals.as_deref(),
            flush_delay_ms: measurement.flush_delay_ms,
        }
    }

    fn title(&self) -> String {
        let mut title = match (self.experiment, self.arrivals) {
            ("write", _) => "write: rows of a key and a text, by rows a transaction".to_owned(),
            ("mixed", _) => "mixed: a read and a write of a random key in turn".to_owned(),
            ("threads", _) => "threads: single documents, each a transaction of its own".to_owned(),
            ("load", Some("open")) => "load, open loop: Poisson arrivals".to_owned(),
            ("load", _) => "load, closed loop: so many transactions in flight".to_owned(),
            ("web", _) => "web: requests that ask for important and less important data".to_owned(),
            ("wal", _) => "wal: the price of the write-ahead log".to_owned(),
            (other, _) => other.to_owned(),
        };
        if self.engine != Engine::Sqlite.name() {
            let _infallible = write!(title, " ({})", self.engine);
        }
        if let Some(delay) = self.flush_delay_ms {
            let _infallible = write!(title, " (SIMULATED disk: {delay} ms added to every flush)");
        }
        title
    }

    fn table(&self, rows: &[Row<'_>]) -> Table {
        match (self.experiment, self.arrivals) {
            ("mixed", _) => mixed_table(rows),
            ("threads", _) => threads_table(rows),
            ("load", Some("open")) => open_table(rows),
            ("wal", _) => wal::table(rows),
            ("web", _) => web::table(rows),
            ("load", _) => closed_table(rows),
            _ => write_table(rows),
        }
    }

    fn how_to_read(&self) -> &'static str {
        match (self.experiment, self.arrivals) {
            ("mixed", _) => {
                "wall, user, system: seconds, of all operations together. x wal, x sync: wall time an\n\
                 operation against that of `wal` or `sync`, lower is better. write: what a caller waits for\n\
                 a write."
            }
            ("threads", _) => {
                "rows/s: median over the repeats. x shared, x sync, x connections: against one commit each on a\n\
                 shared connection, by the engine itself, or on a server over a connection a thread, with as\n\
                 many threads. wait: what a thread waits for its transaction. group: transactions a commit."
            }
            ("load", Some("open")) => {
                "wait: from the intended arrival, in milliseconds. Beside the adaptive setting, the fixed one\n\
                 with the lowest p99 at that load. left: arrivals not even submitted in time; with any, the\n\
                 setting was overloaded."
            }
            ("wal", _) => wal::HOW_TO_READ,
            ("web", _) => web::HOW_TO_READ,
            ("load", _) => {
                "Beside the adaptive setting, the fixed one with the highest throughput at that load, and\n\
                 the adaptive setting's figures against its. group: transactions a commit."
            }
            _ => {
                "rows/s: median over the repeats. x wal, x sync, x connections: against that condition at the\n\
                 first batch.\n\
                 wait: what a caller waits, from submit to the answer. rows/s at 1 ms: effective\n\
                 throughput, which is rows/s x (1 ms / mean wait). group: transactions a commit."
            }
        }
    }
}

/// The environment in a few lines, a table for each experiment and disk with medians over the
/// repeats, and what has to be known to read it.
#[must_use]
pub fn tables(results: &Results) -> String {
    let mut text = describe(&results.environment);
    let mut sections: Vec<(Section<'_>, Vec<&Measurement>)> = Vec::new();
    for measurement in &results.measurements {
        let section = Section::of(measurement);
        match sections.iter_mut().find(|(other, _)| *other == section) {
            Some((_, measurements)) => measurements.push(measurement),
            None => sections.push((section, vec![measurement])),
        }
    }
    for (section, measurements) in &sections {
        let rows = rows_by_setting(measurements);
        let mut table = section.table(&rows);
        align_right(&mut table);
        let _infallible =
            write!(text, "\n\n{}\n{table}\n{}", section.title(), section.how_to_read());
        text.push_str(&notes(measurements, &rows));
    }
    for warning in results.environment.warnings.iter().chain(&warnings(results)) {
        let _infallible = write!(text, "\nwarning: {warning}");
    }
    text
}

/// Closes the columns up, and puts all but the first to the right.
pub(crate) fn align_right(table: &mut Table) {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 0));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

pub(crate) fn new_table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

fn add_row<const N: usize>(table: &mut Table, cells: [String; N]) {
    table.add_row(cells.map(Cell::new));
}

/// The heading of the ratios.
fn x_reference(rows: &[Row<'_>]) -> &'static str {
    let Some(first) = rows.first().map(Row::first) else { return "x" };
    match first.engine.parse() {
        Ok(Engine::Postgres | Engine::Mysql) => "x connec-\ntions",
        Ok(Engine::Lmdb | Engine::Rocksdb) => "x sync",
        _ if first.experiment == "threads" => "x shared",
        _ => "x wal",
    }
}

fn write_table(rows: &[Row<'_>]) -> Table {
    let reference = median_of(rows, |m| m.condition.is_reference());
    let mut table = new_table([
        "condition",
        "batch",
        "in\nflight",
        "rows/s",
        "min..max",
        x_reference(rows),
        "wait p50\nms",
        "wait p99\nms",
        "rows/s\nat 1 ms",
        "group",
    ]);
    let mut batch = None;
    for row in rows {
        let first = row.first();
        if batch.is_some_and(|batch| batch != first.batch) {
            table.add_row([""]);
        }
        batch = Some(first.batch);
        let rows_per_second = row.rows_per_second().median;
        add_row(
            &mut table,
            [
                row.name(),
                grouped(first.batch as f64),
                grouped(first.in_flight as f64),
                grouped(rows_per_second),
                row.range(),
                ratio(rows_per_second, reference),
                significant(row.median(|m| m.latency_ms.p50)),
                significant(row.median(|m| m.latency_ms.p99)),
                grouped(row.median(|m| m.effective_throughput_1ms)),
                significant(row.median(|m| m.group_transactions_mean)),
            ],
        );
    }
    table
}

fn mixed_table(rows: &[Row<'_>]) -> Table {
    let reference =
        rows.iter().find(|row| row.first().condition.is_reference()).map(Row::operation_us);
    let mut table = new_table([
        "condition",
        "in\nflight",
        "operations",
        "wall\ns",
        "user\ns",
        "system\ns",
        "us an\noperation",
        x_reference(rows),
        "write p50\nms",
        "write p99\nms",
        "group",
    ]);
    for row in rows {
        add_row(
            &mut table,
            [
                row.name(),
                grouped(row.first().in_flight as f64),
                grouped(row.median(|m| m.operations.unwrap_or_default() as f64)),
                significant(row.median(|m| m.seconds)),
                significant(row.median(|m| m.cpu_user_seconds)),
                significant(row.median(|m| m.cpu_system_seconds)),
                significant(row.operation_us()),
                ratio(row.operation_us(), reference),
                significant(row.median(|m| m.latency_ms.p50)),
                significant(row.median(|m| m.latency_ms.p99)),
                significant(row.median(|m| m.group_transactions_mean)),
            ],
        );
    }
    table
}

fn threads_table(rows: &[Row<'_>]) -> Table {
    let mut table = new_table([
        "condition",
        "threads",
        "rows/s",
        "min..max",
        x_reference(rows),
        "wait p50\nms",
        "wait p99\nms",
        "longest\nms",
        "group",
    ]);
    let mut threads = None;
    for row in rows {
        let first = row.first();
        if threads.is_some_and(|threads| threads != first.threads) {
            table.add_row([""]);
        }
        threads = Some(first.threads);
        let reference =
            median_of(rows, |m| m.is_reference_of_threads() && m.threads == first.threads);
        add_row(
            &mut table,
            [
                row.name(),
                grouped(first.threads as f64),
                grouped(row.rows_per_second().median),
                row.range(),
                ratio(row.rows_per_second().median, reference),
                significant(row.median(|m| m.latency_ms.p50)),
                significant(row.median(|m| m.latency_ms.p99)),
                significant(row.median(|m| m.latency_ms.max)),
                significant(row.median(|m| m.group_transactions_mean)),
            ],
        );
    }
    table
}

/// The adaptive rows, each with the fixed row of the same load that `better` prefers.
fn adaptive_and_best<'a, 'b>(
    rows: &'a [Row<'b>],
    better: impl Fn(&Row<'b>) -> f64,
) -> Vec<(&'a Row<'b>, Option<&'a Row<'b>>)> {
    let load = |row: &Row<'_>| (row.first().in_flight, row.first().offered_share);
    let is_adaptive = |row: &Row<'_>| row.first().setting.as_deref() == Some("adaptive");
    let best_beside = |adaptive: &Row<'_>| {
        rows.iter()
            .filter(|row| !is_adaptive(row) && load(row) == load(adaptive))
            .max_by(|one, other| better(one).total_cmp(&better(other)))
    };
    rows.iter().filter(|row| is_adaptive(row)).map(|row| (row, best_beside(row))).collect()
}

/// The figure as a multiple of the best fixed setting's, round by round.
fn paired(row: &Row<'_>, best: Option<&Row<'_>>, figure: fn(&Measurement) -> f64) -> String {
    best.and_then(|best| paired_ratio(&row.repeats, &best.repeats, figure))
        .map_or_else(none, significant)
}

fn closed_table(rows: &[Row<'_>]) -> Table {
    let mut table = new_table([
        "in flight",
        "adaptive\nrows/s",
        "min..max",
        "wait p50\nms",
        "wait p99\nms",
        "group",
        "best fixed",
        "its\nrows/s",
        "rows/s\nx best",
        "p99\nx best",
    ]);
    for (row, best) in adaptive_and_best(rows, |row| row.rows_per_second().median) {
        let p99 = |row: &Row<'_>| row.median(|m| m.latency_ms.p99);
        let best_rows = best.map(|best| best.rows_per_second().median);
        add_row(
            &mut table,
            [
                grouped(row.first().in_flight as f64),
                grouped(row.rows_per_second().median),
                row.range(),
                significant(row.median(|m| m.latency_ms.p50)),
                significant(p99(row)),
                significant(row.median(|m| m.group_transactions_mean)),
                setting_name(best),
                best_rows.map_or_else(none, grouped),
                paired(row, best, |m| m.rows_per_second),
                paired(row, best, |m| m.latency_ms.p99),
            ],
        );
    }
    table
}

fn open_table(rows: &[Row<'_>]) -> Table {
    let mut table = new_table([
        "load",
        "arrivals\na second",
        "adaptive\np50 ms",
        "adaptive\np99 ms",
        "group",
        "left",
        "best fixed",
        "its p50\nms",
        "its p99\nms",
        "p99\nx best",
    ]);
    for (row, best) in adaptive_and_best(rows, |row| -row.median(|m| m.latency_ms.p99)) {
        let (p50, p99) = (
            |row: &Row<'_>| row.median(|m| m.latency_ms.p50),
            |row: &Row<'_>| row.median(|m| m.latency_ms.p99),
        );
        add_row(
            &mut table,
            [
                format!("{:.0}%", row.first().offered_share.unwrap_or_default() * 100.0),
                grouped(row.median(|m| m.offered_per_second.unwrap_or_default())),
                significant(p50(row)),
                significant(p99(row)),
                significant(row.median(|m| m.group_transactions_mean)),
                grouped(row.median(|m| m.unserved.unwrap_or_default() as f64)),
                setting_name(best),
                best.map(p50).map_or_else(none, significant),
                best.map(p99).map_or_else(none, significant),
                paired(row, best, |m| m.latency_ms.p99),
            ],
        );
    }
    table
}

fn setting_name(row: Option<&Row<'_>>) -> String {
    row.and_then(|row| row.first().setting.clone()).unwrap_or_else(none)
}

pub(crate) fn none() -> String {
    "-".to_owned()
}

/// The median rows/s of the first row of a kind.
fn median_of(rows: &[Row<'_>], is_it: impl Fn(&Measurement) -> bool) -> Option<f64> {
    rows.iter().find(|row| is_it(row.first())).map(|row| row.rows_per_second().median)
}

pub(crate) fn ratio(figure: f64, reference: Option<f64>) -> String {
    reference
        .filter(|&reference| reference > 0.0)
        .map_or_else(none, |reference| significant(figure / reference))
}

/// Gathers the repeats of each setting, in the order of their first appearance.
fn rows_by_setting<'a>(measurements: &[&'a Measurement]) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for &measurement in measurements {
        match rows.iter_mut().find(|row| is_same_setting(row.first(), measurement)) {
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
         groupcommit {} ({commit}{dirty}), {}, {rustc}, {} build\n\
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
        environment.versions.database(),
        environment.build_profile,
        environment.date,
        environment.load_average[0],
        environment.lab_cost_ns_per_transaction,
    )
}

fn notes(measurements: &[&Measurement], rows: &[Row<'_>]) -> String {
    let mut text = String::new();
    let is_write = measurements.iter().any(|m| m.experiment == "write");
    let threads = measurements.iter().map(|m| m.threads).max().unwrap_or_default();
    if is_write && threads > 1 {
        let _infallible = write!(text, "\n{threads} threads submit.");
    }
    if measurements.iter().any(|m| !m.durable) {
        text.push_str("\n* not durable: a power cut loses transactions that were acknowledged.");
    }
    let most = measurements.iter().map(|m| m.rows).max().unwrap_or_default();
    let cut_short: Vec<&Row<'_>> =
        rows.iter().filter(|row| is_write && row.repeats.iter().any(|m| m.rows < most)).collect();
    if cut_short.len() > CUT_SHORT_NAMED {
        let _infallible = write!(
            text,
            "\n{} of {} settings were ended by the time limit; the records say with how many rows.",
            cut_short.len(),
            rows.len()
        );
        return text;
    }
    for row in cut_short {
        let fewest = row.repeats.iter().map(|m| m.rows).min().unwrap_or_default();
        let _infallible = write!(
            text,
            "\n{}, batch {}: ended by the time limit after {} rows.",
            row.first().condition,
            row.first().batch,
            grouped(fewest as f64)
        );
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
    use crate::condition::Condition;
    use crate::measurement::tests::example;

    fn results(measurements: Vec<Measurement>) -> Results {
        Results { environment: Environment::example(), measurements }
    }

    #[test]
    fn repeats_become_one_row_with_median_spread_and_ratio() {
        let text = tables(&results(vec![
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
        let text = tables(&results(vec![
            example(Condition::Wal, 1, 1_000.0),
            example(Condition::Wal, 100, 8_000.0),
        ]));
        assert!(text.lines().any(|line| line.contains("8,000") && line.contains("8.00")), "{text}");
        let text = tables(&results(vec![example(Condition::Default, 1, 1_000.0)]));
        assert!(
            text.lines().any(|line| line.contains("default") && line.contains(" - ")),
            "{text}"
        );
    }

    #[test]
    fn what_is_not_durable_or_not_complete_is_said() {
        let mut slow = example(Condition::Default, 1, 10.0);
        slow.rows = 999;
        let text = tables(&results(vec![slow, example(Condition::WalNormal, 1, 1e6)]));
        assert!(text.contains("wal-normal *") && text.contains("* not durable"), "{text}");
        assert!(
            text.contains("default, batch 1: ended by the time limit after 999 rows"),
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
        let text = tables(&results(vec![example(Condition::Wal, 1, 1_234.0), large]));
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        }
    }

    #[test]
    fn each_experiment_and_disk_has_a_table_of_its_own() {
        let mut slower = example(Condition::Wal, 1, 900.0);
        (slower.simulated, slower.flush_delay_ms) = (true, Some(1.0));
        let mut merged = example(Condition::Merged, 1, 5_000.0);
        merged.experiment = "threads".to_owned();
        let shared = Measurement { condition: Condition::Shared, ..merged.clone() };
        let shared = Measurement { rows_per_second: 1_000.0, ..shared };
        let mut mixed = example(Condition::Wal, 1, 1_000.0);
        mixed.experiment = "mixed".to_owned();
        (mixed.operations, mixed.operations_per_second) = (Some(2_000), Some(20_000.0));
        let text = tables(&results(vec![
            example(Condition::Wal, 1, 1_000.0),
            slower,
            shared,
            merged,
            mixed,
        ]));
        for title in ["write: rows", "(SIMULATED disk: 1 ms added", "threads: single", "mixed: a"] {
            assert!(text.contains(title), "{title}: {text}");
        }
        let merged = text.lines().find(|line| line.starts_with("merged")).expect("a row");
        assert!(merged.contains("5.00"), "{merged}");
        assert!(text.contains("50.0"), "50 us an operation: {text}");
    }

    #[test]
    fn a_load_shows_the_adaptive_setting_beside_the_best_fixed_one() {
        let load = |setting: &str, in_flight: usize, rows_per_second: f64, p99: f64| {
            let mut record = example(Condition::GroupcommitAsync, 1, rows_per_second);
            record.experiment = "load".to_owned();
            record.setting = Some(setting.to_owned());
            record.arrivals = Some("closed".to_owned());
            record.in_flight = in_flight;
            record.latency_ms.p99 = p99;
            record
        };
        let text = tables(&results(vec![
            load("adaptive", 8, 9_000.0, 1.1),
            load("group 1", 8, 10_000.0, 1.0),
            load("group 64", 8, 5_000.0, 3.0),
            load("adaptive", 16, 20_000.0, 1.0),
        ]));
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).expect("a row");
        let eight = line("8 ");
        assert!(eight.contains("group 1 ") && eight.contains("0.900"), "{eight}");
        assert!(eight.ends_with("1.10"), "{eight}");
        assert!(line("16").trim_end().ends_with('-'), "{text}");
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
