//! The records of the long tests in `docs/measured`, and what their tables share.

use std::{fs, process::Command};

use anyhow::{Context, Result};
use groupcommit_lab::report::{
    markdown,
    model::{Column, Table},
    number,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

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

/// Runs of one kind, the last of each key.
#[derive(Debug, Serialize, Deserialize)]
struct All {
    runs: Vec<Dated<Value>>,
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

/// Writes a record with the place it was made at; `cargo xtask docs` writes the documentation from it.
pub(crate) fn publish<T: Serialize>(path: &str, record: T) -> Result<()> {
    save(path, &Dated { place: Place::here()?, record })
}

/// Puts `run` in place of the one that has the same under each key, or at the end.
pub(crate) fn keep<T: Serialize>(path: &str, run: Dated<T>, keys: &[&str]) -> Result<()> {
    let exists = root().join(path).exists();
    let mut all = if exists { load(path)? } else { All { runs: Vec::new() } };
    let run = Dated { place: run.place, record: serde_json::to_value(run.record)? };
    let is_same = |known: &&mut Dated<Value>| keys.iter().all(|k| known.record[k] == run.record[k]);
    match all.runs.iter_mut().find(is_same) {
        Some(known) => *known = run,
        None => all.runs.push(run),
    }
    save(path, &all)
}

/// The runs that are kept, each with its place in words.
pub(crate) fn runs(path: &str) -> Result<Vec<Value>> {
    Ok(load::<All>(path)?.runs.into_iter().map(Dated::placed).collect())
}

/// The record of a file that holds one, with its [`Place`] in words as `place`.
pub(crate) fn load_one(path: &str) -> Result<Value> {
    load::<Dated<Value>>(path).map(Dated::placed)
}

impl Dated<Value> {
    /// The record with its place in words as `place`.
    pub(crate) fn placed(self) -> Value {
        let mut record = self.record;
        record["place"] = self.place.text().into();
        record
    }
}

/// The template with each `{KEY}` or `{KEY/KEY}` replaced by what the record holds there: a text, or a
/// number with commas between the thousands.
pub(crate) fn filled(template: &str, record: &Value) -> Result<String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (key, left) = after.split_once('}').context("a key without its end")?;
        let value = record.pointer(&format!("/{key}"));
        text.push_str(before);
        text.push_str(&match value.with_context(|| format!("the record has no {key}"))? {
            Value::String(said) => said.clone(),
            Value::Number(number) => number::grouped(number.as_f64().unwrap_or(f64::NAN)),
            other => other.to_string(),
        });
        rest = left;
    }
    Ok(text + rest)
}

/// A table with a row a record: the heads of the columns, and a template for their cells.
pub(crate) fn table_of(columns: &[(&str, &str)], records: &Value) -> Result<String> {
    let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    let row = |record| columns.iter().map(|(_, cell)| filled(cell, record)).collect();
    let records = records.as_array().context("no list of records")?;
    Ok(table(&heads, records.iter().map(row).collect::<Result<Vec<_>>>()?))
}

/// A table of one record: a name and a template for the figure per row.
pub(crate) fn figures_of(what: &str, record: &Value, rows: &[(&str, &str)]) -> Result<String> {
    let row = |&(name, figure): &(_, &str)| Ok((name, filled(figure, record)?));
    Ok(figures(what, &rows.iter().map(row).collect::<Result<Vec<_>>>()?))
}

/// A count with commas between the thousands.
pub(crate) fn grouped(count: u64) -> String {
    number::grouped(count as f64)
}

/// A table in Markdown.
pub(crate) fn table(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let column = |name: &&str| Column { name: (*name).to_owned(), unit: "" };
    let columns = columns.iter().map(column).collect();
    markdown::table(&Table { columns, rows: rows.into_iter().collect(), ..Table::default() })
}

/// A table of a figure per row.
pub(crate) fn figures(what: &str, rows: &[(&str, String)]) -> String {
    table(&[what, ""], rows.iter().map(|(name, figure)| vec![(*name).to_owned(), figure.clone()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_filled_from_the_record_or_refused() {
        let record = serde_json::json!({"a": {"n": 1_234}, "s": "text", "f": 2.6});
        assert_eq!(filled("{a/n} of {s}, {f} s", &record).expect("filled"), "1,234 of text, 3 s");
        assert!(filled("{b}", &record).is_err() && filled("{a", &record).is_err());
    }
}
