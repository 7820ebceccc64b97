//! What `groupcommit serve` costs: runs the load generator of its package, keeps its record, and makes the
//! table of it.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use groupcommit_lab::report::number::grouped;
use serde::{Deserialize, Serialize};

use crate::{
    program::cargo,
    records::{Dated, Place, load, save, table},
    root::root,
};

/// The record.
const RECORD: &str = "docs/measured/server.json";

/// What the load generator writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Load {
    seconds: f64,
    repetitions: u64,
    conditions: Vec<Condition>,
    ratios: Vec<Ratio>,
}

/// Medians of one condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Condition {
    name: String,
    requests_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    server_kib: f64,
}

/// What two conditions have to each other: the median of the repetitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Ratio {
    what: String,
    /// `at least` or `at most`.
    bound: String,
    limit: f64,
    value: f64,
    holds: bool,
}

/// Measures on the disk of `folder`.
pub(crate) fn measure(folder: &Path) -> Result<()> {
    let record = folder.join("server.json");
    let status = cargo()
        .args([
            "run",
            "--quiet",
            "--release",
            "--package",
            "groupcommit-serve",
            "--example",
            "load",
        ])
        .env("FOLDER", folder)
        .env("RECORD", &record)
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "the load generator of the server ended with {status}");
    let record: Load = serde_json::from_str(&std::fs::read_to_string(record)?)?;
    save(RECORD, &Dated { place: Place::here()?, record })
}

/// The tables of the documentation.
pub(crate) fn tables() -> Result<String> {
    if !root().join(RECORD).exists() {
        return Ok("Not measured yet: run `cargo xtask measure --only server`.\n".to_owned());
    }
    let Dated { place, record } = load::<Dated<Load>>(RECORD)?;
    let ratio = |ratio: &Ratio| {
        let held = if ratio.holds { "yes" } else { "no" };
        let value = format!("{:.2} ×", ratio.value);
        vec![
            ratio.what.clone(),
            format!("{} {} ×", ratio.bound, ratio.limit),
            value,
            held.to_owned(),
        ]
    };
    let ratios = table(&["ratio", "target", "measured", "met"], record.ratios.iter().map(ratio));
    let condition = |one: &Condition| {
        vec![
            one.name.clone(),
            grouped(one.requests_per_s.round()),
            grouped(one.p50_us),
            grouped(one.p99_us),
            format!("{:.0}", one.server_kib / 1_024.0),
        ]
    };
    let columns = ["condition", "requests/s", "p50, µs", "p99, µs", "memory of the server, MiB"];
    let conditions = table(&columns, record.conditions.iter().map(condition));
    Ok(format!(
        "{}; medians of {} repetitions of {} s each.\n\n{ratios}\n{conditions}",
        place.text(),
        record.repetitions,
        record.seconds
    ))
}
