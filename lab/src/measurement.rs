//! The records: one measurement each, and the file that holds those of a run.
//!
//! Measuring and drawing are apart: whatever a table or a report shows comes from these records
//! alone, so that it can be drawn again without measuring again.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::environment::Environment;
use crate::error::LabError;
use crate::statistics::{LatencyMs, unknown};

/// The name of the file of records in the folder given by `--out`.
pub const RESULTS_FILE: &str = "results.json";

/// Everything that one run of the lab has recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// What a report calls the run, where the engine alone would not tell it from others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Where it was measured, and with what.
    pub environment: Environment,
    /// In the order measured.
    pub measurements: Vec<Measurement>,
}

/// One repeat of one condition with one setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The experiment: `write`, `mixed`, `threads`, `load`, `large`, `wal` or `web`.
    pub experiment: String,
    /// The database, such as `sqlite`.
    pub engine: String,
    /// Who commits, and how.
    pub condition: Condition,
    /// Whether acknowledged rows survive a power cut.
    pub durable: bool,
    /// Rows a transaction.
    pub batch: usize,
    /// Transactions outstanding at most: the number of threads where callers block; 0 in an open
    /// loop, which has no bound.
    pub in_flight: usize,
    /// Threads that submit.
    pub threads: usize,
    /// Counted from 1.
    pub repeat: usize,
    /// Rows written and acknowledged; fewer than asked for when the time limit was reached.
    pub rows: u64,
    /// Wall-clock time from the first submission to the last acknowledgement.
    pub seconds: f64,
    /// `rows / seconds`.
    pub rows_per_second: f64,
    /// What a caller waits for its transaction, from submit to resolved.
    pub latency_ms: LatencyMs,
    /// Mean time between completed transactions, which is the reciprocal of throughput and not a
    /// latency: with 1,000 in flight a caller waits about 1,000 times as long.
    pub completion_interval_ms: f64,
    /// Rows per second × (1 ms ÷ mean latency); see
    /// [`effective_throughput_1ms`](crate::statistics::effective_throughput_1ms).
    pub effective_throughput_1ms: f64,
    /// CPU time of the process in user mode while the clock ran, the lab's own included.
    #[serde(default = "unknown")]
    pub cpu_user_seconds: f64,
    /// CPU time of the process in the kernel while the clock ran.
    #[serde(default = "unknown")]
    pub cpu_system_seconds: f64,
    /// Transactions a group, on average; 1 where each call commits for itself.
    pub group_transactions_mean: f64,
    /// Flushes that the engine counted while the clock ran; `null` where nobody counts them.
    pub flushes: Option<u64>,
    /// Rows found at the end by a fresh connection.
    pub verified_rows: u64,
    /// One point every 10,000 rows, and one at the end; condensed records have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub progress: Vec<ProgressPoint>,
    /// The latency at each of [`QUANTILES`](crate::statistics::QUANTILES), as `[quantile, ms]`: for
    /// percentile curves and box plots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency_percentiles_ms: Vec<(f64, f64)>,
    /// `load`: how groups were formed, such as `adaptive`, `group 64` or `delay 1 ms`. `wal`: the benchmark.
    /// `large`: how keys were chosen.
    /// `web`: `normal`, `high` or `at once`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// `load`: `closed` or `open`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<String>,
    /// Open loop: Poisson arrivals a second. Latencies then count from the intended arrival.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_per_second: Option<f64>,
    /// Open loop: the same as a share of the measured capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_share: Option<f64>,
    /// Open loop: arrivals that had not been submitted when the time limit came. With any, the
    /// setting was overloaded and its latencies are lower bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unserved: Option<u64>,
    /// `mixed`: reads and writes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
    /// `mixed`: `operations / seconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations_per_second: Option<f64>,
    /// `mixed`: how long the reads took. `web`: how long until the important part was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_latency_ms: Option<LatencyMs>,
    /// As `latency_percentiles_ms`, of the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_latency_percentiles_ms: Option<Vec<(f64, f64)>>,
    /// Milliseconds added to every flush, to show a slower disk; absent on the disk as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_delay_ms: Option<f64>,
    /// Whether flushes were delayed, so that the figure belongs to no real disk.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub simulated: bool,
    /// `web`: the most connections that were seen at once where they end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_peak: Option<u64>,
    /// Cores that other processes used, on average, while the clock ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_cpu_cores: Option<f64>,
    /// `wal`: what RocksDB and the kernel wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal: Option<WalFigures>,
    /// `large`: what was there, and went on beside the writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub large: Option<LargeFigures>,
}

/// A large table while rows of it were replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LargeFigures {
    /// Rows in the table.
    pub rows: u64,
    /// Threads that read random rows meanwhile.
    pub readers: usize,
    /// Whether somebody kept reading from old snapshots.
    pub long_reader: bool,
    /// Whether the table has a second index.
    pub index: bool,
    /// The longest that the log's file was seen.
    pub log_bytes_max: u64,
    /// Written by the device for each row replaced, whoever wrote; absent where the system does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_bytes_a_row: Option<f64>,
    /// Rows read by all readers together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_per_second: Option<f64>,
    /// Opening a copy with the log of the end, as a killed process would leave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening_seconds: Option<f64>,
}

/// What RocksDB counted while a benchmark ran and until everything written was in table files and
/// compacted, and what the kernel counted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WalFigures {
    /// Keys and values written, or asked for and found, in bytes.
    pub user_bytes: u64,
    /// `user_bytes` a second, in units of 1,048,576 bytes as RocksDB's own benchmark prints them.
    pub megabytes_per_second: f64,
    /// Written to the log.
    pub log_bytes: u64,
    /// Written to table files from memory.
    pub flush_bytes: u64,
    /// Written to table files by compaction.
    pub compaction_bytes: u64,
    /// Everything that this process wrote, as the kernel counts it; absent where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_bytes: Option<u64>,
    /// Table files at the end, in bytes.
    pub table_file_bytes: u64,
    /// Keys and values that can be read at the end, in bytes.
    pub live_bytes: u64,
    /// `table_file_bytes / live_bytes`; absent for reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space_amplification: Option<f64>,
    /// `(log_bytes + flush_bytes + compaction_bytes) / user_bytes`; absent for reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_amplification: Option<f64>,
    /// The same without the log; absent for reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_write_amplification: Option<f64>,
    /// Time spent writing the log, in seconds; where every write has its own, estimated from the share of
    /// it in one of 64.
    pub log_write_seconds: f64,
    /// Time spent flushing the log, in seconds; beside other work where flushes overlap it.
    pub log_flush_seconds: f64,
}

/// The columns that experiment 1 prints every 10,000 rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ProgressPoint {
    /// Rows acknowledged so far.
    pub rows: u64,
    /// Since the first submission.
    pub seconds: f64,
    /// `rows / seconds`, so since the start.
    pub rows_per_second: f64,
    /// Mean latency of the transactions completed since the point before.
    pub latency_ms: f64,
    /// Mean time between the completions since the point before.
    pub completion_interval_ms: f64,
}

impl Measurement {
    /// Whether ratios of many threads refer to it.
    #[must_use]
    pub fn is_reference_of_threads(&self) -> bool {
        self.engine.parse().is_ok_and(|engine| self.condition.is_reference_of_threads(engine))
    }

    /// Reads and writes of the mixed task; the rows elsewhere.
    #[must_use]
    pub fn operations(&self) -> f64 {
        self.operations.unwrap_or(self.rows).max(1) as f64
    }

    /// Wall-clock microseconds per operation.
    #[must_use]
    pub fn wall_us(&self) -> f64 {
        self.seconds * 1e6 / self.operations()
    }

    /// CPU microseconds per operation, user and system.
    #[must_use]
    pub fn cpu_us(&self) -> f64 {
        (self.cpu_user_seconds + self.cpu_system_seconds) * 1e6 / self.operations()
    }
}

impl Results {
    /// Writes the records to [`RESULTS_FILE`] in `folder`, replacing an earlier file in one step.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn save(&self, folder: &Path) -> Result<(), LabError> {
        let path = folder.join(RESULTS_FILE);
        let mut text = serde_json::to_string_pretty(self).map_err(|source| LabError::Record {
            action: "write",
            path: path.clone(),
            source,
        })?;
        text.push('\n');
        let unfinished = folder.join(format!("{RESULTS_FILE}.unfinished"));
        fs::write(&unfinished, text).map_err(LabError::io("write", &unfinished))?;
        fs::rename(&unfinished, &path).map_err(LabError::io("replace", &path))
    }

    /// Reads the records back from [`RESULTS_FILE`] in `folder`.
    ///
    /// # Errors
    /// When there is no such file, or it does not hold records of this version.
    pub fn load(folder: &Path) -> Result<Self, LabError> {
        Self::load_file(&folder.join(RESULTS_FILE))
    }

    /// Reads records from the file at `path`.
    ///
    /// # Errors
    /// When there is no such file, or it does not hold records of this version.
    pub fn load_file(path: &Path) -> Result<Self, LabError> {
        let text = fs::read_to_string(path).map_err(LabError::io("read", path))?;
        serde_json::from_str(&text).map_err(|source| LabError::Record {
            action: "read",
            path: path.to_owned(),
            source,
        })
    }

    /// Without the series and percentiles, which make up most of a file: what a repository keeps.
    #[must_use]
    pub fn condensed(mut self) -> Self {
        for measurement in &mut self.measurements {
            measurement.progress.clear();
            measurement.latency_percentiles_ms.retain(|&(quantile, _)| quantile <= 0.0);
            measurement.read_latency_percentiles_ms = None;
        }
        self
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A plausible record for tests of what is drawn from records.
    pub(crate) fn example(condition: Condition, batch: usize, rows_per_second: f64) -> Measurement {
        Measurement {
            experiment: "write".to_owned(),
            engine: "sqlite".to_owned(),
            condition,
            durable: condition.is_durable(),
            batch,
            in_flight: 1,
            threads: 1,
            repeat: 1,
            rows: 1_000,
            seconds: 1_000.0 / rows_per_second,
            rows_per_second,
            latency_ms: LatencyMs { mean: 0.5, p50: 0.5, p90: 0.6, p99: 0.7, p999: 0.8, max: 0.9 },
            completion_interval_ms: 0.5,
            effective_throughput_1ms: rows_per_second * 2.0,
            cpu_user_seconds: 0.1,
            cpu_system_seconds: 0.2,
            group_transactions_mean: 1.0,
            flushes: None,
            verified_rows: 1_000,
            progress: vec![ProgressPoint {
                rows: 1_000,
                seconds: 1_000.0 / rows_per_second,
                rows_per_second,
                latency_ms: 0.5,
                completion_interval_ms: 0.5,
            }],
            latency_percentiles_ms: vec![(0.0, 0.4), (0.5, 0.5), (1.0, 0.9)],
            setting: None,
            arrivals: None,
            offered_per_second: None,
            offered_share: None,
            unserved: None,
            operations: None,
            operations_per_second: None,
            read_latency_ms: None,
            read_latency_percentiles_ms: None,
            flush_delay_ms: None,
            simulated: false,
            others_cpu_cores: None,
            connections_peak: None,
            wal: None,
            large: None,
        }
    }

    #[test]
    fn a_measurement_has_exactly_the_documented_fields() {
        let record =
            serde_json::to_value(example(Condition::WalNormal, 1, 10.0)).expect("serializes");
        let mut fields: Vec<&str> =
            record.as_object().expect("an object").keys().map(String::as_str).collect();
        fields.sort_unstable();
        let mut documented = [
            "experiment",
            "engine",
            "condition",
            "durable",
            "batch",
            "in_flight",
            "threads",
            "rows",
            "seconds",
            "rows_per_second",
            "latency_ms",
            "completion_interval_ms",
            "effective_throughput_1ms",
            "cpu_user_seconds",
            "cpu_system_seconds",
            "group_transactions_mean",
            "flushes",
            "verified_rows",
            "repeat",
            "progress",
            "latency_percentiles_ms",
        ];
        documented.sort_unstable();
        assert_eq!(fields, documented);
        assert_eq!(record["condition"], "wal-normal");
        assert_eq!(record["durable"], false);
        assert!(record["flushes"].is_null());
        let latency: Vec<&String> =
            record["latency_ms"].as_object().expect("an object").keys().collect();
        assert_eq!(latency, ["mean", "p50", "p90", "p99", "p999", "max"]);
    }

    #[test]
    fn records_of_before_the_percentile_curves_can_be_read() {
        let mut record =
            serde_json::to_value(example(Condition::Wal, 1, 10.0)).expect("serializes");
        record.as_object_mut().expect("an object").remove("latency_percentiles_ms");
        let read: Measurement = serde_json::from_value(record).expect("reads");
        assert!(read.latency_percentiles_ms.is_empty() && !read.simulated);
    }

    #[test]
    fn records_read_back_as_they_were_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let results = Results {
            title: None,
            environment: Environment::example(),
            measurements: vec![
                example(Condition::Default, 1, 1e4 / 3.0),
                example(Condition::GroupcommitAsync, 10, 1e6),
            ],
        };
        results.save(folder.path()).expect("saves");
        assert_eq!(Results::load(folder.path()).expect("loads"), results);
        let left: Vec<_> = fs::read_dir(folder.path()).expect("lists").collect();
        assert_eq!(left.len(), 1, "no unfinished file stays behind");
    }

    #[test]
    fn a_file_of_something_else_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(RESULTS_FILE), "{\"measurements\": []}").expect("writes");
        let error = Results::load(folder.path()).expect_err("no environment");
        assert!(matches!(error, LabError::Record { action: "read", .. }));
    }
}
