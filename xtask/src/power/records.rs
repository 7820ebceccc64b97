//! The records of power cuts, mutants and failing disks in `docs/measured`, and what the
//! documentation makes of them.

use anyhow::Result;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    records::{Dated, grouped, load, save, table},
    root::root,
};

/// Power cuts, by engine and medium.
pub(crate) const CUTS: &str = "docs/measured/powercut.json";
/// Mutants that were caught.
pub(crate) const MUTANTS: &str = "docs/measured/mutants.json";
/// Failing disks.
pub(crate) const FAULTS: &str = "docs/measured/faults.json";

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

/// Runs of one kind, the last of each key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct All<T> {
    runs: Vec<Dated<T>>,
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
    keep(CUTS, run, |run| (run.record.engine.clone(), run.record.medium.clone()))
}

/// Keeps this run in place of the last of its engine.
pub(crate) fn keep_faults(run: Dated<Faults>) -> Result<()> {
    keep(FAULTS, run, |run| run.record.engine.clone())
}

/// Keeps this run in place of the last of its mutant and engine.
pub(crate) fn keep_mutant(run: Dated<Caught>) -> Result<()> {
    keep(MUTANTS, run, |run| (run.record.mutant.clone(), run.record.engine.clone()))
}

/// Puts `run` in place of the one with the same key, or at the end.
fn keep<T: Serialize + DeserializeOwned, K: PartialEq>(
    path: &str,
    run: Dated<T>,
    key: impl Fn(&Dated<T>) -> K,
) -> Result<()> {
    let exists = root().join(path).exists();
    let mut all: All<T> = if exists { load(path)? } else { All { runs: Vec::new() } };
    match all.runs.iter_mut().find(|known| key(known) == key(&run)) {
        Some(known) => *known = run,
        None => all.runs.push(run),
    }
    save(path, &all)
}

/// The table of power cuts.
pub(crate) fn cuts() -> Result<String> {
    let columns = [
        "engine",
        "medium",
        "cycles",
        "acknowledged",
        "lost",
        "holes",
        "partial",
        "untrue reads",
        "other",
        "unknown",
        "writers killed before",
        "writes failed",
        "measured",
    ];
    let all: All<Cuts> = load(CUTS)?;
    let row = |Dated { place, record: run }: &Dated<Cuts>| {
        vec![
            run.engine.clone(),
            run.medium.clone(),
            grouped(run.cycles),
            grouped(run.acknowledged),
            run.lost.to_string(),
            run.holes.to_string(),
            run.partial.to_string(),
            run.untrue_reads.to_string(),
            (run.other + run.false_refusals).to_string(),
            grouped(run.unknown),
            run.kills.to_string(),
            run.failed_writes.to_string(),
            place.text(),
        ]
    };
    Ok(table(&columns, all.runs.iter().map(row)))
}

/// The table of the controls that went with them.
pub(crate) fn controls() -> Result<String> {
    let columns = [
        "engine",
        "medium",
        "rows lost without a flush",
        "cuts in which a plain `fdatasync` under way was untrue",
        "acknowledged during the cut",
        "of them gone",
    ];
    let all: All<Cuts> = load(CUTS)?;
    let row = |Dated { record: run, .. }: &Dated<Cuts>| {
        let control = &run.control;
        vec![
            run.engine.clone(),
            run.medium.clone(),
            format!("{} of {}", control.rows_lost, control.rows),
            format!("{} of {}", control.cuts_untrue, control.cuts),
            grouped(run.late),
            grouped(run.late_lost),
        ]
    };
    Ok(table(&columns, all.runs.iter().map(row)))
}

/// The table of mutants.
pub(crate) fn mutants() -> Result<String> {
    let columns = [
        "mutant",
        "what it does",
        "engine",
        "seeds",
        "of them caught it",
        "in cycle",
        "acknowledged and lost",
        "other",
        "measured",
    ];
    let all: All<Caught> = load(MUTANTS)?;
    let row = |Dated { place, record }: &Dated<Caught>| {
        let Caught { mutant, what, engine, cycles_max, tried } = record;
        let cycle =
            |attempt: &Attempt| attempt.cycle.map_or("none".to_owned(), |it| it.to_string());
        let seed = |attempt: Option<&Attempt>| attempt.map_or(0, |attempt| attempt.seed);
        let caught = tried.iter().filter(|attempt| attempt.cycle.is_some()).count();
        vec![
            format!("`{mutant}`"),
            what.clone(),
            engine.clone(),
            format!("{} to {}", seed(tried.first()), seed(tried.last())),
            format!("{caught} of {}", tried.len()),
            format!(
                "{} of at most {cycles_max}",
                tried.iter().map(cycle).collect::<Vec<_>>().join(", ")
            ),
            grouped(tried.iter().map(|attempt| attempt.lost).sum()),
            grouped(tried.iter().map(|attempt| attempt.other).sum()),
            place.text(),
        ]
    };
    Ok(table(&columns, all.runs.iter().map(row)))
}

/// The tables of failing disks.
pub(crate) fn faults() -> Result<String> {
    let columns = [
        "fault",
        "cases",
        "committed",
        "rejected",
        "not run",
        "unknown",
        "refused afterwards",
        "went on",
        "not as expected",
    ];
    let row = |row: &FaultRow| {
        let counts = [
            row.cases,
            row.committed,
            row.rejected,
            row.not_run,
            row.unknown,
            row.refused_afterwards,
            row.went_on,
            row.violations,
        ];
        [row.what.clone()].into_iter().chain(counts.map(grouped)).collect()
    };
    let all: All<Faults> = load(FAULTS)?;
    let one = |Dated { place, record }: &Dated<Faults>| {
        let every = match record.stride {
            1 => "every place".to_owned(),
            stride => format!("every {stride}th place"),
        };
        let rows = table(&columns, record.rows.iter().map(row));
        format!("Under {}: {every} of each fault; {}.\n\n{rows}", record.engine, place.text())
    };
    Ok(all.runs.iter().map(one).collect::<Vec<_>>().join("\n"))
}
