//! The programs of the workspace as the other commands need them: built, and run.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use crate::root::root;

/// The programs that the documentation shows.
pub(crate) struct Programs {
    /// `groupcommit`.
    pub(crate) groupcommit: PathBuf,
    /// `groupcommit-bench`.
    pub(crate) bench: PathBuf,
}

impl Programs {
    /// Builds both for development.
    pub(crate) fn build() -> Result<Self> {
        Ok(Self { groupcommit: groupcommit(false)?, bench: bench(&[], false)? })
    }
}

/// `cargo`, in the project's root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// What the compiler is told for the scheduler that explores interleavings.
pub(crate) fn shuttle_flags() -> String {
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    format!("{flags} --cfg shuttle").trim().to_owned()
}

/// Where cargo builds.
pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into)
}

/// Builds a program of the workspace and returns its path.
pub(crate) fn build(package: &str, name: &str, release: bool) -> Result<PathBuf> {
    build_with(package, name, &[], release)
}

/// As [`build`], with features of the package.
pub(crate) fn build_with(
    package: &str,
    name: &str,
    features: &[&str],
    release: bool,
) -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--quiet", "--message-format=json-render-diagnostics"]);
    command.args(["--package", package, "--bin", name]);
    if !features.is_empty() {
        command.args(["--features", &features.join(",")]);
    }
    if release {
        command.arg("--release");
    }
    let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cannot build {name}: see above");
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: serde_json::Value = serde_json::from_str(line)?;
        if message["target"]["name"] == name
            && let Some(path) = message["executable"].as_str()
        {
            return Ok(path.into());
        }
    }
    bail!("cargo built {name} and did not say where it is")
}

/// The `groupcommit` program.
pub(crate) fn groupcommit(release: bool) -> Result<PathBuf> {
    build("groupcommit-cli", "groupcommit", release)
}

/// The `groupcommit-bench` program, with features of the lab.
pub(crate) fn bench(features: &[&str], release: bool) -> Result<PathBuf> {
    build_with("groupcommit-lab", "groupcommit-bench", features, release)
}

/// What `program arguments` writes to standard output.
pub(crate) fn output_of(program: &Path, arguments: &[&str]) -> Result<String> {
    let shown = || format!("{} {}", program.display(), arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", shown()))?;
    ensure!(output.status.success(), "{} ended with {}", shown(), output.status);
    String::from_utf8(output.stdout).with_context(|| format!("{} wrote no text", shown()))
}

/// What a test counted: it is run with these variables, and prints the figures behind `NAME: ` as JSON.
/// `test` says which program, `filter` which of its tests.
pub(crate) fn counted(
    name: &str,
    test: &[&str],
    filter: &[&str],
    variables: &[(&str, String)],
) -> Result<serde_json::Value> {
    let output = cargo()
        .arg("test")
        .args(test)
        .args(["--", "--nocapture", "--test-threads", "1"])
        .args(filter)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "the test found a failure:\n{said}");
    let figures = said.lines().find_map(|line| Some(line.split_once(&format!("{name}: "))?.1));
    let figures =
        figures.with_context(|| format!("the test did not say what it counted:\n{said}"))?;
    Ok(serde_json::from_str(figures)?)
}
