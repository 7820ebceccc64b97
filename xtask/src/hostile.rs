//! `cargo xtask hostile`: the long form of the tests of hostile transactions, from many seeds and
//! with a transaction that writes a gibibyte; with `--wide`, of random transactions over all of SQLite.

use std::time::Instant;

use anyhow::Result;
use clap::Args;

use crate::{
    program::counted,
    records::{self, figures_of, filled, load_one},
};

/// The tests' names: of hostile transactions, and of those over all of SQLite.
const HOSTILE: &str = "hostile";
const WIDE: &str = "wide";

/// The records of the last run of a test that was saved.
fn records_of(name: &str) -> String {
    format!("docs/measured/{name}.json")
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
    /// Keep the records in docs/measured, for `cargo xtask docs` to write into the documentation
    #[arg(long)]
    save: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let &Options { seeds, first, giant_mib, wide, save } = options;
    let began = Instant::now();
    let name = if wide { WIDE } else { HOSTILE };
    let variables = [
        (&*format!("GROUPCOMMIT_{}_SEEDS", name.to_uppercase()), seeds.to_string()),
        (&*format!("GROUPCOMMIT_{}_SEED", name.to_uppercase()), first.to_string()),
        ("GROUPCOMMIT_GIANT_MIB", giant_mib.to_string()),
        ("RUST_BACKTRACE", "0".to_owned()),
    ];
    let test = ["--release", "--package", "groupcommit-sqlite", "--test", "one_by_one"];
    let tests = if wide { &["wide"][..] } else { &["hostile", "giants"] };
    let mut record = counted(name, &test, tests, &variables)?;
    let seconds = began.elapsed().as_secs_f64();
    println!("{record} in {seconds:.0} s");
    if save {
        (record["first_seed"], record["seeds"]) = (first.into(), seeds.into());
        (record["giant_mib"], record["seconds"]) = (giant_mib.into(), seconds.into());
        records::publish(&records_of(name), record)?;
    }
    Ok(())
}

/// The table of the documentation: of the `hostile` transactions, or the `wide` ones.
pub(crate) fn table(name: &str) -> Result<String> {
    let mut record = load_one(&records_of(name))?;
    let number = |name: &str| record[name].as_u64().unwrap_or_default();
    record["last_seed"] = (number("first_seed") + number("seeds")).saturating_sub(1).into();
    let mut rows = vec![
        ("seeds", "{first_seed} to {last_seed}"),
        ("transactions", "{transactions}"),
        ("committed, equal to one by one", "{committed}"),
        ("failed with their own error, the same as one by one", "{failed}"),
        ("completed and then refused, as one by one", "{refused}"),
        ("differences", "0"),
        ("time", "{seconds} s"),
    ];
    if name == HOSTILE {
        rows.extend([
            ("panicked", "{panicked}"),
            ("not run (deadline, cancelled), without effect", "{not_run}"),
            ("tickets dropped", "{unseen}"),
            ("largest transaction", "{giant_mib} MiB"),
        ]);
    }
    let table = figures_of(&format!("{name} transactions"), &record, &rows)?;
    Ok(format!("{}.\n\n{table}", filled("{place}", &record)?))
}
