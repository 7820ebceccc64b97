//! `cargo xtask fuzz`: hostile inputs against what reads them, made of the corpus in
//! `cli/fuzz/corpus` by seeded mutation.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::{
    program::cargo,
    records::{self, Dated, grouped},
};

/// The records of the last long run.
const FUZZING: &str = "docs/measured/fuzzing.json";

/// What is fuzzed: a test of `cli/src/ingest/fuzz.rs`, and what it is fed.
const TARGETS: [(&str, &str); 5] = [
    ("csv", "CSV"),
    ("ndjson", "NDJSON"),
    ("sql", "SQL lines"),
    ("numbers", "numbers"),
    ("command_line", "command lines"),
];

/// Options of `cargo xtask fuzz`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Inputs of each sort, in one round
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    inputs: u64,

    /// Number of the first input; the same number is the same input
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// Go on with more rounds until so many seconds have passed
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,

    /// Keep the figures in docs/measured, and write them into the documentation
    #[arg(long)]
    save: bool,
}

/// What a run came to, without a failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Record {
    first_seed: u64,
    seconds: f64,
    targets: Vec<Target>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Target {
    name: String,
    inputs: u64,
    bytes: u64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(options.inputs > 0, "--inputs must be at least 1");
    let began = Instant::now();
    let until = Duration::from_secs(options.seconds.unwrap_or(0));
    let mut targets =
        TARGETS.map(|(_, name)| Target { name: name.to_owned(), ..Target::default() });
    let mut seed = options.seed;
    loop {
        for ((test, _), target) in TARGETS.iter().zip(&mut targets) {
            let bytes = round(test, seed, options.inputs)?;
            target.inputs += options.inputs;
            target.bytes += bytes;
        }
        seed += options.inputs;
        if began.elapsed() >= until {
            break;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    for Target { name, inputs, bytes } in &targets {
        println!("{name}: {} inputs, {} bytes, no failure", grouped(*inputs), grouped(*bytes));
    }
    if options.save {
        let record = Record { first_seed: options.seed, seconds, targets: targets.to_vec() };
        records::publish(FUZZING, record)?;
    }
    Ok(())
}

/// Gives one target its inputs, and returns how many bytes these were.
fn round(target: &str, seed: u64, inputs: u64) -> Result<u64> {
    let output = cargo()
        .args(["test", "--quiet", "--package", "groupcommit-cli"])
        .args(["--bin", "groupcommit", "--", "--exact", "--nocapture"])
        .arg(format!("ingest::fuzz::{target}"))
        .env("GROUPCOMMIT_FUZZ_SEED", seed.to_string())
        .env("GROUPCOMMIT_FUZZ_INPUTS", inputs.to_string())
        .output()
        .context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "fuzzing {target} found a failure:\n{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // `fuzz: FOLDER N inputs, N bytes`
    let line = text.lines().find_map(|line| line.split_once("fuzz: "));
    let bytes = line.and_then(|(_, line)| line.rsplit(' ').nth(1)?.parse().ok());
    bytes.with_context(|| format!("{target} did not run:\n{text}"))
}

/// The figures of the last recorded run, for the documentation.
pub(crate) fn table() -> Result<String> {
    let Dated { place, record } = records::load::<Dated<Record>>(FUZZING)?;
    let row = |Target { name, inputs, bytes }: &Target| {
        vec![name.clone(), grouped(*inputs), grouped(*bytes), "0".to_owned()]
    };
    let table =
        records::table(&["input", "inputs", "bytes", "failures"], record.targets.iter().map(row));
    Ok(format!("{table}\nInputs from number {}; {}.\n", record.first_seed, place.text()))
}
