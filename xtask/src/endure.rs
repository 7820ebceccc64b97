//! `cargo xtask endure`: the long form of `engines/sqlite/tests/endurance`. Eight writers and eight
//! readers under the history checker, and twice the load that the database can take.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use crate::{
    program::counted,
    records::{self, figures_of, filled, load_one, table_of},
};

/// The records of the last run that was saved.
const RECORDS: &str = "docs/measured/endurance.json";

/// Options of `cargo xtask endure`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How long the readers and writers go on
    #[arg(long, value_name = "N", default_value_t = 600)]
    seconds: u64,
    /// How long too much is offered; half as long as `--seconds` when left out
    #[arg(long, value_name = "N")]
    overload_seconds: Option<u64>,
    /// What the random choices follow from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where to put the databases; on the disk that the figures are to be of
    #[arg(long, value_name = "PATH")]
    dir: Option<PathBuf>,
    /// Keep the records in docs/measured, for `cargo xtask docs` to write into the documentation
    #[arg(long)]
    save: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let overload_seconds = options.overload_seconds.unwrap_or(options.seconds / 2);
    // Memory that is allocated on one thread and freed on another spreads over the arenas of the GNU C
    // library, which would hide whether anything else grows.
    let overload = options.test("overload", overload_seconds, &[("MALLOC_ARENA_MAX", "1")])?;
    let overload_in_arenas = options.test("overload", overload_seconds, &[])?;
    let history = options.test("history", options.seconds, &[])?;
    if options.save {
        let record = json!({
            "history": history, "overload": overload, "overload_in_arenas": overload_in_arenas
        });
        records::publish(RECORDS, record)?;
    }
    Ok(())
}

impl Options {
    /// Runs one of the tests in a process of its own, whose memory is then its own.
    fn test(&self, name: &str, seconds: u64, others: &[(&str, &str)]) -> Result<Value> {
        let mut variables = vec![
            ("GROUPCOMMIT_ENDURE_SECONDS", seconds.to_string()),
            ("GROUPCOMMIT_ENDURE_SEED", self.seed.to_string()),
        ];
        variables.extend(others.iter().map(|&(name, value)| (name, value.to_owned())));
        if let Some(dir) = &self.dir {
            variables.push(("TMPDIR", dir.canonicalize()?.display().to_string()));
        }
        let test = ["--release", "--package", "groupcommit-sqlite", "--test", "endurance"];
        let figures = counted(name, &test, &[&format!("{name}::every")], &variables)?;
        println!("{figures:#}");
        Ok(figures)
    }
}

/// The tables of the documentation.
pub(crate) fn tables() -> Result<String> {
    let mut record = load_one(RECORDS)?;
    ensure!(record["history"]["violations"] == 0, "a run with violations was saved");
    let numbers = |value: &Value| -> Vec<f64> {
        value.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    for waits in ["longest_write_ms", "longest_read_ms"] {
        let longest = numbers(&record["history"][waits]).into_iter().fold(0.0, f64::max);
        record["history"][waits] = longest.into();
    }
    for run in ["overload", "overload_in_arenas"] {
        let run = &mut record[run];
        let mib = numbers(&run["resident_mib"]).into_iter().map(|mib| format!("{mib:.1}"));
        run["resident_mib"] = mib.collect::<Vec<_>>().join(", ").into();
        let number = |name: &str| run[name].as_f64().unwrap_or(f64::NAN);
        let slope = format!("{:+.1} KiB per minute", number("resident_slope_kib_per_minute"));
        let factor = number("offered_per_second") / number("capacity_per_second");
        (run["slope"], run["factor"]) = (slope.into(), format!("{factor:.2} ×").into());
    }
    let checked = [
        ("time", "{history/seconds} s"),
        ("writers, readers", "{history/writers}, {history/readers}"),
        ("commits", "{history/commits}"),
        ("writes that failed on purpose", "{history/failed}"),
        ("reads, durable reads", "{history/reads}, {history/durable_reads}"),
        ("reads that saw a commit not resolved yet", "{history/reads_beside_commits}"),
        ("rounds, each checked", "{history/rounds}"),
        ("violations", "{history/violations}"),
        ("flushes, engine commits", "{history/flushes}, {history/engine_commits}"),
        ("longest log at the end of a round, frames", "{history/wal_frames_max}"),
        (
            "longest wait for a write, a read",
            "{history/longest_write_ms} ms, {history/longest_read_ms} ms",
        ),
    ];
    let offered = [
        ("time", "{overload/seconds} s"),
        ("capacity measured before, transactions/s", "{overload/capacity_per_second}"),
        ("offered, transactions/s", "{overload/offered_per_second} ({overload/factor})"),
        ("offered in all", "{overload/offered}"),
        ("committed", "{overload/committed}"),
        ("refused as overloaded", "{overload/refused}"),
        ("not run, past their deadline", "{overload/late}"),
        ("unaccounted for, or with an effect they should not have", "{overload/unaccounted}"),
        (
            "resident memory after each tenth of the time, one arena of the allocator, MiB",
            "{overload/resident_mib}",
        ),
        ("its slope over the second half", "{overload/slope}"),
        (
            "the same with as many arenas as it takes by default, MiB",
            "{overload_in_arenas/resident_mib}",
        ),
        ("its slope over the second half", "{overload_in_arenas/slope}"),
    ];
    let columns = [
        ("submitter", "{name}"),
        ("offered", "{offered}"),
        ("committed", "{committed}"),
        ("refused", "{refused}"),
        ("late", "{late}"),
        ("longest wait, ms", "{longest_wait_ms}"),
        ("longest time without being admitted, ms", "{longest_without_ms}"),
    ];
    Ok(format!(
        "{}. The machine was shared with other work, so times are no measure of speed.\n\n{}\n{}\n{}",
        filled("{place}", &record)?,
        figures_of("readers and writers under the history checker", &record, &checked)?,
        figures_of("overload", &record, &offered)?,
        table_of(&columns, &record["overload"]["submitters"])?
    ))
}
