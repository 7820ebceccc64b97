//! `cargo xtask powercut` and `cargo xtask faults`: what survives power cuts and failing disks. The
//! harness itself is `testkit/power`.

pub(crate) mod records;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    Done, program,
    records::{Dated, Place},
};
use records::Cuts;

/// The package of the harness, and its program.
pub(crate) const PACKAGE: (&str, &str) = ("groupcommit-testkit-power", "groupcommit-power");

/// What can lose power.
const MEDIA: [&str; 2] = ["shutdown", "device"];

/// Options of `cargo xtask powercut`.
#[derive(Debug, Args)]
pub(crate) struct CutOptions {
    /// How often to cut the power of each medium
    #[arg(long, value_name = "N", default_value_t = 20)]
    cycles: u64,

    /// What the random choices are made from
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// The first cycle: to replay a failure
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: u64,

    /// The engine under test: `sqlite`, `lmdb` or `rocksdb`
    #[arg(long, value_name = "NAME", default_value = "sqlite")]
    engine: String,

    /// Write through `groupcommit serve`, from clients that send each request again, with its key, until
    /// it is answered; SQLite only
    #[arg(long)]
    serve: bool,

    /// What loses power: `shutdown` (ext4 without its journal) or `device` (a write-back cache)
    /// [default: both]
    #[arg(long, value_name = "NAME")]
    medium: Option<String>,

    /// Cut nothing; take away what runs left behind that were killed, with which every run begins
    #[arg(long)]
    sweep: bool,

    /// Keep the figures in docs/measured, for `cargo xtask docs` to write into the documentation
    #[arg(long)]
    save: bool,
}

/// Options of `cargo xtask faults`.
#[derive(Debug, Args)]
pub(crate) struct FaultOptions {
    /// Try every this many places of a fault, instead of every one
    #[arg(long, value_name = "N", default_value_t = 1)]
    stride: u64,

    /// The engine under test: `sqlite`, `lmdb` or `rocksdb`
    #[arg(long, value_name = "NAME", default_value = "sqlite")]
    engine: String,

    /// Keep the figures in docs/measured, for `cargo xtask docs` to write into the documentation
    #[arg(long)]
    save: bool,
}

pub(crate) fn cut(options: &CutOptions) -> Result<Done> {
    let program = build(&options.engine)?;
    if options.sweep {
        let status = Command::new(&program).arg("sweep").status().context("cannot start it")?;
        ensure!(status.success(), "`{} sweep` failed", PACKAGE.1);
        return Ok(Done::Ran);
    }
    let media: Vec<&str> = match &options.medium {
        Some(medium) => vec![medium],
        None => MEDIA.to_vec(),
    };
    for medium in media {
        let mut arguments: Vec<String> = ["powercut", "--medium", medium].map(str::to_owned).into();
        for (name, value) in
            [("--cycles", options.cycles), ("--seed", options.seed), ("--first", options.first)]
        {
            arguments.extend([name.to_owned(), value.to_string()]);
        }
        arguments.extend(["--engine".to_owned(), options.engine.clone()]);
        if options.serve {
            arguments.extend(["--serve".to_owned(), served(true)?]);
        }
        let (record, done) = run::<Cuts>(&program, &arguments)?;
        ensure!(done, "a promise was broken: see above");
        let Some(record) = record else { return Ok(Done::Skipped) };
        if options.save {
            records::keep_cuts(Dated { place: Place::here()?, record })?;
        }
    }
    Ok(Done::Ran)
}

pub(crate) fn faults(options: &FaultOptions) -> Result<Done> {
    let program = build(&options.engine)?;
    let stride = options.stride.to_string();
    let arguments = ["faults", "--stride", &stride, "--engine", &options.engine];
    let (record, done) = run::<Value>(&program, &arguments.map(str::to_owned))?;
    ensure!(done, "a failing disk was not handled as it should be: see above");
    let Some(record) = record else { return Ok(Done::Skipped) };
    if options.save {
        records::keep_faults(Dated { place: Place::here()?, record })?;
    }
    Ok(Done::Ran)
}

/// The harness, in the release profile: there RocksDB is built with the same features as everywhere.
fn build(engine: &str) -> Result<PathBuf> {
    let features: &[&str] = if engine == "rocksdb" { &["rocksdb"] } else { &[] };
    program::build_with(PACKAGE.0, PACKAGE.1, features, true)
}

/// The program whose server is written through.
fn served(release: bool) -> Result<String> {
    Ok(program::groupcommit(release)?.display().to_string())
}

/// The short forms, for `cargo xtask test`: some power cuts on each medium, some faults.
pub(crate) fn short() -> Result<()> {
    let program = program::build(PACKAGE.0, PACKAGE.1, false)?;
    let served = served(false)?;
    let through = ["powercut", "--cycles", "3", "--without-control", "--serve", &served];
    let forms: [&[&str]; 4] = [
        &["powercut", "--cycles", "12", "--medium", "shutdown"],
        &["powercut", "--cycles", "12", "--medium", "device"],
        &through,
        &["faults", "--stride", "7"],
    ];
    for form in forms {
        let status = Command::new(&program).args(form).status().context("cannot start it")?;
        ensure!(status.success(), "`{} {}` failed", PACKAGE.1, form.join(" "));
    }
    Ok(())
}

/// Runs the harness: its record, unless it had to be skipped, and whether it was content.
pub(crate) fn run<T: DeserializeOwned>(
    program: &Path,
    arguments: &[String],
) -> Result<(Option<T>, bool)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("record.json");
    let status = Command::new(program)
        .args(arguments)
        .arg("--record")
        .arg(&path)
        .status()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if !path.exists() {
        return Ok((None, status.success()));
    }
    let record = std::fs::read_to_string(&path)?;
    let record = serde_json::from_str(&record).context("the harness wrote no such record")?;
    Ok((Some(record), status.success()))
}
