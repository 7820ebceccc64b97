//! The records of power cuts, mutants and failing disks in `docs/measured`, and what the
//! documentation makes of them.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::records::{Dated, filled, keep, runs, table_of};

/// Power cuts, by engine and medium.
const CUTS: &str = "docs/measured/powercut.json";
/// Mutants that were caught.
const MUTANTS: &str = "docs/measured/mutants.json";
/// Failing disks.
const FAULTS: &str = "docs/measured/faults.json";

/// Kinds of violations besides losses, as the harness counts them.
const OTHERS: [&str; 5] = ["holes", "partial", "false_refusals", "untrue_reads", "other"];

/// What the harness writes of power cuts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cuts {
    pub(crate) cycles: u64,
    pub(crate) lost: u64,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Cuts {
    pub(crate) fn violations(&self) -> u64 {
        let others = OTHERS.iter().filter_map(|kind| self.rest.get(*kind)?.as_u64());
        self.lost + others.sum::<u64>()
    }
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

/// Keeps this run in place of the last of its engine and medium.
pub(crate) fn keep_cuts(run: Dated<Cuts>) -> Result<()> {
    keep(CUTS, run, &["engine", "medium"])
}

/// Keeps this run in place of the last of its engine.
pub(crate) fn keep_faults(run: Dated<Value>) -> Result<()> {
    keep(FAULTS, run, &["engine"])
}

/// Keeps this run in place of the last of its mutant and engine.
pub(crate) fn keep_mutant(run: Dated<Caught>) -> Result<()> {
    keep(MUTANTS, run, &["mutant", "engine"])
}

/// The table of power cuts.
pub(crate) fn cuts() -> Result<String> {
    let columns = [
        ("engine", "{engine}"),
        ("medium", "{medium}"),
        ("cycles", "{cycles}"),
        ("acknowledged", "{acknowledged}"),
        ("lost", "{lost}"),
        ("holes", "{holes}"),
        ("partial", "{partial}"),
        ("untrue reads", "{untrue_reads}"),
        ("false refusals", "{false_refusals}"),
        ("other", "{other}"),
        ("unknown", "{unknown}"),
        ("repeated by token", "{repeated}"),
        ("writers killed before", "{kills}"),
        ("writes failed", "{failed_writes}"),
        ("measured", "{place}"),
    ];
    table_of(&columns, &runs(CUTS)?.into())
}

/// The table of the controls that went with them.
pub(crate) fn controls() -> Result<String> {
    let columns = [
        ("engine", "{engine}"),
        ("medium", "{medium}"),
        ("rows lost without a flush", "{control/rows_lost} of {control/rows}"),
        (
            "cuts in which a plain `fdatasync` under way was untrue",
            "{control/cuts_untrue} of {control/cuts}",
        ),
        ("acknowledged during the cut", "{late}"),
        ("of them gone", "{late_lost}"),
    ];
    table_of(&columns, &runs(CUTS)?.into())
}

/// The table of mutants.
pub(crate) fn mutants() -> Result<String> {
    let columns = [
        ("mutant", "`{mutant}`"),
        ("what it does", "{what}"),
        ("engine", "{engine}"),
        ("seeds", "{first} to {last}"),
        ("of them caught it", "{caught} of {seeds}"),
        ("in cycle", "{cycles} of at most {cycles_max}"),
        ("acknowledged and lost", "{lost}"),
        ("other", "{other}"),
        ("measured", "{place}"),
    ];
    let row = |mut run: Value| -> Result<Value> {
        let tried = Caught::deserialize(&run)?.tried;
        let seed = |attempt: Option<&Attempt>| attempt.map_or(0, |attempt| attempt.seed);
        let cycle = |attempt: &Attempt| attempt.cycle.map_or("none".into(), |it| it.to_string());
        for (name, figure) in [
            ("first", json!(seed(tried.first()))),
            ("last", json!(seed(tried.last()))),
            ("seeds", json!(tried.len())),
            ("caught", json!(tried.iter().filter(|attempt| attempt.cycle.is_some()).count())),
            ("cycles", json!(tried.iter().map(cycle).collect::<Vec<_>>().join(", "))),
            ("lost", json!(tried.iter().map(|attempt| attempt.lost).sum::<u64>())),
            ("other", json!(tried.iter().map(|attempt| attempt.other).sum::<u64>())),
        ] {
            run[name] = figure;
        }
        Ok(run)
    };
    table_of(&columns, &runs(MUTANTS)?.into_iter().map(row).collect::<Result<Vec<_>>>()?.into())
}

/// The tables of failing disks.
pub(crate) fn faults() -> Result<String> {
    let columns = [
        ("fault", "{what}"),
        ("cases", "{cases}"),
        ("committed", "{committed}"),
        ("rejected", "{rejected}"),
        ("not run", "{not_run}"),
        ("unknown", "{unknown}"),
        ("refused afterwards", "{refused_afterwards}"),
        ("went on", "{went_on}"),
        ("not as expected", "{violations}"),
    ];
    let one = |run: Value| {
        let every = if run["stride"] == 1 { "every place" } else { "every {stride}th place" };
        let heading =
            filled(&format!("Under {{engine}}: {every} of each fault; {{place}}."), &run)?;
        Ok(format!("{heading}\n\n{}", table_of(&columns, &run["rows"])?))
    };
    Ok(runs(FAULTS)?.into_iter().map(one).collect::<Result<Vec<_>>>()?.join("\n"))
}
