//! `cargo xtask measure-keyed`: what the key-value engines are asked to show, in release builds; writes
//! `docs/measured` and then the generated parts of the documentation.
//!
//! It compiles RocksDB, which takes many minutes the first time. Each part writes a record of its own,
//! so that parts can be measured apart, or again.

mod records;
pub(crate) mod tables;
mod transcript;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use groupcommit_lab::measurement::Results;

use crate::{docs, keyed::records::WalMedians, libclang, measured, program};

pub(crate) use transcript::{block as transcript, check as check_transcript};

/// What the program is built with.
const FEATURES: [&str; 2] = ["lmdb", "rocksdb"];

/// One part of the measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// LMDB: its own commits, batches by hand, many in flight
    Lmdb,
    /// RocksDB: the same, and without its log
    Rocksdb,
    /// RocksDB: the price of the write-ahead log, the published experiment
    Wal,
    /// One transaction that fails among a thousand, on both; and a transcript
    Probes,
}

/// Options of `cargo xtask measure-keyed`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Which parts to measure; the records of the others stay as they are
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "lmdb,rocksdb,wal,probes"
    )]
    part: Vec<Part>,

    /// How often to measure each setting; medians are recorded
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeat: u64,

    /// How often to run the published experiment
    #[arg(long, value_name = "N", default_value_t = 10)]
    repeat_wal: u64,

    /// End a measurement after so many seconds
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    seconds_limit: f64,

    /// Rows of each setting
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    rows: u64,

    /// Entries of the published experiment
    #[arg(long, value_name = "N", default_value_t = 400_000)]
    rows_wal: u64,

    /// The folder for databases: the disk that is measured [default: the build folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Keep the lab's records and its report of the published experiment in this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(options.repeat >= 3 && options.repeat_wal >= 3, "a median needs 3 repeats at least");
    ensure!(libclang::is_there(), "{}", libclang::MISSING);
    let program = program::bench(&FEATURES, true)?;
    let parent = program.parent().context("a program lies in a folder")?;
    let folder = tempfile::tempdir_in(options.dir.as_deref().unwrap_or(parent))
        .context("cannot create a folder for the databases")?;
    let session = Session { options, program: &program, folder: folder.path() };
    for part in &options.part {
        match part {
            Part::Lmdb => session.write("lmdb", records::LMDB)?,
            Part::Rocksdb => session.write("rocksdb", records::ROCKSDB)?,
            Part::Wal => session.wal()?,
            Part::Probes => session.probes()?,
        }
    }
    docs::write()
}

/// The program with every key-value engine.
fn program() -> Result<PathBuf> {
    program::build_with("groupcommit-cli", "groupcommit", &FEATURES, true)
}

/// What the parts share.
struct Session<'a> {
    options: &'a Options,
    program: &'a Path,
    folder: &'a Path,
}

impl Session<'_> {
    /// Runs an experiment and returns its records.
    fn bench(&self, name: &str, arguments: &[&str]) -> Result<Results> {
        let out = match &self.options.out {
            Some(kept) => kept.join(name),
            None => self.folder.join(name),
        };
        let status = Command::new(self.program)
            .args(arguments)
            .args(["--seconds-limit", &self.options.seconds_limit.to_string()])
            .arg("--dir")
            .arg(self.folder)
            .arg("--out")
            .arg(&out)
            .status()
            .context("cannot start groupcommit-bench")?;
        ensure!(
            status.success(),
            "`groupcommit-bench {}` ended with {status}",
            arguments.join(" ")
        );
        Ok(Results::load(&out)?)
    }

    fn write(&self, engine: &str, record: &str) -> Result<()> {
        let (rows, repeat) = (self.options.rows.to_string(), self.options.repeat.to_string());
        let results = self.bench(
            engine,
            &[
                "write",
                "--engine",
                engine,
                "--value-bytes",
                "100",
                "--batch",
                "1",
                "--in-flight",
                "1,16,64,256,1000",
                "--rows",
                &rows,
                "--repeat",
                &repeat,
            ],
        )?;
        measured::save(record, &measured::Medians::of(results)?)
    }

    fn wal(&self) -> Result<()> {
        let rows = self.options.rows_wal.to_string();
        let repeat = self.options.repeat_wal.to_string();
        let results = self.bench("wal", &["wal", "--rows", &rows, "--repeat", &repeat])?;
        measured::save(records::WAL, &WalMedians::of(results)?)?;
        let Some(out) = &self.options.out else { return Ok(()) };
        let status = Command::new(self.program)
            .arg("report")
            .arg(out.join("wal"))
            .arg("--out")
            .arg(out)
            .status()
            .context("cannot start groupcommit-bench")?;
        ensure!(status.success(), "`groupcommit-bench report` ended with {status}");
        Ok(())
    }

    fn probes(&self) -> Result<()> {
        let xtask = program::build_with("xtask", "xtask", &FEATURES, true)?;
        let probe = |engine: &str| {
            let folder = self.folder.join(format!("rejected-{engine}"));
            fs::create_dir(&folder).context("cannot create a folder")?;
            let output = Command::new(&xtask)
                .args(["probe", "rejected-keyed", engine])
                .arg(&folder)
                .stderr(std::process::Stdio::inherit())
                .output()
                .context("cannot start xtask")?;
            ensure!(output.status.success(), "the probe on {engine} ended with {}", output.status);
            serde_json::from_slice(&output.stdout).context("the record of the probe")
        };
        let rejected = records::Rejections { lmdb: probe("lmdb")?, rocksdb: probe("rocksdb")? };
        measured::save(records::REJECTED, &rejected)?;
        transcript::record(&program()?)
    }
}
