//! Commands in the documentation: every subcommand and option of our programs and of `cargo` that
//! it shows exists.
//!
//! Each command is run with `--help` at its end, which does nothing but refuses what it does not know.
//!
//! A command is a line of a code block marked `sh`, a line that begins with `$ ` in any other
//! block, or inline code that begins with the name of one of the programs.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use clap::Parser;

use crate::{
    Arguments,
    docs::markdown::Document,
    problem::Problem,
    program::{self, Programs},
};

pub(crate) fn check(
    path: &Path,
    document: &Document,
    programs: &Programs,
    problems: &mut Vec<Problem>,
) -> Result<()> {
    for (line, command) in commands(document) {
        let Some(words) = shlex::split(&command) else {
            problems.push(Problem::new(path, line, format!("`{command}` has an open quote")));
            continue;
        };
        let words: Vec<&str> = words.iter().map(String::as_str).take_while(|w| *w != "#").collect();
        if let Some(sentence) = fault(&words, programs)? {
            problems.push(Problem::new(path, line, format!("`{command}`: {sentence}")));
        }
    }
    Ok(())
}

/// The commands that a document shows, each with its line.
fn commands(document: &Document) -> Vec<(usize, String)> {
    let mut commands = Vec::new();
    for block in &document.blocks {
        let is_shell = block.value.language == "sh";
        let joined = block.value.text.replace("\\\n", " ");
        for (number, line) in joined.lines().enumerate() {
            let line = line.trim();
            match line.strip_prefix("$ ") {
                Some(command) => commands.push((block.line + number, command.to_owned())),
                None if is_shell => commands.push((block.line + number, line.to_owned())),
                None => {}
            }
        }
    }
    for inline in &document.inline {
        let mut words = inline.value.split_whitespace();
        let is_command =
            matches!(words.next(), Some("groupcommit" | "groupcommit-bench" | "cargo"))
                && words
                    .next()
                    .is_some_and(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()));
        if is_command {
            commands.push((inline.line, inline.value.clone()));
        }
    }
    commands
}

/// What is wrong with a command, if anything; programs other than ours and cargo pass.
fn fault(words: &[&str], programs: &Programs) -> Result<Option<String>> {
    match words {
        ["groupcommit", rest @ ..] => refusal(Command::new(&programs.groupcommit), rest),
        ["groupcommit-bench", rest @ ..] => refusal(Command::new(&programs.bench), rest),
        ["cargo", "xtask", rest @ ..] => Ok(fault_of_xtask(rest)),
        ["cargo", rest @ ..] => {
            let end = rest.iter().position(|word| *word == "--").unwrap_or(rest.len());
            let (own, passed) = (&rest[..end], rest.get(end + 1..).unwrap_or_default());
            let fault = refusal(program::cargo(), own)?;
            // With `--example` or another package it is another program's command line.
            let is_other = |word: &&str| matches!(*word, "--example" | "--package" | "-p");
            match own {
                _ if fault.is_some() => Ok(fault),
                ["run", ..] if own.contains(&"groupcommit-lab") => {
                    refusal(Command::new(&programs.bench), passed)
                }
                ["run", ..] if !own.iter().any(is_other) => {
                    refusal(Command::new(&programs.groupcommit), passed)
                }
                _ => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

/// What a program says against the command line.
fn refusal(mut program: Command, words: &[&str]) -> Result<Option<String>> {
    let output = program.args(words).arg("--help").stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {program:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    Ok((!output.status.success()).then(|| said.lines().next().unwrap_or_default().to_owned()))
}

fn fault_of_xtask(words: &[&str]) -> Option<String> {
    let line = ["cargo xtask"].iter().chain(words).chain(&["--help"]);
    let refused = Arguments::try_parse_from(line).err().filter(clap::Error::use_stderr);
    refused.map(|error| error.kind().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_taken_from_shells_prompts_and_inline_code() {
        let text = "Run `cargo xtask test` or `groupcommit = 1`.\n\n```sh\ncargo a \\\n  b\n```\n\n    $ ls\n    out\n";
        let found: Vec<String> =
            commands(&Document::parse(text)).into_iter().map(|(_, command)| command).collect();
        assert_eq!(found, ["cargo a    b", "ls", "cargo xtask test"]);
    }

    #[test]
    fn own_commands_are_parsed_as_they_would_be() {
        assert_eq!(fault_of_xtask(&["docs", "--check"]), None);
        assert!(fault_of_xtask(&["docs", "--chek"]).is_some());
        assert!(fault_of_xtask(&["nothing"]).is_some());
    }

    #[test]
    fn an_unknown_option_is_refused_and_a_known_one_is_not() {
        let refused = refusal(program::cargo(), &["build", "--bogus"]).expect("runs");
        assert!(refused.is_some_and(|sentence| sentence.contains("--bogus")));
        assert_eq!(refusal(program::cargo(), &["build", "--release"]).expect("runs"), None);
    }
}
