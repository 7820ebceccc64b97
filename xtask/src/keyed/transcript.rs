//! The transcript of records going into RocksDB: recorded by `cargo xtask measure-keyed`, and compared,
//! figures apart, with what the program says now, where RocksDB is compiled.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{
    docs::transcript::without_figures,
    keyed,
    root::{read, root},
};

/// Where it is kept.
const FILE: &str = "docs/measured/keyed-command.txt";

const TARGET: &str = "rocksdb:store";

const ARGUMENTS: [&str; 3] = ["--key", "tailnum", "data/flights-sample.csv"];

fn command_line() -> String {
    format!("groupcommit ingest {TARGET} {}", ARGUMENTS.join(" "))
}

/// Runs the command on a new database and returns all that it writes.
fn run(program: &Path) -> Result<String> {
    let folder = tempfile::tempdir().context("cannot create a folder")?;
    let output = Command::new(program)
        .arg("ingest")
        .arg(format!("rocksdb:{}", folder.path().join("store").display()))
        .args(ARGUMENTS)
        .current_dir(root())
        .output()
        .context("cannot start groupcommit")?;
    ensure!(output.status.success(), "`{}` ended with {}", command_line(), output.status);
    let said = [output.stderr, output.stdout].concat();
    String::from_utf8(said).context("groupcommit wrote no text")
}

/// Records the transcript, with the figures of this machine.
pub(super) fn record(program: &Path) -> Result<()> {
    fs::write(root().join(FILE), run(program)?).context("cannot write the transcript")
}

/// The transcript as the README shows it.
pub(crate) fn block() -> Result<String> {
    Ok(format!("```console\n$ {}\n{}```\n", command_line(), read(FILE)?))
}

/// Compares what is recorded with what the program says now, figures apart.
pub(crate) fn check() -> Result<()> {
    let now = without_figures(&run(&keyed::program()?)?);
    let recorded = without_figures(&read(FILE)?);
    ensure!(
        recorded == now,
        "{FILE}: the program now says something else; run `cargo xtask measure-keyed`:\n{now}"
    );
    Ok(())
}
