//! `cargo xtask simulate`: the deterministic simulation of the core, over many seeds, and over
//! mutants of the core that it must find.

use std::{fmt::Write as _, fs, path::Path, time::Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::{
    mutants::copy,
    program::{cargo, shuttle_flags, target_folder},
    records::{self, Dated, grouped},
    root::root,
};

/// The records of the last long run.
const SIMULATION: &str = "docs/measured/simulation.json";

/// Each a patch that puts one bug into the core.
pub(crate) const MUTANTS: &str = "core/tests/mutants";

/// The most seeds that it may take to find a mutant.
const MUTANT_SEEDS: u64 = 1_000;

/// Options of `cargo xtask simulate`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many seeds to run [default: 1000, or 1 with --seed]
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,

    /// The first seed; alone it replays that run and prints its events
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// Check also that every mutant in core/tests/mutants is found within 1,000 seeds
    #[arg(long)]
    mutants: bool,

    /// Keep the figures in docs/measured, for `cargo xtask docs` to write into the documentation
    #[arg(long)]
    save: bool,
}

/// What a run of many seeds came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Record {
    first_seed: u64,
    seconds: f64,
    counts: Counts,
    mutants: Vec<Mutant>,
}

/// What the simulation itself prints of a run, as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Counts {
    seeds: u64,
    seeds_with_violations: u64,
    power_cuts: u64,
    submissions: u64,
    committed: u64,
    unknown: u64,
    failed_disks: u64,
}

/// A seeded bug, and how many seeds it took to find it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Mutant {
    name: String,
    found_by_seed: Option<u64>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let first = options.seed.unwrap_or(0);
    let seeds = options.seeds.unwrap_or(if options.seed.is_some() { 1 } else { 1_000 });
    ensure!(seeds > 0, "--seeds must be at least 1");
    ensure!(!options.save || options.mutants, "--save needs the figures of --mutants");
    let began = Instant::now();
    let run = Run::new(root(), first, seeds)?;
    let seconds = began.elapsed().as_secs_f64();
    print!("{}", run.text);
    let counts = run.counts()?;
    for seed in run.failed_seeds() {
        println!("replay seed {seed} with: cargo xtask simulate --seed {seed}");
    }
    println!(
        "{} seeds from {first}, {} with violations, {} power cuts, {} transactions submitted, {:.1} s",
        grouped(counts.seeds),
        counts.seeds_with_violations,
        grouped(counts.power_cuts),
        grouped(counts.submissions),
        seconds,
    );
    ensure!(counts.seeds_with_violations == 0, "the simulation found violations: see above");
    let mutants = if options.mutants { mutants()? } else { Vec::new() };
    let missed: Vec<_> = mutants.iter().filter(|it| it.found_by_seed.is_none()).collect();
    ensure!(missed.is_empty(), "not found within {MUTANT_SEEDS} seeds: {missed:?}");
    if options.save {
        records::publish(SIMULATION, Record { first_seed: first, seconds, counts, mutants })?;
    }
    Ok(())
}

/// The output of the simulation's test.
struct Run {
    text: String,
    passed: bool,
}

impl Run {
    /// Runs `seeds` seeds of the simulation of the core that lies in `folder`.
    fn new(folder: &Path, first: u64, seeds: u64) -> Result<Self> {
        // A folder of results of their own for mutants: cargo tells the two cores apart by nothing
        // but the age of their files, and would take a mutant's results for those of the source.
        let results = if folder == root() { "shuttle" } else { "shuttle-mutants" };
        let mut command = cargo();
        command
            .current_dir(folder)
            .args(["test", "--quiet", "--release", "--package", "groupcommit-core"])
            .args(["--test", "simulation", "--target-dir"])
            .arg(target_folder().join(results))
            .args(["--", "--exact", "--nocapture", "no_seed_breaks_a_promise"])
            .env("RUSTFLAGS", shuttle_flags())
            .env("GROUPCOMMIT_SEED", first.to_string())
            .env("GROUPCOMMIT_SEEDS", seeds.to_string());
        let output = command.output().context("cannot start cargo")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !text.contains("simulation: ") {
            bail!("the simulation did not run:\n{text}{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(Self { text, passed: output.status.success() })
    }

    fn counts(&self) -> Result<Counts> {
        let line = self.text.lines().find_map(|line| line.strip_prefix("simulation: "));
        let counts: Counts = serde_json::from_str(line.context("no figures")?)?;
        ensure!(self.passed == (counts.seeds_with_violations == 0), "the simulation itself failed");
        Ok(counts)
    }

    fn failed_seeds(&self) -> impl Iterator<Item = u64> {
        self.text
            .lines()
            .filter_map(|line| line.strip_prefix("seed ")?.strip_suffix(':')?.parse().ok())
    }
}

/// That the simulation sees what it is for: one of the mutants, whose groups are called durable by a
/// flush that began before their commit.
pub(crate) fn check_a_mutant() -> Result<()> {
    let mutant = mutant("watermark-after-flush")?;
    ensure!(mutant.found_by_seed.is_some(), "not found within {MUTANT_SEEDS} seeds: {mutant:?}");
    Ok(())
}

/// Has the simulation look for one bug after the other.
fn mutants() -> Result<Vec<Mutant>> {
    let names = copy::patches_in(MUTANTS)?;
    ensure!(!names.is_empty(), "{MUTANTS} holds no patch");
    names.iter().map(|name| mutant(name)).collect()
}

/// Puts a bug into a copy of the core, and has the simulation look for it.
fn mutant(name: &str) -> Result<Mutant> {
    let folder = tempfile::tempdir().context("cannot create a folder")?;
    copy_core(folder.path())?;
    copy::apply(&format!("{MUTANTS}/{name}.patch"), folder.path())?;
    let run =
        Run::new(folder.path(), 0, MUTANT_SEEDS).with_context(|| format!("the mutant {name}"))?;
    let found_by_seed = if run.passed { None } else { run.failed_seeds().next() };
    match found_by_seed {
        Some(seed) => println!("mutant {name}: found by seed {seed}"),
        None => println!("mutant {name}: NOT FOUND"),
    }
    Ok(Mutant { name: name.to_owned(), found_by_seed })
}

/// A workspace in `folder` that has nothing but the core.
fn copy_core(folder: &Path) -> Result<()> {
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    let mut alone = String::new();
    for line in manifest.lines() {
        match line.split(' ').next() {
            Some("members" | "default-members") => {
                let key = line.split(' ').next().unwrap_or_default();
                writeln!(alone, "{key} = [\"core\"]")?;
            }
            _ => writeln!(alone, "{line}")?,
        }
    }
    fs::write(folder.join("Cargo.toml"), alone)?;
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    copy::mirror(&root().join("core"), &folder.join("core"))
}

/// The figures of the last recorded run, for the documentation.
pub(crate) fn table() -> Result<String> {
    let Dated { place, record } = records::load::<Dated<Record>>(SIMULATION)?;
    let counts = record.counts;
    let figures = [
        ("seeds", counts.seeds),
        ("seeds with a violation", counts.seeds_with_violations),
        ("power cuts", counts.power_cuts),
        (
            "databases of which a commit or a flush failed, or the power under load",
            counts.failed_disks,
        ),
        ("transactions submitted", counts.submissions),
        ("acknowledged as committed", counts.committed),
        ("unknown", counts.unknown),
    ];
    let figures = figures.map(|(what, figure)| (what, grouped(figure)));
    let bug = |Mutant { name, found_by_seed }: &Mutant| {
        let seed = found_by_seed.map_or("not found".to_owned(), grouped);
        vec![format!("[{name}](../{MUTANTS}/{name}.patch)"), seed]
    };
    let bugs = record.mutants.iter().map(bug);
    Ok(format!(
        "{}\n{}\nSeeds from {}; {}.\n",
        records::figures("simulation", &figures),
        records::table(&["bug put into the core", "found by seed"], bugs),
        record.first_seed,
        place.text()
    ))
}
