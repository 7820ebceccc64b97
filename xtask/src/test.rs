//! `cargo xtask test`: everything that has to hold, one step after the other, with the time that
//! each took. The first step that fails ends it.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{
    api, docs, hang, languages, libclang, mutants, power,
    program::{cargo, shuttle_flags, target_folder},
    root::root,
    simulate,
};

/// The crate whose dependency is compiled for many minutes, and needs libclang.
const HEAVY: &str = "groupcommit-rocksdb";

const RUSTDOC_FLAGS: &str = "--deny warnings --allow rustdoc::private_intra_doc_links";

/// The features of the engines that are quickly built, also those that a plain build leaves out.
const LIGHT_ENGINES: &str = "groupcommit/lmdb,groupcommit-lab/lmdb,groupcommit-cli/lmdb,\
                             groupcommit/postgres,groupcommit-lab/postgres,groupcommit-cli/postgres,\
                             groupcommit/mysql,groupcommit-lab/mysql,groupcommit-cli/mysql";

/// All key-value engines, where RocksDB is compiled anyway.
const ALL_KEYED: &str = "groupcommit-lab/lmdb,groupcommit-lab/rocksdb,\
                         groupcommit-cli/lmdb,groupcommit-cli/rocksdb";

/// Options of `cargo xtask test`.
#[derive(Debug, Args)]
pub(crate) struct Options {}

pub(crate) fn run(_: &Options) -> Result<()> {
    let began = Instant::now();
    need_component("fmt", "rustfmt")?;
    need_component("clippy", "clippy")?;
    step("format", &mut cargo_with(&["fmt", "--all", "--check"]))?;
    step(
        "lints",
        &mut cargo_with(&[
            "clippy",
            "--quiet",
            "--workspace",
            "--exclude",
            HEAVY,
            "--all-targets",
            "--features",
            LIGHT_ENGINES,
            "--",
            "--deny",
            "warnings",
        ]),
    )?;
    for engine in ["", "sqlite", "lmdb", "postgres", "mysql"] {
        let alone = if engine.is_empty() { "no engine" } else { engine };
        step(
            &format!("lints with {alone} alone"),
            cargo_with(&["clippy", "--quiet", "--package", "groupcommit", "--no-default-features"])
                .args(["--features", engine, "--", "--deny", "warnings"]),
        )?;
    }
    step(
        "rustdoc",
        cargo_with(&["doc", "--quiet", "--workspace", "--exclude", HEAVY])
            .args(["--no-deps", "--document-private-items", "--features", LIGHT_ENGINES])
            .env("RUSTDOCFLAGS", RUSTDOC_FLAGS),
    )?;
    step(
        "lints of the program with nothing asked for",
        cargo_with(&["clippy", "--quiet", "--package", "groupcommit-cli", "--no-default-features"])
            .args(["--", "--deny", "warnings"]),
    )?;
    step(
        "packages",
        &mut cargo_with(&[
            "publish",
            "--dry-run",
            "--quiet",
            "--workspace",
            "--no-verify",
            "--allow-dirty",
        ]),
    )?;
    timed("interfaces", api::check)?;
    timed("documents", docs::check)?;
    // The tests run the examples as programs; `cargo test` would build them so only by default, and
    // not when it is told which targets to test.
    step(
        "examples",
        cargo_with(&["build", "--quiet", "--workspace", "--exclude", HEAVY, "--examples"])
            .args(["--features", LIGHT_ENGINES]),
    )?;
    tests(
        "tests",
        cargo_with(&["test", "--quiet", "--workspace", "--exclude", HEAVY]).args([
            "--lib",
            "--bins",
            "--tests",
            "--features",
            LIGHT_ENGINES,
        ]),
    )?;
    step(
        "examples in documentation",
        cargo_with(&["test", "--quiet", "--workspace", "--exclude", HEAVY, "--doc"])
            .args(["--features", LIGHT_ENGINES]),
    )?;
    step("clients of the server", &mut Command::new(root().join("server/clients/run")))?;
    timed("the package of Python", || languages::test(languages::PYTHON))?;
    timed("the package of Node", || languages::test(languages::NODE))?;
    tests("interleavings and simulation", &mut interleavings())?;
    timed("a bug that the simulation must find", simulate::check_a_mutant)?;
    timed("power cuts and failing disks", power::short)?;
    timed("mutants", mutants::short)?;
    heavy()?;
    println!("all passed in {}", seconds(began.elapsed()));
    Ok(())
}

/// What compiles RocksDB's C++: in the release profile alone, so that it is compiled once.
fn heavy() -> Result<()> {
    if !libclang::is_there() {
        let required = std::env::var_os("GROUPCOMMIT_ROCKSDB").is_some_and(|it| it == "required");
        ensure!(!required, "{}, and GROUPCOMMIT_ROCKSDB=required", libclang::MISSING);
        println!("{}", libclang::MISSING);
        return Ok(());
    }
    step(
        "RocksDB: lints",
        cargo_with(&["clippy", "--quiet", "--release", "--package", HEAVY, "--all-targets"])
            .args(["--package", "groupcommit-lab", "--package", "groupcommit-cli"])
            .args(["--features", ALL_KEYED, "--", "--deny", "warnings"]),
    )?;
    step(
        "power cuts of RocksDB: lints",
        cargo_with(&["clippy", "--quiet", "--release", "--package", "groupcommit-testkit-power"])
            .args(["--features", "rocksdb", "--all-targets", "--", "--deny", "warnings"]),
    )?;
    step(
        "RocksDB: rustdoc",
        cargo_with(&["doc", "--quiet", "--release", "--package", HEAVY, "--no-deps"])
            .arg("--document-private-items")
            .env("RUSTDOCFLAGS", RUSTDOC_FLAGS),
    )?;
    tests(
        "RocksDB: tests",
        &mut cargo_with(&["test", "--quiet", "--release", "--package", HEAVY]),
    )?;
    tests(
        "RocksDB: experiments and program",
        cargo_with(&["test", "--quiet", "--release"])
            .args(["--package", "groupcommit-lab", "--package", "groupcommit-cli"])
            .args(["--features", ALL_KEYED, "--lib", "--test", "rocksdb"]),
    )
}

/// The core's queue and ticket in a scheduler that explores interleavings. Built apart, because
/// everything is compiled differently for it.
fn interleavings() -> Command {
    let target = target_folder().join("shuttle");
    let mut command =
        cargo_with(&["test", "--quiet", "--release", "--package", "groupcommit-core"]);
    command.args(["--lib", "--tests"]).arg("--target-dir").arg(target);
    command.env("RUSTFLAGS", shuttle_flags());
    command
}

fn cargo_with(arguments: &[&str]) -> Command {
    let mut command = cargo();
    command.args(arguments);
    command
}

/// Says clearly when a part of the toolchain is missing.
fn need_component(subcommand: &str, component: &str) -> Result<()> {
    let found = cargo_with(&[subcommand, "--version"]).output().context("cannot start cargo")?;
    ensure!(
        found.status.success(),
        "`cargo {subcommand}` is missing; add it with `rustup component add {component}`"
    );
    Ok(())
}

fn step(name: &str, command: &mut Command) -> Result<()> {
    timed(name, || {
        let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
        ensure!(status.success(), "step `{name}` failed ({status})");
        Ok(())
    })
}

/// A step that ends when a test hangs.
fn tests(name: &str, command: &mut Command) -> Result<()> {
    timed(name, || hang::run(command, hang::SILENCE_MAX))
}

fn timed(name: &str, run: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("== {name}");
    let began = Instant::now();
    let done = run();
    println!(
        "== {name}: {} in {}",
        if done.is_ok() { "passed" } else { "FAILED" },
        seconds(began.elapsed())
    );
    done
}

fn seconds(elapsed: Duration) -> String {
    format!("{:.1} s", elapsed.as_secs_f64())
}
