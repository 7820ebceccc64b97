//! The records in `docs/measured`, and the tables that the documentation makes of them.
//!
//! The records hold medians of what the lab wrote, without its series; every figure of a table is
//! computed from them here.

use std::{fmt::Write as _, fs};

use anyhow::{Context, Result, bail};
use groupcommit_lab::{
    condition::Condition, environment::Environment, measurement::Results, statistics::Spread,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::root::{read, root};

/// Records of `groupcommit-bench write` with one thread that submits.
pub(crate) const WRITE: &str = "docs/measured/write.json";
/// The same with many threads.
pub(crate) const THREADS: &str = "docs/measured/threads.json";
/// Records of the measurements that are no benchmark of throughput.
pub(crate) const PROBES: &str = "docs/measured/probes.json";

/// Where and with what a run was measured: what a reader needs to judge a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Place {
    date: String,
    cpu_model: String,
    cpu_cores: usize,
    memory_bytes: u64,
    kernel: String,
    os: String,
    load_average_1_minute: f64,
    file_system: String,
    flush_us_p50: f64,
    flush_extending_us_p50: f64,
    groupcommit: String,
    sqlite: String,
    rusqlite: String,
    rustc: String,
    /// Of a server: which one, as it says itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    git_commit: String,
    git_dirty: Option<bool>,
    build_profile: String,
    warnings: Vec<String>,
}

impl From<Environment> for Place {
    fn from(environment: Environment) -> Self {
        Self {
            date: environment.date,
            cpu_model: environment.cpu_model,
            cpu_cores: environment.cpu_cores,
            memory_bytes: environment.memory_bytes,
            kernel: environment.kernel,
            os: environment.os,
            load_average_1_minute: environment.load_average[0],
            file_system: environment.file_system.kind,
            flush_us_p50: environment.flush.overwrite_us.p50,
            flush_extending_us_p50: environment.flush.extend_us.p50,
            groupcommit: environment.versions.groupcommit,
            sqlite: environment.versions.sqlite,
            rusqlite: environment.versions.rusqlite,
            rustc: environment.versions.rustc,
            server: environment.versions.server,
            git_commit: environment.git_commit,
            git_dirty: environment.git_dirty,
            build_profile: environment.build_profile,
            warnings: environment.warnings,
        }
    }
}

impl Place {
    /// Machine, commit and date, where the engine is named elsewhere.
    pub(crate) fn sentence_without_engine(&self) -> String {
        format!(
            "{}, {} cores, {} on {}, a flush takes {:.0} µs ({:.0} µs where the file grows), {} build \
             of {}.\n",
            self.cpu_model,
            self.cpu_cores,
            self.kernel,
            self.file_system,
            self.flush_us_p50,
            self.flush_extending_us_p50,
            self.build_profile,
            self.commit_and_date(),
        )
    }

    /// Which server it was, as it says itself.
    pub(crate) fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// What makes the figures less than they seem.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn commit_and_date(&self) -> String {
        let commit: String = self.git_commit.chars().take(12).collect();
        let dirty = if self.git_dirty == Some(true) { " with local changes" } else { "" };
        format!("commit {commit}{dirty}, {}", self.date.split('T').next().unwrap_or_default())
    }

    /// Machine, versions, commit and date, for the reader of a record.
    pub(crate) fn sentence(&self) -> String {
        format!(
            "{}, {} cores, {} on {}, SQLite {}, {} build of {}.\n",
            self.cpu_model,
            self.cpu_cores,
            self.kernel,
            self.file_system,
            self.sqlite,
            self.build_profile,
            self.commit_and_date(),
        )
    }
}

/// The medians of a run of the lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Medians {
    pub(crate) environment: Place,
    pub(crate) settings: Vec<Setting>,
}

/// The median over the repeats of one setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Setting {
    condition: Condition,
    durable: bool,
    batch: usize,
    in_flight: usize,
    threads: usize,
    repeats: usize,
    rows_min: u64,
    pub(crate) rows_per_second: Spread3,
    latency_ms_p50: Spread3,
    latency_ms_p99: Spread3,
    group_transactions_mean: f64,
}

/// The median of several repeats, with the smallest and the largest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread3 {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread3 {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Result<Self> {
        let Spread { median, min, max } = Spread::of(values).context("nothing was measured")?;
        Ok(Self { median, min, max })
    }
}

impl Medians {
    /// Medians over the repeats of every setting, in the order measured.
    pub(crate) fn of(results: Results) -> Result<Self> {
        let key = |m: &groupcommit_lab::measurement::Measurement| {
            (m.condition, m.batch, m.in_flight, m.threads)
        };
        let mut settings: Vec<Setting> = Vec::new();
        let mut seen = Vec::new();
        for first in &results.measurements {
            if seen.contains(&key(first)) {
                continue;
            }
            seen.push(key(first));
            let repeats: Vec<_> =
                results.measurements.iter().filter(|m| key(m) == key(first)).collect();
            settings.push(Setting {
                condition: first.condition,
                durable: first.durable,
                batch: first.batch,
                in_flight: first.in_flight,
                threads: first.threads,
                repeats: repeats.len(),
                rows_min: repeats.iter().map(|m| m.rows).min().unwrap_or_default(),
                rows_per_second: Spread3::of(repeats.iter().map(|m| m.rows_per_second))?,
                latency_ms_p50: Spread3::of(repeats.iter().map(|m| m.latency_ms.p50))?,
                latency_ms_p99: Spread3::of(repeats.iter().map(|m| m.latency_ms.p99))?,
                group_transactions_mean: Spread3::of(
                    repeats.iter().map(|m| m.group_transactions_mean),
                )?
                .median,
            });
        }
        Ok(Self { environment: results.environment.into(), settings })
    }

    pub(crate) fn setting(
        &self,
        condition: Condition,
        batch: usize,
        in_flight: usize,
    ) -> Result<&Setting> {
        let found = self.settings.iter().find(|setting| {
            (setting.condition, setting.batch, setting.in_flight) == (condition, batch, in_flight)
        });
        found.with_context(|| {
            format!("no record of {condition}, {batch} rows a transaction, {in_flight} in flight")
        })
    }
}

/// The records of the other measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Probes {
    pub(crate) rejected: Rejected,
    pub(crate) memory: Memory,
    pub(crate) databases: Databases,
    /// `null` when no full data set was given.
    pub(crate) ingest: Option<Ingest>,
    /// `null` when no kills were asked for.
    pub(crate) kills: Option<Kills>,
}

/// One rejected among many that were submitted at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rejected {
    pub(crate) transactions: u64,
    pub(crate) committed: u64,
    #[serde(rename = "rejected")]
    pub(crate) failed: u64,
    pub(crate) flushes: u64,
    pub(crate) flushes_without: u64,
}

/// Resident memory of transactions that are queued.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    pub(crate) transactions: u64,
    pub(crate) bytes_of_data_each: f64,
    pub(crate) bytes_resident_each: f64,
}

/// Many databases open at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Databases {
    pub(crate) open: u64,
    pub(crate) threads_max: u64,
    pub(crate) idle_seconds: f64,
    pub(crate) idle_cpu_seconds: f64,
}

/// The whole data set, every record its own durable transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ingest {
    pub(crate) records: u64,
    pub(crate) equal_to_input: bool,
    pub(crate) records_per_second: Spread3,
    /// One commit a record with a prepared statement, write-ahead log, FULL.
    pub(crate) one_by_one_records_per_second: Spread3,
}

/// Ingests that were killed and resumed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kills {
    pub(crate) kills: u64,
    pub(crate) test: String,
}

/// Reads a file of records.
pub(crate) fn load<T: DeserializeOwned>(path: &str) -> Result<T> {
    serde_json::from_str(&read(path)?).with_context(|| format!("{path} holds no such records"))
}

/// Writes a file of records.
pub(crate) fn save<T: Serialize>(path: &str, records: &T) -> Result<()> {
    let text = serde_json::to_string_pretty(records)? + "\n";
    fs::write(root().join(path), text).with_context(|| format!("cannot write {path}"))
}

/// Where and when, for the reader of a table.
pub(crate) fn place() -> Result<String> {
    let medians: Medians = load(WRITE)?;
    let place = &medians.environment;
    let repeats = medians.settings.iter().map(|setting| setting.repeats).min().unwrap_or(0);
    let most = medians.settings.iter().map(|setting| setting.rows_min).max().unwrap_or(0);
    let mut text = format!(
        "{}, {} cores, {} on {}; a flush takes {:.0} µs ({:.0} µs where the file grows). \
         SQLite {}, {}, {} build of {}. \
         Up to {} rows a setting, median of {repeats} interleaved repeats.\n",
        place.cpu_model,
        place.cpu_cores,
        place.kernel,
        place.file_system,
        place.flush_us_p50,
        place.flush_extending_us_p50,
        place.sqlite,
        place.rustc.split(" (").next().unwrap_or_default(),
        place.build_profile,
        place.commit_and_date(),
        grouped(most),
    );
    for warning in &place.warnings {
        writeln!(text, "\n**{warning}**")?;
    }
    Ok(text)
}

/// What one transaction waits, by how many are in flight.
pub(crate) fn waits() -> Result<String> {
    let medians: Medians = load(WRITE)?;
    let mut table = String::from(
        "| 1 row a transaction | in flight | rows/s | wait p50, ms | wait p99, ms | transactions a group |\n\
         |---|---|---|---|---|---|\n",
    );
    for setting in medians.settings.iter().filter(|setting| setting.batch == 1) {
        writeln!(
            table,
            "| {} | {} | {} | {} | {} | {} |",
            setting.condition,
            grouped(setting.in_flight as u64),
            grouped_f(setting.rows_per_second.median),
            significant(setting.latency_ms_p50.median),
            significant(setting.latency_ms_p99.median),
            significant(setting.group_transactions_mean),
        )?;
    }
    Ok(table)
}

/// How a figure is to be compared with its bound.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// The rows of the table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    text: String,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { text: "| what | aim | measured | met |\n|---|---|---|---|\n".to_owned() }
    }

    pub(crate) fn row(&mut self, what: &str, asked: &str, measured: &str, met: bool) {
        let met = if met { "yes" } else { "no" };
        let _infallible = writeln!(self.text, "| {what} | {asked} | {measured} | {met} |");
    }

    pub(crate) fn ratio(&mut self, what: &str, bound: Bound, ratio: f64, detail: &str) {
        let (asked, met) = match bound {
            Bound::AtLeast(least) => (format!("at least {least} ×"), ratio >= least),
            Bound::AtMost(most) => (format!("at most {most} ×"), ratio <= most),
        };
        self.row(what, &asked, &format!("{} × ({detail})", significant(ratio)), met);
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

/// Everything the project is asked to show, side by side with what was measured.
pub(crate) fn ratios() -> Result<String> {
    use Bound::{AtLeast, AtMost};
    use Condition::{GroupcommitAsync as Async, GroupcommitBlocking as Blocking, Wal};

    let write: Medians = load(WRITE)?;
    let mut table = Table::new();
    let against = |table: &mut Table, what: &str, least: f64, of: &Setting, to: &Setting| {
        let detail = format!(
            "{} against {} rows/s",
            grouped_f(of.rows_per_second.median),
            grouped_f(to.rows_per_second.median)
        );
        let ratio = of.rows_per_second.median / to.rows_per_second.median;
        table.ratio(what, AtLeast(least), ratio, &detail);
    };
    let waits = |table: &mut Table, what: &str, most: f64, of: &Setting, to: &Setting| {
        let detail = format!(
            "p50 {} against {} ms",
            significant(of.latency_ms_p50.median),
            significant(to.latency_ms_p50.median)
        );
        let ratio = of.latency_ms_p50.median / to.latency_ms_p50.median;
        table.ratio(what, AtMost(most), ratio, &detail);
    };

    let wal = write.setting(Wal, 1, 1)?;
    let at_1000 = write.setting(Async, 1, 1_000)?;
    against(
        &mut table,
        "async, 1 row a transaction, 1,000 in flight, against `wal`",
        30.0,
        at_1000,
        wal,
    );
    against(
        &mut table,
        "the same against `wal` with 1,000 rows a transaction (batched by hand)",
        1.0,
        at_1000,
        write.setting(Wal, 1_000, 1)?,
    );
    for (in_flight, least) in [(16, 5.0), (64, 12.0), (256, 18.0)] {
        let what = format!("async at {in_flight} in flight against `wal` at 1");
        against(&mut table, &what, least, write.setting(Async, 1, in_flight)?, wal);
    }
    let blocking = write.setting(Blocking, 1, 1)?;
    waits(&mut table, "one blocking caller alone, latency against `wal`", 1.15, blocking, wal);
    let alone = write.setting(Async, 1, 1)?;
    waits(&mut table, "one async transaction in flight, latency against `wal`", 1.6, alone, wal);
    let threads: Medians = load(THREADS)?;
    let (shared, own) = (threads.setting(Wal, 1, 25)?, threads.setting(Blocking, 1, 25)?);
    against(
        &mut table,
        "25 threads, each `transact` in a loop, against 25 threads sharing one `wal` connection",
        4.0,
        own,
        shared,
    );
    for batch in [10, 100, 1_000] {
        let what = format!(
            "async, {} rows a transaction, against `wal` at the same batch",
            grouped(batch)
        );
        let batch = usize::try_from(batch)?;
        against(
            &mut table,
            &what,
            1.0,
            write.setting(Async, batch, 1_000)?,
            write.setting(Wal, batch, 1)?,
        );
    }
    probes(&mut table)?;
    Ok(table.text)
}

fn probes(table: &mut Table) -> Result<()> {
    let Probes { rejected, memory, databases, ingest, kills } = load(PROBES)?;
    let extra = rejected.flushes.saturating_sub(rejected.flushes_without);
    table.row(
        &format!("one rejected among {} at once", grouped(rejected.transactions)),
        "all others committed, at most 12 flushes more",
        &format!("{} committed, {extra} flushes more", grouped(rejected.committed)),
        rejected.committed == rejected.transactions - 1 && rejected.failed == 1 && extra <= 12,
    );
    let beyond = memory.bytes_resident_each - memory.bytes_of_data_each;
    table.row(
        "memory of a queued one-row transaction, beyond its own data",
        "at most 400 bytes",
        &format!("{beyond:.0} bytes"),
        beyond <= 400.0,
    );
    table.row(
        &format!("{} open databases: threads in the process", grouped(databases.open)),
        "at most 16",
        &databases.threads_max.to_string(),
        databases.threads_max <= 16,
    );
    table.row(
        "the same, CPU time while idle",
        "none",
        &format!("{:.3} s in {:.0} s", databases.idle_cpu_seconds, databases.idle_seconds),
        databases.idle_cpu_seconds < 0.001,
    );
    let what =
        "`ingest` of the full flights, against one commit a record with a prepared statement";
    match ingest {
        Some(ingest) => {
            let ratio =
                ingest.records_per_second.median / ingest.one_by_one_records_per_second.median;
            let equal = if ingest.equal_to_input { "equal to the input" } else { "NOT equal" };
            table.row(
                what,
                "at least 10 ×, equal to the input",
                &format!(
                    "{} × ({} against {} records/s), {} records, {equal}",
                    significant(ratio),
                    grouped_f(ingest.records_per_second.median),
                    grouped_f(ingest.one_by_one_records_per_second.median),
                    grouped(ingest.records),
                ),
                ratio >= 10.0 && ingest.equal_to_input,
            );
        }
        None => table.row(what, "at least 10 ×, equal to the input", "not measured", false),
    }
    let what = "`kill -9` at random moments of an ingest, then `--resume`";
    match kills {
        Some(Kills { kills, test }) => table.row(
            what,
            "equal to the input after 50 kills",
            &format!("equal after {kills} kills (`{test}`)"),
            kills >= 50,
        ),
        None => table.row(what, "equal to the input after 50 kills", "not measured", false),
    }
    if table.text.is_empty() {
        bail!("the table is empty");
    }
    Ok(())
}

/// Three significant digits.
pub(crate) fn significant(value: f64) -> String {
    let decimals = match value {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// A count with commas between the thousands.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates are small and positive"
)]
pub(crate) fn grouped_f(value: f64) -> String {
    grouped(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            (grouped(7), grouped(1_234), grouped(1_234_567)),
            ("7".into(), "1,234".into(), "1,234,567".into())
        );
        assert_eq!(
            (significant(123.4), significant(1.234), significant(0.1234)),
            ("123".into(), "1.23".into(), "0.123".into())
        );
    }

    #[test]
    fn a_figure_below_its_bound_is_told() {
        let mut table = Table::new();
        table.ratio("a", Bound::AtLeast(2.0), 1.9, "d");
        table.ratio("b", Bound::AtMost(2.0), 1.9, "d");
        assert!(table.text.contains("| a | at least 2 × | 1.90 × (d) | no |"), "{}", table.text);
        assert!(table.text.contains("| b | at most 2 × | 1.90 × (d) | yes |"), "{}", table.text);
    }
}
