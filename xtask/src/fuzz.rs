//! `cargo xtask fuzz`: hostile inputs against what reads them, made of the corpus in
//! `cli/fuzz/corpus` by seeded mutation.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use crate::{
    program::counted,
    records::{self, filled, load_one, table_of},
};

/// The records of the last long run.
const RECORDS: &str = "docs/measured/fuzzing.json";

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

    /// Keep the figures in docs/measured, for `cargo xtask docs` to write into the documentation
    #[arg(long)]
    save: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(options.inputs > 0, "--inputs must be at least 1");
    let began = Instant::now();
    let until = Duration::from_secs(options.seconds.unwrap_or(0));
    let mut targets = TARGETS.map(|(_, name)| json!({"name": name, "inputs": 0, "bytes": 0}));
    let mut seed = options.seed;
    loop {
        for ((test, _), target) in TARGETS.iter().zip(&mut targets) {
            let fed = round(test, seed, options.inputs)?;
            for count in ["inputs", "bytes"] {
                let number = |value: &Value| value[count].as_u64().unwrap_or_default();
                target[count] = (number(target) + number(&fed)).into();
            }
        }
        seed += options.inputs;
        if began.elapsed() >= until {
            break;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    for target in &targets {
        println!("{}", filled("{name}: {inputs} inputs, {bytes} bytes, no failure", target)?);
    }
    if options.save {
        let record = json!({"first_seed": options.seed, "seconds": seconds, "targets": targets});
        records::publish(RECORDS, record)?;
    }
    Ok(())
}

/// Gives one target its inputs, and returns how many these were, and how many bytes.
fn round(target: &str, seed: u64, inputs: u64) -> Result<Value> {
    let test = ["--quiet", "--package", "groupcommit-cli", "--bin", "groupcommit"];
    let variables = [
        ("GROUPCOMMIT_FUZZ_SEED", seed.to_string()),
        ("GROUPCOMMIT_FUZZ_INPUTS", inputs.to_string()),
    ];
    counted("fuzz", &test, &["--exact", &format!("ingest::fuzz::{target}")], &variables)
}

/// The figures of the last recorded run, for the documentation.
pub(crate) fn table() -> Result<String> {
    let record = load_one(RECORDS)?;
    let columns =
        [("input", "{name}"), ("inputs", "{inputs}"), ("bytes", "{bytes}"), ("failures", "0")];
    let table = table_of(&columns, &record["targets"])?;
    Ok(format!("{table}\n{}\n", filled("Inputs from number {first_seed}; {place}.", &record)?))
}
