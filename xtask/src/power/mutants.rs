//! The mutants: builds in which one promise is broken on purpose. A harness that does not notice
//! proves nothing.
//!
//! Each is a patch in `testkit/mutants`, applied to a copy of the sources; the sources themselves
//! know nothing of them. One that no longer applies is an error.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::{
    PACKAGE,
    records::{Caught, Cuts, Dated, Mutants, Place},
    run, target_folder,
};
use crate::{docs, measured, program::cargo, root::root};

use super::records::MUTANTS;

/// Cycles within which each must be caught.
const CYCLES: u64 = 20;

/// How many seeds are tried. The threads of a writer are scheduled by the system, so now and then one
/// seed's cycles all miss what depends on a failed write reaching the log.
const SEEDS: u64 = 3;

/// Each mutant: its patch, what it does, and what the harness is told besides the seed.
const ALL: [(&str, &str, &[&str]); 5] = [
    ("flush-skipped", "the log is not flushed at all", &["--medium", "shutdown"]),
    (
        "lmdb-flush-skipped",
        "the data file of LMDB is not flushed after commits, which sync all but the meta page",
        &["--medium", "shutdown", "--engine", "lmdb"],
    ),
    (
        "watermark-late",
        "a flush resolves also what was committed after it began",
        &["--medium", "shutdown"],
    ),
    ("resolved-at-commit", "tickets resolve before the flush", &["--medium", "shutdown"]),
    (
        "failed-flush-retried",
        "a flush that failed is tried again, and success believed",
        &["--medium", "device", "--always-fail-a-write"],
    ),
];

/// What is copied: everything that the workspace is built from.
const SOURCES: [&str; 10] = [
    ".cargo",
    "Cargo.lock",
    "Cargo.toml",
    "cli",
    "core",
    "engines",
    "groupcommit",
    "lab",
    "testkit",
    "xtask",
];

/// Options of `cargo xtask mutants`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What the random choices are made from
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// Keep the figures in docs/measured, and write them into the documentation
    #[arg(long)]
    save: bool,
}

pub(crate) fn run_all(options: &Options) -> Result<()> {
    let Some(mutants) = catch_all(options.seed)? else { return Ok(()) };
    if options.save {
        measured::save(MUTANTS, &Dated { place: Place::here()?, record: mutants })?;
        docs::write()?;
    }
    Ok(())
}

/// Builds and runs every mutant; fails unless each is caught. `None` when rights are missing.
pub(crate) fn catch_all(seed: u64) -> Result<Option<Mutants>> {
    let copy = folder().join("source");
    fs::create_dir_all(&copy).with_context(|| format!("cannot create {}", copy.display()))?;
    let mut caught = Vec::new();
    for (name, what, arguments) in ALL {
        mirror(&copy)?;
        apply(name, &copy)?;
        let program = build(&copy)?;
        let mut caught_with = None;
        for seed in seed..seed + SEEDS {
            let mut all: Vec<String> = vec!["powercut".to_owned()];
            all.extend(arguments.iter().map(|&argument| argument.to_owned()));
            all.extend(
                ["--cycles", &CYCLES.to_string(), "--seed", &seed.to_string()].map(str::to_owned),
            );
            let (record, content) = run::<Cuts>(&program, &all)?;
            let Some(record) = record else {
                if content {
                    return Ok(None); // it has said what is missing
                }
                bail!("the harness failed on the mutant {name}, without a judgement");
            };
            if !content && record.violations() > 0 {
                caught_with = Some((seed, record));
                break;
            }
            println!("not caught: {name}, within {CYCLES} cycles of seed {seed}");
        }
        let Some((seed, record)) = caught_with else {
            bail!(
                "the mutant {name} ({what}) was not caught within {CYCLES} cycles of {SEEDS} seeds"
            );
        };
        println!("caught: {name}, in cycle {} of at most {CYCLES}, seed {seed}", record.cycles);
        caught.push(Caught {
            mutant: name.to_owned(),
            what: what.to_owned(),
            medium: record.medium.clone(),
            seed,
            cycles: record.cycles,
            lost: record.lost,
            other: record.violations() - record.lost,
        });
    }
    Ok(Some(Mutants { seed, cycles_max: CYCLES, caught }))
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
    for name in SOURCES {
        mirror_one(&root().join(name), &copy.join(name))?;
    }
    Ok(())
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
    let kept = names(from)?;
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
    let patch = root().join("testkit/mutants").join(format!("{name}.patch"));
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
    fn every_patch_is_of_a_mutant_and_applies() {
        let copy = tempfile::tempdir().expect("a folder");
        let mut patches = 0;
        for entry in fs::read_dir(root().join("testkit/mutants")).expect("the patches") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
            assert!(ALL.iter().any(|(known, ..)| *known == name), "{name} is never run");
            mirror(copy.path()).expect("a copy");
            apply(&name, copy.path()).expect("it applies");
            apply(&name, copy.path()).expect_err("not twice");
            patches += 1;
        }
        assert_eq!(patches, ALL.len());
    }
}
