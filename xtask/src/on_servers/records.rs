//! The records of the servers in `docs/measured`: each repeat of what ratios are made of, and medians
//! of the rest.

use std::path::Path;

use anyhow::{Context, Result};
use groupcommit_lab::{
    condition::Condition,
    measurement::{Measurement, Results},
    statistics::LatencyMs,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    measured::{self, Place, Spread3},
    on_servers::Target,
    root::root,
};

/// Records of `groupcommit-bench write` on servers, and of one failing among many.
const WRITE: &str = "docs/measured/servers-write.json";
/// Records of `groupcommit-bench web`.
const WEB: &str = "docs/measured/servers-web.json";

/// Pure write, one entry a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct WriteRecords {
    pub(super) servers: Vec<WriteOn>,
}

/// Pure write on one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct WriteOn {
    pub(super) on: Target,
    pub(super) environment: Place,
    pub(super) settings: Vec<WriteSetting>,
    pub(super) rejected: Rejected,
}

/// The repeats of one condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct WriteSetting {
    pub(super) condition: Condition,
    pub(super) in_flight: usize,
    /// Of each repeat, in the order measured: repeats are interleaved over the conditions.
    pub(super) rows_per_second: Vec<f64>,
    pub(super) latency_ms_p50: Spread3,
    pub(super) latency_ms_p99: Spread3,
    pub(super) group_transactions_mean: f64,
}

/// One failing among many that were submitted at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rejected {
    pub(crate) transactions: u64,
    pub(crate) committed: u64,
    #[serde(rename = "rejected")]
    pub(crate) failed: u64,
    /// Rows that a count found afterwards.
    pub(crate) rows: u64,
    /// Commits that all came to, with the one that held them up, which some may have joined; and those
    /// where none failed.
    pub(crate) commits: u64,
    pub(crate) commits_without: u64,
}

/// The requests of a web application, one entry a database and kind of queries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct WebRecords {
    pub(super) databases: Vec<WebOn>,
}

/// The requests of a web application on one database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct WebOn {
    pub(super) on: Target,
    /// `work` or `wait`: what takes the queries their time.
    pub(super) queries: String,
    pub(super) environment: Place,
    /// That a condition with a bound may have.
    pub(super) connections_max: usize,
    pub(super) settings: Vec<WebSetting>,
}

/// The repeats of one condition under one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct WebSetting {
    pub(super) condition: Condition,
    /// `normal`, `high` or `at once`.
    pub(super) load: String,
    pub(super) requests: u64,
    /// Until all of a request is answered, the medians over the repeats.
    pub(super) done_ms_min: f64,
    pub(super) done_ms_mean: f64,
    pub(super) done_ms_p99: f64,
    pub(super) done_ms_max: f64,
    /// The median of each repeat, in the order measured.
    pub(super) done_ms_p50: Vec<f64>,
    /// Until the important part is answered.
    pub(super) first_ms_p50: f64,
    /// The most that were seen at once in any repeat.
    pub(super) connections_peak: u64,
}

/// The measurements of each setting, in the order measured.
fn by_setting<K: PartialEq>(
    measurements: &[Measurement],
    key: impl Fn(&Measurement) -> K,
) -> Vec<Vec<&Measurement>> {
    let mut settings: Vec<Vec<&Measurement>> = Vec::new();
    for measurement in measurements {
        match settings.iter_mut().find(|repeats| key(repeats[0]) == key(measurement)) {
            Some(repeats) => repeats.push(measurement),
            None => settings.push(vec![measurement]),
        }
    }
    settings
}

impl WriteOn {
    pub(super) fn of(on: Target, results: Results, rejected: Rejected) -> Result<Self> {
        let settings = by_setting(&results.measurements, |m| (m.condition, m.batch, m.in_flight));
        let setting = |repeats: &Vec<&Measurement>| {
            let spread =
                |figure: fn(&Measurement) -> f64| Spread3::of(repeats.iter().map(|m| figure(m)));
            Ok(WriteSetting {
                condition: repeats[0].condition,
                in_flight: repeats[0].in_flight,
                rows_per_second: repeats.iter().map(|m| m.rows_per_second).collect(),
                latency_ms_p50: spread(|m| m.latency_ms.p50)?,
                latency_ms_p99: spread(|m| m.latency_ms.p99)?,
                group_transactions_mean: spread(|m| m.group_transactions_mean)?.median,
            })
        };
        let settings = settings.iter().map(setting).collect::<Result<_>>()?;
        Ok(Self { on, environment: results.environment.into(), settings, rejected })
    }

    pub(super) fn rates(&self, condition: Condition) -> Result<&[f64]> {
        let found = self.settings.iter().find(|setting| setting.condition == condition);
        let setting =
            found.with_context(|| format!("no record of {condition} on {}", self.on.title()))?;
        Ok(&setting.rows_per_second)
    }
}

/// The load alone: what the queries do stands beside it.
fn load_of(measurement: &Measurement) -> String {
    let label = measurement.setting.as_deref().unwrap_or_default();
    label.split(',').next().unwrap_or_default().to_owned()
}

impl WebOn {
    pub(super) fn of(on: Target, queries: &str, results: Results) -> Result<Self> {
        let settings = by_setting(&results.measurements, |m| (m.condition, m.setting.clone()));
        let setting = |repeats: &Vec<&Measurement>| {
            let median = |figure: fn(&LatencyMs) -> f64| {
                Spread3::of(repeats.iter().map(|m| figure(&m.latency_ms))).map(|it| it.median)
            };
            let least =
                repeats.iter().map(|m| m.latency_percentiles_ms.first().map_or(0.0, |p| p.1));
            let first = repeats.iter().filter_map(|m| m.read_latency_ms.as_ref());
            Ok(WebSetting {
                condition: repeats[0].condition,
                load: load_of(repeats[0]),
                requests: repeats.iter().map(|m| m.rows).min().unwrap_or_default(),
                done_ms_min: Spread3::of(least)?.median,
                done_ms_mean: median(|latency| latency.mean)?,
                done_ms_p99: median(|latency| latency.p99)?,
                done_ms_max: median(|latency| latency.max)?,
                done_ms_p50: repeats.iter().map(|m| m.latency_ms.p50).collect(),
                first_ms_p50: Spread3::of(first.map(|latency| latency.p50))?.median,
                connections_peak: repeats
                    .iter()
                    .filter_map(|m| m.connections_peak)
                    .max()
                    .unwrap_or(0),
            })
        };
        let connections_max = results.measurements.iter().map(|m| m.in_flight).max();
        Ok(Self {
            on,
            queries: queries.to_owned(),
            settings: settings.iter().map(setting).collect::<Result<_>>()?,
            connections_max: connections_max.unwrap_or_default(),
            environment: results.environment.into(),
        })
    }

    pub(super) fn find(&self, condition: Condition, load: &str) -> Option<&WebSetting> {
        self.settings.iter().find(|it| it.condition == condition && it.load == load)
    }
}

/// A file of records, one entry each of what was measured on.
pub(super) trait Records: Default + Serialize + DeserializeOwned {
    type Entry;
    const PATH: &'static str;

    fn entries(&mut self) -> &mut Vec<Self::Entry>;
    /// What an entry is told from others by, in the order of the file.
    fn key(entry: &Self::Entry) -> u8;

    fn load() -> Result<Self> {
        measured::load(Self::PATH)
    }

    /// Puts an entry into the file in place of the one before.
    fn put(entry: Self::Entry) -> Result<()> {
        let is_there = Path::new(root()).join(Self::PATH).exists();
        let mut records = if is_there { Self::load()? } else { Self::default() };
        replace(records.entries(), entry, Self::key);
        measured::save(Self::PATH, &records)
    }
}

fn replace<E>(entries: &mut Vec<E>, entry: E, key: impl Fn(&E) -> u8) {
    entries.retain(|other| key(other) != key(&entry));
    entries.push(entry);
    entries.sort_by_key(key);
}

impl Records for WriteRecords {
    type Entry = WriteOn;
    const PATH: &'static str = WRITE;

    fn entries(&mut self) -> &mut Vec<WriteOn> {
        &mut self.servers
    }

    fn key(entry: &WriteOn) -> u8 {
        entry.on as u8
    }
}

impl Records for WebRecords {
    type Entry = WebOn;
    const PATH: &'static str = WEB;

    fn entries(&mut self) -> &mut Vec<WebOn> {
        &mut self.databases
    }

    fn key(entry: &WebOn) -> u8 {
        // Those that work before those that wait.
        entry.on as u8 + if entry.queries == "wait" { 0x80 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_measured_again_replaces_its_own_entry_alone() {
        let mut entries = vec![(Target::Mariadb, 1), (Target::Sqlite, 2)];
        let key = |entry: &(Target, i32)| entry.0 as u8;
        replace(&mut entries, (Target::Postgres, 3), key);
        replace(&mut entries, (Target::Mariadb, 4), key);
        assert_eq!(entries, [(Target::Postgres, 3), (Target::Mariadb, 4), (Target::Sqlite, 2)]);
    }
}
