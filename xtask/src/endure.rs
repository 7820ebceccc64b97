//! `cargo xtask endure`: what only shows after minutes. Eight writers and eight readers under the
//! history checker, and twice the load that the database can take.

mod history;
mod overload;

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use groupcommit_lab::environment::Environment;
use serde::{Deserialize, Serialize};

pub(crate) use self::{history::HistoryRun, overload::OverloadRun};
use crate::measured::{self, Place, grouped};

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
    environment: Place,
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
    let command = format!("cargo xtask endure --seconds {}", options.seconds);
    let environment = Environment::record(folder.path(), command, None)?;
    let overload = overload_apart(&program, folder.path(), overload_seconds, Some(1))?;
    println!("{}", serde_json::to_string_pretty(&overload)?);
    let overload_in_arenas = overload_apart(&program, folder.path(), overload_seconds, None)?;
    println!("{}", serde_json::to_string_pretty(&overload_in_arenas)?);
    let load = history::load(Duration::from_secs(options.seconds), 5_000, options.seed);
    let history = history::run(folder.path(), &load)?;
    println!("{}", serde_json::to_string_pretty(&history)?);
    if options.save {
        let environment = environment.into();
        let records = Endurance {
            environment,
            history,
            overload,
            overload_in_arenas: Some(overload_in_arenas),
        };
        measured::save(RECORDS, &records)?;
        crate::docs::write()?;
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
    let Endurance { environment, history, overload, overload_in_arenas } = measured::load(RECORDS)?;
    ensure!(history.violations == 0, "a run with violations was saved");
    let mut text = format!(
        "{}The machine was shared with other work: the figures of time are no measure of speed.\n\n",
        environment.sentence()
    );
    text.push_str("| readers and writers under the history checker | |\n|---|---|\n");
    let mut row = |what: &str, value: String| writeln!(text, "| {what} | {value} |");
    row("time", format!("{:.0} s", history.seconds))?;
    row("writers, readers", format!("{}, {}", history.writers, history.readers))?;
    row("commits", grouped(history.commits))?;
    row("writes that failed on purpose", grouped(history.failed))?;
    row("reads, durable reads", pair(history.reads, history.durable_reads))?;
    row("reads that saw a commit not resolved yet", grouped(history.reads_beside_commits))?;
    row("rounds, each checked", grouped(history.rounds))?;
    row("violations", history.violations.to_string())?;
    row("flushes, engine commits", pair(history.flushes, history.engine_commits))?;
    row("log at the end of a round, at most, frames", grouped(history.wal_frames_max))?;
    row(
        "longest wait for a write, a read",
        waits(&history.longest_write_ms, &history.longest_read_ms),
    )?;
    text.push_str("\n| overload | |\n|---|---|\n");
    let mut row = |what: &str, value: String| writeln!(text, "| {what} | {value} |");
    let factor = overload.offered_per_second / overload.capacity_per_second;
    row("time", format!("{:.0} s", overload.seconds))?;
    row(
        "capacity measured before, transactions/s",
        measured::grouped_f(overload.capacity_per_second),
    )?;
    row(
        "offered, transactions/s",
        format!("{} ({factor:.2} ×)", measured::grouped_f(overload.offered_per_second)),
    )?;
    row("offered in all", grouped(overload.offered))?;
    row("committed", grouped(overload.committed))?;
    row("refused as overloaded", grouped(overload.refused))?;
    row("not run, past their deadline", grouped(overload.late))?;
    row(
        "unaccounted for, or with an effect they should not have",
        overload.unaccounted.to_string(),
    )?;
    let in_arenas =
        overload_in_arenas.iter().map(|run| ("the arenas that it takes by default", run));
    for (arenas, run) in [("one arena", &overload)].into_iter().chain(in_arenas) {
        let resident: Vec<_> = run.resident_mib.iter().map(|mib| format!("{mib:.1}")).collect();
        row(
            &format!("resident memory after each tenth of the time, allocator with {arenas}, MiB"),
            resident.join(", "),
        )?;
        row(
            "its slope over the second half",
            format!("{:+.1} KiB a minute", run.resident_slope_kib_per_minute),
        )?;
    }
    text.push_str("\n| submitter | offered | committed | refused | late | longest wait, ms | longest time without being admitted, ms |\n|---|---|---|---|---|---|---|\n");
    for one in &overload.submitters {
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {:.0} | {:.0} |",
            one.name,
            grouped(one.offered),
            grouped(one.committed),
            grouped(one.refused),
            grouped(one.late),
            one.longest_wait_ms,
            one.longest_without_ms,
        )?;
    }
    Ok(text)
}

fn pair(first: u64, second: u64) -> String {
    format!("{}, {}", grouped(first), grouped(second))
}

fn waits(first: &[f64], second: &[f64]) -> String {
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    format!("{:.0} ms, {:.0} ms", most(first), most(second))
}
