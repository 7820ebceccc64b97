//! The packages of other languages: tested from outside by a script of each, and measured by another.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use groupcommit_lab::report::number::significant;
use groupcommit_testkit::servers::{Life, mysql, or_skip, postgres};
use serde::{Deserialize, Serialize};

use crate::{
    records::{Dated, Place, load, save, table},
    root::root,
};

/// The folders of the packages.
pub(crate) const PYTHON: &str = "python";
pub(crate) const NODE: &str = "node";

/// What a package is compared with.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// What it was measured with, as a phrase: versions and cores.
    conditions: String,
    repetitions: u32,
    comparisons: Vec<Comparison>,
}

/// One measurement: a figure of each run, in the order of the runs.
#[derive(Debug, Serialize, Deserialize)]
struct Comparison {
    what: String,
    unit: String,
    ours: Vec<f64>,
    theirs: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
}

/// Tests the package of `language`, with the URLs of a PostgreSQL and a MariaDB of its own in the
/// environment.
pub(crate) fn test(language: &str) -> Result<()> {
    let script = format!("{language}/test");
    let postgres = or_skip(postgres::start(postgres::Kind::Single, Life::Process));
    let mysql = or_skip(mysql::start(mysql::Kind::Single, Life::Process));
    let mut command = Command::new(root().join(&script));
    if let Some(servers) = &postgres {
        command.env("GROUPCOMMIT_POSTGRES", servers.url());
    }
    if let Some(servers) = &mysql {
        command.env("GROUPCOMMIT_MYSQL", servers.url());
    }
    let status = command.status().with_context(|| format!("cannot start {script}"))?;
    ensure!(status.success(), "{script} failed ({status})");
    Ok(())
}

/// Measures the package of `language` on the disk of `folder`.
pub(crate) fn measure(language: &str, folder: &Path) -> Result<()> {
    let (script, made) = (format!("{language}/bench/run"), folder.join("record.json"));
    let status = Command::new(root().join(&script))
        .arg("--folder")
        .arg(folder)
        .arg("--record")
        .arg(&made)
        .status()
        .with_context(|| format!("cannot start {script}"))?;
    ensure!(status.success(), "{script} ended with {status}");
    let record: Record = serde_json::from_str(&std::fs::read_to_string(made)?)?;
    save(&record_of(language), &Dated { place: Place::here()?, record })
}

fn record_of(language: &str) -> String {
    format!("docs/measured/{language}.json")
}

/// The table of the documentation.
pub(crate) fn comparisons(language: &str) -> Result<String> {
    let path = record_of(language);
    if !root().join(&path).exists() {
        return Ok(format!("Not measured yet: run `cargo xtask measure --only {language}`.\n"));
    }
    let Dated { place, record } = load::<Dated<Record>>(&path)?;
    let head =
        format!("{}; {}; medians of {} runs.", place.text(), record.conditions, record.repetitions);
    let columns = ["what", "groupcommit", "the other", "ratio", "target", "met"];
    Ok(format!("{head}\n\n{}", table(&columns, record.comparisons.iter().map(Comparison::row))))
}

impl Comparison {
    fn row(&self) -> Vec<String> {
        let (ours, theirs) = (median(&self.ours), median(&self.theirs));
        let ratio = ours / theirs;
        let (target, is_met) = match (self.at_least, self.at_most) {
            (Some(least), _) => (format!("at least {least}"), ratio >= least),
            (_, Some(most)) => (format!("at most {most}"), ratio <= most),
            _ => ("–".to_owned(), true),
        };
        let has_target = self.at_least.or(self.at_most).is_some();
        let met = if !has_target {
            "–"
        } else if is_met {
            "yes"
        } else {
            "no"
        };
        let figure = |value| format!("{} {}", significant(value), self.unit);
        vec![
            self.what.clone(),
            figure(ours),
            figure(theirs),
            significant(ratio),
            target,
            met.to_owned(),
        ]
    }
}

fn median(runs: &[f64]) -> f64 {
    let mut runs = runs.to_vec();
    runs.sort_by(f64::total_cmp);
    runs.get(runs.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_medians_and_held_against_its_target() {
        let row = |at_least, at_most| {
            let (ours, theirs) = (vec![9.0, 1.0, 3.0], vec![2.0, 2.0, 8.0]);
            let (what, unit) = ("reads".to_owned(), "µs".to_owned());
            Comparison { what, unit, ours, theirs, at_least, at_most }.row()
        };
        let figures = ["reads", "3.00 µs", "2.00 µs", "1.50"];
        assert_eq!(row(Some(2.0), None), [&figures[..], &["at least 2", "no"]].concat());
        assert_eq!(row(None, Some(1.5)), [&figures[..], &["at most 1.5", "yes"]].concat());
        assert_eq!(row(None, None), [&figures[..], &["–", "–"]].concat());
    }
}
