//! The mutants: builds in which one promise is broken on purpose. A harness that does not notice
//! proves nothing.
//!
//! Each is a patch of the core, one of those that the simulation must find too, applied to a copy of
//! the sources; the sources themselves know nothing of them. One that no longer applies is an error.
//! All are put through the same cycles.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::{
    PACKAGE,
    records::{self, Attempt, Caught, Cuts},
    run, target_folder,
};
use crate::{
    Done, docs,
    program::cargo,
    records::{Dated, Place},
    root::root,
    simulate::MUTANTS as PATCHES,
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

/// Options of `cargo xtask mutants`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What the random choices are made from
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// How many seeds to try each mutant with, instead of going on to the next once it is caught
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,

    /// Only the mutants whose names begin so
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,

    /// Keep the figures in docs/measured, and write them into the documentation
    #[arg(long)]
    save: bool,
}

pub(crate) fn run_all(options: &Options) -> Result<Done> {
    let done = catch_all(options)?;
    if options.save && done == Done::Ran {
        docs::write()?;
    }
    Ok(done)
}

/// The short form, for `cargo xtask test`.
pub(crate) fn short() -> Result<()> {
    let options = Options { seed: 1, seeds: None, only: String::new(), save: false };
    catch_all(&options).map(drop)
}

/// Builds and runs every mutant, with each of so many seeds or until it is caught; fails unless each is
/// caught.
fn catch_all(options: &Options) -> Result<Done> {
    let mutants: Vec<_> =
        ALL.into_iter().filter(|(name, ..)| name.starts_with(&options.only)).collect();
    ensure!(!mutants.is_empty(), "there is no mutant `{}`", options.only);
    let copy = folder().join("source");
    fs::create_dir_all(&copy).with_context(|| format!("cannot create {}", copy.display()))?;
    let mut built: Option<(&str, PathBuf)> = None;
    for (name, what, engine) in mutants {
        let program = match built.take() {
            Some((known, program)) if known == name => program,
            _ => {
                mirror(&copy)?;
                apply(name, &copy)?;
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
    let (record, content) = run::<Cuts>(program, &arguments)?;
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

/// Where mutants are built: all of them in one folder, so that what they depend on is built once,
/// but never in the one of the real sources. Cargo takes the crates of two copies of a workspace for
/// the same, and would hand out a mutant as the real thing.
fn folder() -> PathBuf {
    target_folder().join("mutants")
}

fn build(copy: &Path) -> Result<PathBuf> {
    let status = cargo()
        .current_dir(copy)
        .args(["build", "--quiet", "--locked", "--package", PACKAGE.0, "--target-dir"])
        .arg(folder())
        .env("CARGO_TARGET_DIR", folder())
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "cannot build a mutant in {}: see above", copy.display());
    Ok(folder().join("debug").join(PACKAGE.1))
}

/// Makes `copy` equal to the sources; what is equal already is left alone, so that it is not built
/// again.
fn mirror(copy: &Path) -> Result<()> {
    mirror_one(root(), copy)
}

/// Neither the repository's history nor what was built is copied.
fn is_source(path: &Path) -> bool {
    !path.ends_with(".git") && !path.join("CACHEDIR.TAG").exists()
}

fn mirror_one(from: &Path, to: &Path) -> Result<()> {
    let failed = || format!("cannot copy {}", from.display());
    if !from.is_dir() {
        let content = fs::read(from).with_context(failed)?;
        if fs::read(to).ok().as_ref() != Some(&content) {
            fs::write(to, content).with_context(failed)?;
        }
        return Ok(());
    }
    fs::create_dir_all(to).with_context(failed)?;
    let names = |folder: &Path| -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder).with_context(failed)?;
        entries.map(|entry| Ok(entry?.file_name().into())).collect()
    };
    let mut kept = names(from)?;
    kept.retain(|name| is_source(&from.join(name)));
    for gone in names(to)?.iter().filter(|name| !kept.contains(name)) {
        let gone = to.join(gone);
        let removed =
            if gone.is_dir() { fs::remove_dir_all(&gone) } else { fs::remove_file(&gone) };
        removed.with_context(failed)?;
    }
    kept.iter().try_for_each(|name| mirror_one(&from.join(name), &to.join(name)))
}

/// Applies a patch to the copy, and nowhere else.
fn apply(name: &str, copy: &Path) -> Result<()> {
    let patch = root().join(PATCHES).join(format!("{name}.patch"));
    let said =
        fs::read_to_string(&patch).with_context(|| format!("cannot read {}", patch.display()))?;
    let changed: Vec<PathBuf> =
        said.lines().filter_map(|line| line.strip_prefix("+++ b/")).map(|p| copy.join(p)).collect();
    ensure!(!changed.is_empty(), "{} changes nothing", patch.display());
    let read = || changed.iter().map(fs::read).collect::<Result<Vec<_>, _>>();
    let before = read()?;
    let output = Command::new("git")
        .arg("apply")
        .arg(&patch)
        .current_dir(copy)
        // Else it would look for the repository around the copy, and leave out what is not in it.
        .env("GIT_CEILING_DIRECTORIES", copy.parent().unwrap_or(copy))
        .output()
        .context("cannot start git, which applies the mutants")?;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success() && read()? != before,
        "the mutant {name} no longer applies; make {} anew: {why}",
        patch.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_patch_applies_once() {
        let copy = tempfile::tempdir().expect("a folder");
        for (name, ..) in ALL {
            mirror(copy.path()).expect("a copy");
            apply(name, copy.path()).expect("it applies");
            apply(name, copy.path()).expect_err("not twice");
        }
    }
}
