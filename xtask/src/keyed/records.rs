//! The records of the key-value engines in `docs/measured`.

use anyhow::Result;
use groupcommit_lab::{
    condition::Condition,
    measurement::{Measurement, Results, WalFigures},
};
use serde::{Deserialize, Serialize};

use crate::measured::{Place, Rejected, Spread3};

/// Records of `groupcommit-bench write --engine lmdb`.
pub(super) const LMDB: &str = "docs/measured/lmdb.json";
/// The same of RocksDB.
pub(super) const ROCKSDB: &str = "docs/measured/rocksdb.json";
/// Records of `groupcommit-bench wal`.
pub(super) const WAL: &str = "docs/measured/wal.json";
/// One failing among many, on each.
pub(super) const REJECTED: &str = "docs/measured/keyed-rejected.json";

/// One failing among many that were submitted at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Rejections {
    pub(super) lmdb: Rejected,
    pub(super) rocksdb: Rejected,
}

/// The medians of the price of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct WalMedians {
    pub(super) environment: Place,
    pub(super) settings: Vec<WalSetting>,
}

/// The median over the repeats of one benchmark under one condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct WalSetting {
    pub(super) condition: Condition,
    pub(super) durable: bool,
    /// `fillseq`, `fillrandom` or `readrandom`.
    pub(super) benchmark: String,
    pub(super) in_flight: usize,
    pub(super) repeats: usize,
    pub(super) rows_min: u64,
    pub(super) rows_per_second: Spread3,
    /// In units of 1,048,576 bytes.
    pub(super) megabytes_per_second: Spread3,
    pub(super) latency_us_mean: Spread3,
    pub(super) space_amplification: Option<f64>,
    pub(super) write_amplification: Option<f64>,
    /// Without the log.
    pub(super) table_write_amplification: Option<f64>,
    /// For a million entries.
    pub(super) log_write_seconds: f64,
    /// For a million entries.
    pub(super) log_flush_seconds: f64,
    /// What the kernel counted, per byte that RocksDB counted; absent where nothing was written.
    pub(super) kernel_per_rocksdb: Option<f64>,
}

impl WalMedians {
    /// Medians over the repeats of every setting, in the order measured.
    pub(super) fn of(results: Results) -> Result<Self> {
        let key = |m: &Measurement| (m.condition, m.setting.clone());
        let mut settings = Vec::new();
        let mut seen = Vec::new();
        for first in &results.measurements {
            if seen.contains(&key(first)) {
                continue;
            }
            seen.push(key(first));
            let repeats: Vec<_> =
                results.measurements.iter().filter(|m| key(m) == key(first)).collect();
            settings.push(WalSetting::of(first, &repeats)?);
        }
        Ok(Self { environment: results.environment.into(), settings })
    }

    pub(super) fn find(&self, condition: Condition, benchmark: &str) -> Option<&WalSetting> {
        let is = |it: &&WalSetting| it.condition == condition && it.benchmark == benchmark;
        self.settings.iter().find(is)
    }
}

impl WalSetting {
    fn of(first: &Measurement, repeats: &[&Measurement]) -> Result<Self> {
        let figures = |figure: fn(&WalFigures) -> Option<f64>| {
            repeats.iter().filter_map(|m| m.wal.as_ref().and_then(figure)).collect::<Vec<_>>()
        };
        let median = |figure: fn(&WalFigures) -> Option<f64>| {
            Spread3::of(figures(figure)).ok().map(|spread| spread.median)
        };
        let per_million = |figure: fn(&WalFigures) -> f64| {
            let of = |m: &&Measurement| {
                m.wal.as_ref().map(|wal| figure(wal) * 1e6 / (m.rows.max(1) as f64))
            };
            Spread3::of(repeats.iter().filter_map(of)).map(|spread| spread.median)
        };
        Ok(Self {
            condition: first.condition,
            durable: first.durable,
            benchmark: first.setting.clone().unwrap_or_default(),
            in_flight: first.in_flight,
            repeats: repeats.len(),
            rows_min: repeats.iter().map(|m| m.rows).min().unwrap_or_default(),
            rows_per_second: Spread3::of(repeats.iter().map(|m| m.rows_per_second))?,
            megabytes_per_second: Spread3::of(figures(|wal| Some(wal.megabytes_per_second)))?,
            latency_us_mean: Spread3::of(repeats.iter().map(|m| m.latency_ms.mean * 1e3))?,
            space_amplification: median(|wal| wal.space_amplification),
            write_amplification: median(|wal| wal.write_amplification),
            table_write_amplification: median(|wal| wal.table_write_amplification),
            log_write_seconds: per_million(|wal| wal.log_write_seconds)?,
            log_flush_seconds: per_million(|wal| wal.log_flush_seconds)?,
            kernel_per_rocksdb: median(|wal| {
                let rocksdb = wal.log_bytes + wal.flush_bytes + wal.compaction_bytes;
                let kernel = wal.kernel_bytes.filter(|_| wal.write_amplification.is_some())?;
                (rocksdb > 0).then(|| kernel as f64 / rocksdb as f64)
            }),
        })
    }
}
