//! `cargo xtask experiments`: the lab's experiments on this machine, and what came out of them, in
//! short, in `docs/measured/experiments.md`.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{program, root::root};

/// Where the findings go.
const SUMMARY: &str = "docs/measured/experiments.md";

/// Each a run of `groupcommit-bench`, and so a chapter. The delays show a slower disk.
const RUNS: [&[&str]; 4] = [
    &[
        "write",
        "--threads=1,1000",
        "--conditions=default,wal,groupcommit-blocking,groupcommit-async",
        "--flush-delay=0,1ms",
    ],
    &["mixed", "--rows=200000", "--operations=400000"],
    &["threads"],
    &["load", "--share=0.5,0.9", "--flush-delay=0,1ms"],
];

/// Options of `cargo xtask experiments`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How often to measure each setting; medians are shown
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeat: u64,

    /// How long each measurement lasts, in seconds
    #[arg(long, value_name = "S", default_value_t = 0.5)]
    seconds_limit: f64,

    /// The folder for databases, which are removed afterwards: the disk that is measured
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,

    /// The folder for records and report, which are kept
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(options.repeat >= 3, "a median needs --repeat 3 at least");
    let program = program::bench(&[], true)?;
    let mut folders = Vec::new();
    for run in RUNS {
        let out = options.out.join(run[0]);
        let status = Command::new(&program)
            .args(run)
            .args(["--repeat", &options.repeat.to_string()])
            .args(["--seconds-limit", &options.seconds_limit.to_string()])
            .arg("--dir")
            .arg(&options.dir)
            .arg("--out")
            .arg(&out)
            .status()
            .context("cannot start groupcommit-bench")?;
        ensure!(status.success(), "`groupcommit-bench {}` ended with {status}", run.join(" "));
        folders.push(out);
    }
    let status = Command::new(&program)
        .arg("report")
        .args(&folders)
        .arg("--out")
        .arg(&options.out)
        .status()
        .context("cannot start groupcommit-bench")?;
    ensure!(status.success(), "`groupcommit-bench report` ended with {status}");
    let summary = options.out.join("summary.md");
    fs::copy(&summary, root().join(SUMMARY))
        .with_context(|| format!("cannot copy {} to {SUMMARY}", summary.display()))?;
    Ok(())
}
