//! The records of power cuts, mutants and failing disks in `docs/measured`, and what the
//! documentation makes of them.

use std::{fmt::Write as _, process::Command};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{
    measured::{grouped, load, save},
    root::root,
};

/// Power cuts, by engine and medium.
pub(crate) const CUTS: &str = "docs/measured/powercut.json";
/// Mutants that were caught.
pub(crate) const MUTANTS: &str = "docs/measured/mutants.json";
/// Failing disks.
pub(crate) const FAULTS: &str = "docs/measured/faults.json";

/// A record, and where and of what it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Dated<T> {
    #[serde(flatten)]
    pub(crate) place: Place,
    #[serde(flatten)]
    pub(crate) record: T,
}

/// Where, when and of what a record was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Place {
    date: String,
    git_commit: String,
    git_dirty: bool,
    kernel: String,
}

impl Place {
    pub(crate) fn here() -> Result<Self> {
        let said = |program: &str, arguments: &[&str]| -> Result<String> {
            let output = Command::new(program)
                .args(arguments)
                .current_dir(root())
                .output()
                .with_context(|| format!("cannot start {program}"))?;
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let kernel = nix::sys::utsname::uname().context("uname")?;
        // What the harness itself has just kept is no change of the sources.
        let changes = ["status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs"];
        Ok(Self {
            date: said("date", &["-u", "+%F"])?,
            git_commit: said("git", &["rev-parse", "--short=12", "HEAD"])?,
            git_dirty: !said("git", &changes)?.is_empty(),
            kernel: format!("Linux {}", kernel.release().to_string_lossy()),
        })
    }

    fn text(&self) -> String {
        let dirty = if self.git_dirty { " with local changes" } else { "" };
        format!("{}, commit {}{dirty}, {}", self.date, self.git_commit, self.kernel)
    }
}

/// What the harness writes of power cuts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cuts {
    pub(crate) engine: String,
    pub(crate) medium: String,
    seed: u64,
    pub(crate) cycles: u64,
    databases: u64,
    acknowledged: u64,
    unknown: u64,
    kills: u64,
    failed_writes: u64,
    late: u64,
    late_lost: u64,
    control: Control,
    pub(crate) lost: u64,
    holes: u64,
    partial: u64,
    false_refusals: u64,
    untrue_reads: u64,
    other: u64,
    seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Control {
    rows: u64,
    rows_lost: u64,
    cuts: u64,
    cuts_untrue: u64,
}

impl Cuts {
    pub(crate) fn violations(&self) -> u64 {
        self.lost + self.holes + self.partial + self.false_refusals + self.untrue_reads + self.other
    }
}

/// Power cuts of all engines and media, the last of each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct AllCuts {
    runs: Vec<Dated<Cuts>>,
}

/// Mutants, the last run of each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct AllMutants {
    runs: Vec<Dated<Caught>>,
}

/// A mutant that was caught.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Caught {
    pub(crate) mutant: String,
    pub(crate) what: String,
    pub(crate) engine: String,
    pub(crate) cycles_max: u64,
    pub(crate) tried: Vec<Attempt>,
}

/// The cycles of one seed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) seed: u64,
    /// In which the mutant was caught, counted from 1; `None` when it was not.
    pub(crate) cycle: Option<u64>,
    pub(crate) lost: u64,
    /// Violations of other kinds.
    pub(crate) other: u64,
}

/// What the harness writes of failing disks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Faults {
    engine: String,
    stride: u64,
    rows: Vec<FaultRow>,
    seconds: f64,
}

/// Failing disks under all engines, the last run of each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct AllFaults {
    runs: Vec<Dated<Faults>>,
}

/// One sort of fault, at every place where it can happen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct FaultRow {
    what: String,
    /// Places tried in which the fault was reached.
    cases: u64,
    committed: u64,
    rejected: u64,
    not_run: u64,
    unknown: u64,
    /// Cases in which the database refused everything afterwards.
    refused_afterwards: u64,
    /// Cases in which it went on without being opened again.
    went_on: u64,
    violations: u64,
}

/// Keeps this run in place of the last of its engine and medium.
pub(crate) fn keep_cuts(run: Dated<Cuts>) -> Result<()> {
    let mut all: AllCuts =
        if root().join(CUTS).exists() { load(CUTS)? } else { AllCuts::default() };
    put(&mut all.runs, run, |run| (run.record.engine.clone(), run.record.medium.clone()));
    save(CUTS, &all)
}

/// Keeps this run in place of the last of its engine.
pub(crate) fn keep_faults(run: Dated<Faults>) -> Result<()> {
    let mut all: AllFaults =
        if root().join(FAULTS).exists() { load(FAULTS)? } else { AllFaults::default() };
    put(&mut all.runs, run, |run| run.record.engine.clone());
    save(FAULTS, &all)
}

/// Keeps this run in place of the last of its mutant and engine.
pub(crate) fn keep_mutant(run: Dated<Caught>) -> Result<()> {
    let mut all: AllMutants =
        if root().join(MUTANTS).exists() { load(MUTANTS)? } else { AllMutants::default() };
    put(&mut all.runs, run, |run| (run.record.mutant.clone(), run.record.engine.clone()));
    save(MUTANTS, &all)
}

/// Puts `run` in place of the one with the same key, or at the end.
fn put<T, K: PartialEq>(runs: &mut Vec<T>, run: T, key: impl Fn(&T) -> K) {
    match runs.iter_mut().find(|known| key(known) == key(&run)) {
        Some(known) => *known = run,
        None => runs.push(run),
    }
}

/// The table of power cuts.
pub(crate) fn cuts() -> Result<String> {
    let all: AllCuts = load(CUTS)?;
    let mut table = String::from(
        "| engine | medium | cycles | acknowledged | lost | holes | partial | untrue reads | other | \
         unknown | writers killed before | writes failed | measured |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for Dated { place, record: run } in &all.runs {
        writeln!(
            table,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            run.engine,
            run.medium,
            grouped(run.cycles),
            grouped(run.acknowledged),
            run.lost,
            run.holes,
            run.partial,
            run.untrue_reads,
            run.other + run.false_refusals,
            grouped(run.unknown),
            run.kills,
            run.failed_writes,
            place.text(),
        )?;
    }
    Ok(table)
}

/// The table of the controls that went with them.
pub(crate) fn controls() -> Result<String> {
    let all: AllCuts = load(CUTS)?;
    let mut table = String::from(
        "| engine | medium | rows lost without a flush | cuts in which a plain `fdatasync` under way \
         was untrue | acknowledged during the cut | of them gone |\n|---|---|---|---|---|---|\n",
    );
    for Dated { record: run, .. } in &all.runs {
        let control = &run.control;
        writeln!(
            table,
            "| {} | {} | {} of {} | {} of {} | {} | {} |",
            run.engine,
            run.medium,
            control.rows_lost,
            control.rows,
            control.cuts_untrue,
            control.cuts,
            grouped(run.late),
            grouped(run.late_lost),
        )?;
    }
    Ok(table)
}

/// The table of mutants.
pub(crate) fn mutants() -> Result<String> {
    let all: AllMutants = load(MUTANTS)?;
    let mut table = String::from(
        "| mutant | what it does | engine | seeds | of them caught it | in cycle | acknowledged and \
         lost | other | measured |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for Dated { place, record } in &all.runs {
        let Caught { mutant, what, engine, cycles_max, tried } = record;
        let cycles: Vec<_> = tried
            .iter()
            .map(|attempt| attempt.cycle.map_or("none".to_owned(), |cycle| cycle.to_string()))
            .collect();
        writeln!(
            table,
            "| `{mutant}` | {what} | {engine} | {} to {} | {} of {} | {} of at most {cycles_max} | {} | {} \
             | {} |",
            tried.first().map_or(0, |attempt| attempt.seed),
            tried.last().map_or(0, |attempt| attempt.seed),
            tried.iter().filter(|attempt| attempt.cycle.is_some()).count(),
            tried.len(),
            cycles.join(", "),
            grouped(tried.iter().map(|attempt| attempt.lost).sum()),
            grouped(tried.iter().map(|attempt| attempt.other).sum()),
            place.text(),
        )?;
    }
    Ok(table)
}

/// The tables of failing disks.
pub(crate) fn faults() -> Result<String> {
    let all: AllFaults = load(FAULTS)?;
    let mut tables = String::new();
    for Dated { place, record } in &all.runs {
        let every = match record.stride {
            1 => "every place".to_owned(),
            stride => format!("every {stride}th place"),
        };
        writeln!(
            tables,
            "Under {}: {every} of each fault; {}.\n\n\
             | fault | cases | committed | rejected | not run | unknown | refused afterwards | went on \
             | not as expected |\n|---|---|---|---|---|---|---|---|---|",
            record.engine,
            place.text(),
        )?;
        for row in &record.rows {
            writeln!(
                tables,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                row.what,
                grouped(row.cases),
                grouped(row.committed),
                grouped(row.rejected),
                grouped(row.not_run),
                grouped(row.unknown),
                grouped(row.refused_afterwards),
                grouped(row.went_on),
                row.violations,
            )?;
        }
        tables.push('\n');
    }
    tables.truncate(tables.trim_end().len());
    tables.push('\n');
    Ok(tables)
}
