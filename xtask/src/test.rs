//! `cargo xtask test`: everything that has to hold, one step after the other, with the time that
//! each took. The first step that fails ends it.

use std::{
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{docs, layers, program::cargo, root::root, simulate};

/// The features that build every engine, also those that a plain build leaves out.
const ALL_ENGINES: &str = "groupcommit/all,groupcommit-lab/all,groupcommit-cli/all";

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
            "--all-targets",
            "--features",
            ALL_ENGINES,
            "--",
            "--deny",
            "warnings",
        ]),
    )?;
    step(
        "rustdoc",
        cargo_with(&["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"])
            .args(["--features", ALL_ENGINES])
            .env("RUSTDOCFLAGS", "--deny warnings --allow rustdoc::private_intra_doc_links"),
    )?;
    timed("layers", layers::check)?;
    timed("documents", docs::check)?;
    // The tests run the examples as programs; `cargo test` would build them so only by default, and
    // not when it is told which targets to test.
    step(
        "examples",
        cargo_with(&["build", "--quiet", "--workspace", "--examples"])
            .args(["--features", ALL_ENGINES]),
    )?;
    step(
        "tests",
        cargo_with(&["test", "--quiet", "--workspace", "--lib", "--bins", "--tests"])
            .args(["--features", ALL_ENGINES]),
    )?;
    step(
        "examples in documentation",
        cargo_with(&["test", "--quiet", "--workspace", "--doc"]).args(["--features", ALL_ENGINES]),
    )?;
    step("interleavings and simulation", &mut interleavings())?;
    timed("a bug that the simulation must find", simulate::check_a_mutant)?;
    println!("all passed in {}", seconds(began.elapsed()));
    Ok(())
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

/// What the compiler is told for the scheduler that explores interleavings.
pub(crate) fn shuttle_flags() -> String {
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    format!("{flags} --cfg shuttle").trim().to_owned()
}

pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into)
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
