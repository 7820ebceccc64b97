//! Mutants that power cuts must catch.
//!
//! Each is put through the same cycles.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{Options, copy};
use crate::{
    Done,
    power::{
        self, PACKAGE,
        records::{self, Attempt, Caught, Cuts},
    },
    program::cargo,
    records::{Dated, Place},
    simulate::MUTANTS,
};

/// Cycles within which each must be caught.
const CYCLES: u64 = 20;

/// How many seeds are tried. The threads of a writer are scheduled by the system, so no choice of
/// cycles makes it certain.
const SEEDS: u64 = 2;

/// What loses power: the device. A file system that is shut down is less exact; see the controls.
const MEDIUM: &str = "device";

/// Each mutant: its patch, what it does, and the engine that it is put under. LMDB's commit syncs all
/// but one page, so that a flush that is left out is harder to notice there.
const ALL: [(&str, &str, &str); 5] = [
    ("watermark-after-flush", "a flush resolves also what was committed after it began", "sqlite"),
    ("failed-flush-retried", "a flush that failed is tried again, and success believed", "sqlite"),
    ("resolved-at-commit", "tickets resolve before the flush", "sqlite"),
    ("flush-skipped", "nothing is flushed", "sqlite"),
    ("flush-skipped", "nothing is flushed", "lmdb"),
];

/// A mutant: its patch, what it does, and the engine that it is put under.
pub(super) type Mutant = (&'static str, &'static str, &'static str);

/// The mutants whose names begin so.
pub(super) fn named(prefix: &str) -> Vec<Mutant> {
    ALL.into_iter().filter(|(name, ..)| name.starts_with(prefix)).collect()
}

/// Builds and runs mutants, with each of so many seeds or until it is caught; fails unless each is
/// caught.
pub(super) fn catch(mutants: &[Mutant], options: &Options) -> Result<Done> {
    let mut built: Option<(&str, PathBuf)> = None;
    for &(name, what, engine) in mutants {
        let program = match built.take() {
            Some((known, program)) if known == name => program,
            _ => {
                let copy = copy::of_the_sources()?;
                copy::apply(&format!("{MUTANTS}/{name}.patch"), &copy)?;
                build(&copy)?
            }
        };
        let mut tried = Vec::new();
        for seed in options.seed..options.seed + options.seeds.unwrap_or(SEEDS) {
            let Some(attempt) = attempt(&program, engine, seed)
                .with_context(|| format!("the mutant {name} under {engine}"))?
            else {
                return Ok(Done::Skipped); // it has said what is missing
            };
            let came_to = attempt.cycle.map_or_else(
                || format!("NOT caught within {CYCLES} cycles"),
                |cycle| format!("caught in cycle {cycle}"),
            );
            println!("{name} under {engine}, seed {seed}: {came_to}");
            tried.push(attempt);
            if options.seeds.is_none() && attempt.cycle.is_some() {
                break;
            }
        }
        ensure!(
            tried.iter().any(|attempt| attempt.cycle.is_some()),
            "the mutant {name} ({what}) was not caught under {engine}, within {CYCLES} cycles of any of \
             {} seeds",
            tried.len()
        );
        if options.save {
            let record = Caught {
                mutant: name.to_owned(),
                what: what.to_owned(),
                engine: engine.to_owned(),
                cycles_max: CYCLES,
                tried,
            };
            records::keep_mutant(Dated { place: Place::here()?, record })?;
        }
        built = Some((name, program));
    }
    Ok(Done::Ran)
}

/// Puts a mutant through the cycles of a seed, until it is caught; `None` when rights are missing.
fn attempt(program: &Path, engine: &str, seed: u64) -> Result<Option<Attempt>> {
    let (seed_text, cycles) = (seed.to_string(), CYCLES.to_string());
    let arguments = ["powercut", "--medium", MEDIUM, "--engine", engine, "--seed", &seed_text];
    let mut arguments: Vec<String> = arguments.map(str::to_owned).into();
    arguments.extend(["--cycles".to_owned(), cycles, "--without-control".to_owned()]);
    let (record, content) = power::run::<Cuts>(program, &arguments)?;
    let Some(record) = record else {
        ensure!(content, "the harness failed, without a judgement");
        return Ok(None);
    };
    let is_caught = !content && record.violations() > 0;
    Ok(Some(Attempt {
        seed,
        cycle: is_caught.then_some(record.cycles),
        lost: record.lost,
        other: record.violations() - record.lost,
    }))
}

fn build(copy: &Path) -> Result<PathBuf> {
    let status = cargo()
        .current_dir(copy)
        .args(["build", "--quiet", "--locked", "--package", PACKAGE.0, "--target-dir"])
        .arg(copy::folder())
        .env("CARGO_TARGET_DIR", copy::folder())
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "cannot build a mutant in {}: see above", copy.display());
    Ok(copy::folder().join("debug").join(PACKAGE.1))
}
