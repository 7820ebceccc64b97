//! `cargo xtask test`: everything that has to hold, one step after the other, with the time that
//! each took. The first step that fails ends it.

use std::{
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{docs, layers, power, program::cargo, root::root};

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
            "--",
            "--deny",
            "warnings",
        ]),
    )?;
    step(
        "rustdoc",
        cargo_with(&["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"])
            .env("RUSTDOCFLAGS", "--deny warnings --allow rustdoc::private_intra_doc_links"),
    )?;
    timed("layers", layers::check)?;
    timed("documents", docs::check)?;
    // The tests run the examples as programs; `cargo test` would build them so only by default, and
    // not when it is told which targets to test.
    step("examples", &mut cargo_with(&["build", "--quiet", "--workspace", "--examples"]))?;
    step(
        "tests",
        &mut cargo_with(&["test", "--quiet", "--workspace", "--lib", "--bins", "--tests"]),
    )?;
    step(
        "examples in documentation",
        &mut cargo_with(&["test", "--quiet", "--workspace", "--doc"]),
    )?;
    step("interleavings", &mut interleavings())?;
    timed("power cuts and failing disks", power::short)?;
    timed("mutants", || power::mutants::catch_all(1).map(drop))?;
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
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    command.env("RUSTFLAGS", format!("{flags} --cfg shuttle").trim());
    command
}

fn target_folder() -> PathBuf {
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
