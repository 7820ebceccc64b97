//! The records of the long tests in `docs/measured`, and what their tables share.

use std::{fs, process::Command};

use anyhow::{Context, Result};
use groupcommit_lab::report::{markdown, model::Table};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::root::{read, root};

/// Where, when and of what a record was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Place {
    date: String,
    git_commit: String,
    git_dirty: Option<bool>,
    kernel: Option<String>,
}

impl Place {
    pub(crate) fn here() -> Result<Self> {
        let said = |program: &str, arguments: &[&str]| -> Result<String> {
            let output = Command::new(program)
                .args(arguments)
                .current_dir(root())
                .output()
                .with_context(|| format!("cannot start {program}"))?;
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let kernel = nix::sys::utsname::uname().context("uname")?;
        // Records are kept while the sources stay as they are.
        let changes = ["status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs"];
        Ok(Self {
            date: said("date", &["-u", "+%F"])?,
            git_commit: said("git", &["rev-parse", "HEAD"])?,
            git_dirty: Some(!said("git", &changes)?.is_empty()),
            kernel: Some(format!("Linux {}", kernel.release().to_string_lossy())),
        })
    }

    /// Date, commit and kernel.
    pub(crate) fn text(&self) -> String {
        let dirty = if self.git_dirty == Some(true) { " with local changes" } else { "" };
        let commit: String = self.git_commit.chars().take(12).collect();
        let date = self.date.split('T').next().unwrap_or_default();
        let kernel = self.kernel.iter().map(|kernel| format!(", {kernel}"));
        format!("{date}, commit {commit}{dirty}{}", kernel.collect::<String>())
    }
}

/// A record, and where and of what it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Dated<T> {
    #[serde(flatten)]
    pub(crate) place: Place,
    #[serde(flatten)]
    pub(crate) record: T,
}

/// Reads a file of records.
pub(crate) fn load<T: DeserializeOwned>(path: &str) -> Result<T> {
    serde_json::from_str(&read(path)?).with_context(|| format!("{path} holds no such records"))
}

/// Writes a file of records.
pub(crate) fn save<T: Serialize>(path: &str, records: &T) -> Result<()> {
    let text = serde_json::to_string_pretty(records)? + "\n";
    fs::write(root().join(path), text).with_context(|| format!("cannot write {path}"))
}

/// Writes a record with the place it was made at, and the documentation from it.
pub(crate) fn publish<T: Serialize>(path: &str, record: T) -> Result<()> {
    save(path, &Dated { place: Place::here()?, record })?;
    crate::docs::write()
}

/// A count with commas between the thousands.
pub(crate) fn grouped(count: u64) -> String {
    groupcommit_lab::report::number::grouped(count as f64)
}

/// A table in Markdown.
pub(crate) fn table(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let columns: Vec<(&str, &str)> = columns.iter().map(|name| (*name, "")).collect();
    markdown::table(&Table::new("", &columns).with_rows(rows))
}

/// A table of a figure per row.
pub(crate) fn figures(what: &str, rows: &[(&str, String)]) -> String {
    table(&[what, ""], rows.iter().map(|(name, figure)| vec![(*name).to_owned(), figure.clone()]))
}
