//! `cargo xtask endure`: what only shows after minutes. Eight writers and eight readers under the
//! history checker, and twice the load that the database can take.

mod history;
mod overload;

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use groupcommit_lab::report::number;
use serde::{Deserialize, Serialize};

pub(crate) use self::{history::HistoryRun, overload::OverloadRun};
use crate::records::{self, Dated, grouped};

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
    /// Only offer too much, and print the record; what the command starts in a process of its own
    #[arg(long, hide = true)]
    overload_only: bool,
    /// What the random choices follow from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where to put the databases; on the disk that the figures are to be of
    #[arg(long, value_name = "PATH")]
    dir: Option<PathBuf>,
    /// Write the records to docs/measured, and the documentation from them
    #[arg(long)]
    save: bool,
}

/// What a run came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Endurance {
    history: HistoryRun,
    /// With one arena of the allocator.
    overload: OverloadRun,
    /// With as many as it takes by default.
    overload_in_arenas: Option<OverloadRun>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let program = std::env::current_exe().context("where is xtask itself?")?;
    let dir = options.dir.as_deref().or(program.parent()).unwrap_or(Path::new("."));
    let folder = tempfile::tempdir_in(dir)
        .with_context(|| format!("cannot create a folder in {}", dir.display()))?;
    let overload_seconds = options.overload_seconds.unwrap_or(options.seconds / 2);
    if options.overload_only {
        let load = overload::Load::of(Duration::from_secs(overload_seconds));
        println!("{}", serde_json::to_string(&overload::run(folder.path(), &load)?)?);
        return Ok(());
    }
    let overload = overload_apart(&program, folder.path(), overload_seconds, Some(1))?;
    println!("{}", serde_json::to_string_pretty(&overload)?);
    let overload_in_arenas = overload_apart(&program, folder.path(), overload_seconds, None)?;
    println!("{}", serde_json::to_string_pretty(&overload_in_arenas)?);
    let load = history::load(Duration::from_secs(options.seconds), 5_000, options.seed);
    let history = history::run(folder.path(), &load)?;
    println!("{}", serde_json::to_string_pretty(&history)?);
    if options.save {
        let overload_in_arenas = Some(overload_in_arenas);
        records::publish(RECORDS, Endurance { history, overload, overload_in_arenas })?;
    }
    Ok(())
}

/// Overload in a process of its own, whose memory is then its own; with so many arenas of the GNU C
/// library, or as many as it takes by default. Memory that is allocated on one thread and freed on
/// another spreads over them, which would hide whether anything else grows.
fn overload_apart(
    program: &Path,
    folder: &Path,
    seconds: u64,
    arenas: Option<u32>,
) -> Result<OverloadRun> {
    let folder = tempfile::tempdir_in(folder).context("cannot create a folder")?;
    let mut command = Command::new(program);
    command
        .args(["endure", "--overload-only", "--overload-seconds", &seconds.to_string(), "--dir"])
        .arg(folder.path())
        .stderr(Stdio::inherit());
    match arenas {
        Some(arenas) => command.env("MALLOC_ARENA_MAX", arenas.to_string()),
        None => command.env_remove("MALLOC_ARENA_MAX"),
    };
    let output = command.output().context("cannot start xtask")?;
    ensure!(output.status.success(), "the overload ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("the record of the overload")
}

/// The tables of the documentation.
pub(crate) fn tables() -> Result<String> {
    let Dated { place, record } = records::load::<Dated<Endurance>>(RECORDS)?;
    let Endurance { history, overload, overload_in_arenas } = record;
    ensure!(history.violations == 0, "a run with violations was saved");
    let checked = [
        ("time", format!("{:.0} s", history.seconds)),
        ("writers, readers", format!("{}, {}", history.writers, history.readers)),
        ("commits", grouped(history.commits)),
        ("writes that failed on purpose", grouped(history.failed)),
        ("reads, durable reads", pair(history.reads, history.durable_reads)),
        ("reads that saw a commit not resolved yet", grouped(history.reads_beside_commits)),
        ("rounds, each checked", grouped(history.rounds)),
        ("violations", history.violations.to_string()),
        ("flushes, engine commits", pair(history.flushes, history.engine_commits)),
        ("longest log at the end of a round, frames", grouped(history.wal_frames_max)),
        (
            "longest wait for a write, a read",
            waits(&history.longest_write_ms, &history.longest_read_ms),
        ),
    ];
    let factor = overload.offered_per_second / overload.capacity_per_second;
    let mut offered = vec![
        ("time", format!("{:.0} s", overload.seconds)),
        ("capacity measured before, transactions/s", number::grouped(overload.capacity_per_second)),
        (
            "offered, transactions/s",
            format!("{} ({factor:.2} ×)", number::grouped(overload.offered_per_second)),
        ),
        ("offered in all", grouped(overload.offered)),
        ("committed", grouped(overload.committed)),
        ("refused as overloaded", grouped(overload.refused)),
        ("not run, past their deadline", grouped(overload.late)),
        (
            "unaccounted for, or with an effect they should not have",
            overload.unaccounted.to_string(),
        ),
    ];
    for (resident, run) in [
        (
            "resident memory after each tenth of the time, one arena of the allocator, MiB",
            Some(&overload),
        ),
        ("the same with as many arenas as it takes by default, MiB", overload_in_arenas.as_ref()),
    ] {
        let Some(run) = run else { continue };
        let mib: Vec<_> = run.resident_mib.iter().map(|mib| format!("{mib:.1}")).collect();
        let slope = format!("{:+.1} KiB per minute", run.resident_slope_kib_per_minute);
        offered.extend([(resident, mib.join(", ")), ("its slope over the second half", slope)]);
    }
    let columns = [
        "submitter",
        "offered",
        "committed",
        "refused",
        "late",
        "longest wait, ms",
        "longest time without being admitted, ms",
    ];
    let submitters = overload.submitters.iter().map(|one| {
        vec![
            one.name.clone(),
            grouped(one.offered),
            grouped(one.committed),
            grouped(one.refused),
            grouped(one.late),
            format!("{:.0}", one.longest_wait_ms),
            format!("{:.0}", one.longest_without_ms),
        ]
    });
    Ok(format!(
        "{}. The machine was shared with other work, so times are no measure of speed.\n\n{}\n{}\n{}",
        place.text(),
        records::figures("readers and writers under the history checker", &checked),
        records::figures("overload", &offered),
        records::table(&columns, submitters)
    ))
}

fn pair(first: u64, second: u64) -> String {
    format!("{}, {}", grouped(first), grouped(second))
}

fn waits(first: &[f64], second: &[f64]) -> String {
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    format!("{:.0} ms, {:.0} ms", most(first), most(second))
}
