//! The transcript of the README: recorded by `cargo xtask measure`, and compared, figures apart,
//! with what the program says now.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{
    problem::Problem,
    root::{read, root},
};

/// Where it is kept.
pub(crate) const FILE: &str = "docs/measured/first-command.txt";

/// The arguments of the README's first command, the database's path apart.
const ARGUMENTS: [&str; 5] = ["--table", "flights", "--null", "NA", "data/flights-sample.csv"];

/// The first command as a reader types it.
pub(crate) fn command_line() -> String {
    format!("cargo run --release -- ingest flights.db {}", ARGUMENTS.join(" "))
}

/// Runs the first command on a new database and returns all that it writes.
fn run(program: &Path) -> Result<String> {
    let folder = tempfile::tempdir().context("cannot create a folder")?;
    let output = Command::new(program)
        .arg("ingest")
        .arg(folder.path().join("flights.db"))
        .args(ARGUMENTS)
        .current_dir(root())
        .output()
        .context("cannot start groupcommit")?;
    ensure!(output.status.success(), "`{}` ended with {}", command_line(), output.status);
    let said = [output.stderr, output.stdout].concat();
    String::from_utf8(said).context("groupcommit wrote no text")
}

/// Records the transcript, with the figures of this machine.
pub(crate) fn record(program: &Path) -> Result<()> {
    fs::write(root().join(FILE), run(program)?).context("cannot write the transcript")
}

/// The transcript as the README shows it.
pub(crate) fn block() -> Result<String> {
    Ok(format!("```console\n$ {}\n{}```\n", command_line(), read(FILE)?))
}

/// Compares what is recorded with what the program says now, figures apart.
pub(crate) fn check(program: &Path, problems: &mut Vec<Problem>) -> Result<()> {
    let (recorded, now) = (without_figures(&read(FILE)?), without_figures(&run(program)?));
    if recorded != now {
        let sentence =
            format!("the program now says something else; run `cargo xtask measure`:\n{now}");
        problems.push(Problem::new(Path::new(FILE), 1, sentence));
    }
    Ok(())
}

/// A text with every number replaced by `#`.
pub(crate) fn without_figures(text: &str) -> String {
    let mut masked = String::new();
    let mut in_number = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let goes_on = in_number
            && matches!(character, '.' | ',')
            && characters.peek().is_some_and(char::is_ascii_digit);
        if character.is_ascii_digit() || goes_on {
            if !in_number {
                masked.push('#');
            }
            in_number = true;
        } else {
            masked.push(character);
            in_number = false;
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_masked_and_words_are_not() {
        assert_eq!(without_figures("p50 1.25 ms, 1,500 records."), "p# # ms, # records.");
    }
}
