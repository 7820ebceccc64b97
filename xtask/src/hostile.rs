//! `cargo xtask hostile`: the long form of the tests of hostile transactions, from many seeds and
//! with a transaction that writes a gibibyte; with `--wide`, of random transactions over all of SQLite.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::{
    program::cargo,
    records::{self, Dated, grouped},
};

/// One of the tests: its name, which also begins the line in which it says what it did.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Test {
    Hostile,
    Wide,
}

impl Test {
    fn name(self) -> &'static str {
        match self {
            Self::Hostile => "hostile",
            Self::Wide => "wide",
        }
    }

    /// The records of the last run that was saved.
    fn records(self) -> String {
        format!("docs/measured/{}.json", self.name())
    }
}

/// Options of `cargo xtask hostile`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many seeds; each makes one case of up to twenty transactions
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    first: u64,
    /// How much the giant transactions write, in mebibytes
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    giant_mib: u64,
    /// Run transactions over all of SQLite instead: full text, R-Trees, triggers, sequences, schema
    /// changes; for speed with `TMPDIR` in memory
    #[arg(long)]
    wide: bool,
    /// Write the records to docs/measured, and the documentation from them
    #[arg(long)]
    save: bool,
}

/// What a run came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Hostile {
    first_seed: u64,
    seeds: u64,
    giant_mib: u64,
    seconds: f64,
    #[serde(flatten)]
    counts: Counts,
}

/// What the test counts.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Counts {
    transactions: u64,
    committed: u64,
    failed: u64,
    refused: u64,
    panicked: u64,
    not_run: u64,
    unseen: u64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let test = if options.wide { Test::Wide } else { Test::Hostile };
    let (name, giants) = match test {
        Test::Hostile => ("hostile", &["giants"][..]),
        Test::Wide => ("wide", &[][..]),
    };
    let began = Instant::now();
    let output = cargo()
        .args(["test", "--release", "--package", "groupcommit-sqlite", "--test", "one_by_one"])
        .args(["--", "--nocapture", "--test-threads", "1", name])
        .args(giants)
        .env(format!("GROUPCOMMIT_{}_SEEDS", name.to_uppercase()), options.seeds.to_string())
        .env(format!("GROUPCOMMIT_{}_SEED", name.to_uppercase()), options.first.to_string())
        .env("GROUPCOMMIT_GIANT_MIB", options.giant_mib.to_string())
        .env("RUST_BACKTRACE", "0")
        .output()
        .context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    }
    ensure!(output.status.success(), "{name} transactions had an effect on others:\n{said}");
    let begins = format!("{name}: ");
    let counts = said.lines().find_map(|line| Some(line.split_once(&begins)?.1));
    let counts = counts.context("the test did not say what it counted")?;
    println!("{counts} in {:.0} s", began.elapsed().as_secs_f64());
    if options.save {
        let record = Hostile {
            first_seed: options.first,
            seeds: options.seeds,
            giant_mib: options.giant_mib,
            seconds: began.elapsed().as_secs_f64(),
            counts: serde_json::from_str(counts).context("what the test counted")?,
        };
        records::publish(&test.records(), record)?;
    }
    Ok(())
}

/// The table of the documentation.
pub(crate) fn table(test: Test) -> Result<String> {
    let Dated { place, record } = records::load::<Dated<Hostile>>(&test.records())?;
    let Hostile { first_seed, seeds, giant_mib, seconds, counts } = record;
    let mut rows = vec![
        ("seeds", format!("{} to {}", grouped(first_seed), grouped(first_seed + seeds - 1))),
        ("transactions", grouped(counts.transactions)),
        ("committed, equal to one by one", grouped(counts.committed)),
        ("failed with their own error, the same as one by one", grouped(counts.failed)),
        ("completed and then refused, as one by one", grouped(counts.refused)),
        ("differences", "0".to_owned()),
        ("time", format!("{seconds:.0} s")),
    ];
    if let Test::Hostile = test {
        rows.extend([
            ("panicked", grouped(counts.panicked)),
            ("not run (deadline, cancelled), without effect", grouped(counts.not_run)),
            ("tickets dropped", grouped(counts.unseen)),
            ("largest transaction", format!("{} MiB", grouped(giant_mib))),
        ]);
    }
    let what = format!("{} transactions", test.name());
    Ok(format!("{}.\n\n{}", place.text(), records::figures(&what, &rows)))
}
