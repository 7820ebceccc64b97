//! Tables of constants, from the source that declares them: value, unit and meaning in one place.

use std::fmt::Write as _;

use anyhow::{Result, bail};

use crate::root::read;

/// One constant as it is declared.
#[derive(Debug, PartialEq, Eq)]
struct Constant {
    name: String,
    value: String,
    meaning: String,
}

/// A table of the constants named in `words`: a path, then the names in it, then another path, ...
pub(crate) fn table(words: &[&str]) -> Result<String> {
    let mut table = String::from("| constant | value | meaning |\n|---|---|---|\n");
    let (mut path, mut found) = ("", Vec::new());
    for word in words {
        if word.contains('/') {
            path = word;
            found = declared(&read(path)?);
            continue;
        }
        let Some(constant) = found.iter().find(|constant| constant.name == *word) else {
            bail!("{path} declares no constant {word}");
        };
        let Constant { name, value, meaning } = constant;
        writeln!(table, "| [`{name}`](../{path}) | {value} | {meaning} |")?;
    }
    Ok(table)
}

/// The documented constants of a source file.
fn declared(source: &str) -> Vec<Constant> {
    let mut constants = Vec::new();
    let mut meaning = String::new();
    for line in source.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("///") {
            if !meaning.is_empty() {
                meaning.push(' ');
            }
            meaning.push_str(comment.trim());
            continue;
        }
        let declaration = line.split_once("const ").and_then(|(before, rest)| {
            matches!(before.trim(), "" | "pub" | "pub(crate)").then_some(rest)
        });
        if let Some((name, rest)) = declaration.and_then(|rest| rest.split_once(':'))
            && let Some((_, value)) = rest.split_once('=')
        {
            constants.push(Constant {
                name: name.to_owned(),
                value: readable(value.trim().trim_end_matches(';')),
                meaning: plain(&meaning),
            });
        }
        if !line.starts_with("#[") {
            meaning.clear();
        }
    }
    constants
}

/// A value as people write it; as it stands in the source where it is nothing common.
fn readable(value: &str) -> String {
    let call = |name: &str| value.strip_prefix(name)?.strip_suffix(')');
    if let Some(number) = value.strip_suffix(" << 20") {
        return format!("{number} MiB");
    }
    for (name, unit) in [
        ("Duration::from_secs(", "s"),
        ("Duration::from_millis(", "ms"),
        ("Duration::from_micros(", "µs"),
    ] {
        if let Some(number) = call(name) {
            return format!("{number} {unit}");
        }
    }
    value.replace('_', ",")
}

/// The first sentence of a comment, without links into the code.
fn plain(comment: &str) -> String {
    let sentence = comment.split_inclusive(". ").next().unwrap_or(comment);
    sentence.replace("[`", "`").replace("`]", "`").trim().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_come_with_value_and_meaning() {
        let source = "\
/// The most threads, see [`Pool`]. More.
pub const THREADS_MAX: usize = 12;
const QUIET: u64 = 1_000;
/// Bytes
/// at once.
#[cfg(not(shuttle))]
pub(crate) const BYTES: usize = 16 << 20;
/// A while.
const WHILE: Duration = Duration::from_secs(5);
";
        let shown: Vec<String> = declared(source)
            .into_iter()
            .map(|constant| format!("{}|{}|{}", constant.name, constant.value, constant.meaning))
            .collect();
        assert_eq!(
            shown,
            [
                "THREADS_MAX|12|The most threads, see `Pool`",
                "QUIET|1,000|",
                "BYTES|16 MiB|Bytes at once",
                "WHILE|5 s|A while",
            ]
        );
    }
}
