//! What `groupcommit serve` costs: runs the load generator of its package, keeps its record, and makes the
//! tables of it.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{
    program::cargo,
    records::{Dated, Place, filled, load_one, save, table_of},
    root::root,
};

/// The record.
const RECORD: &str = "docs/measured/server.json";

const RATIOS: [(&str, &str); 4] =
    [("ratio", "{what}"), ("target", "{target}"), ("measured", "{value}"), ("met", "{met}")];

const CONDITIONS: [(&str, &str); 5] = [
    ("condition", "{name}"),
    ("requests/s", "{requests_per_s}"),
    ("p50, µs", "{p50_us}"),
    ("p99, µs", "{p99_us}"),
    ("memory of the server, MiB", "{server_mib}"),
];

/// Measures on the disk of `folder`.
pub(crate) fn measure(folder: &Path) -> Result<()> {
    let record = folder.join("server.json");
    let status = cargo()
        .args(["run", "--quiet", "--release", "--package", "groupcommit-serve"])
        .args(["--example", "load"])
        .env("FOLDER", folder)
        .env("RECORD", &record)
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "the load generator of the server ended with {status}");
    let record: Value = serde_json::from_str(&std::fs::read_to_string(record)?)?;
    save(RECORD, &Dated { place: Place::here()?, record })
}

/// The tables of the documentation.
pub(crate) fn tables() -> Result<String> {
    if !root().join(RECORD).exists() {
        return Ok("Not measured yet: run `cargo xtask measure --only server`.\n".to_owned());
    }
    let record = load_one(RECORD)?;
    let head =
        filled("{place}; medians of {repetitions} repetitions of {seconds} s each.", &record)?;
    let ratios = table_of(&RATIOS, &record["ratios"])?;
    let conditions = table_of(&CONDITIONS, &record["conditions"])?;
    Ok(format!("{head}\n\n{ratios}\n{conditions}"))
}
