//! Commands in the documentation: every subcommand and option of our programs and of `cargo` that
//! it shows exists.
//!
//! A command is a line of a code block marked `sh`, a line that begins with `$ ` in any other
//! block, or inline code that begins with the name of one of the programs.

use std::{collections::HashMap, path::Path};

use anyhow::{Context, Result};
use clap::Parser;

use crate::{
    Arguments,
    docs::{Problem, markdown::Document},
    program::{self, Programs},
};

pub(crate) fn check(
    path: &Path,
    document: &Document,
    programs: &Programs,
    problems: &mut Vec<Problem>,
) -> Result<()> {
    let mut helps = Helps { programs, known: HashMap::new() };
    for (line, command) in commands(document) {
        let Some(words) = shlex::split(&command) else {
            problems.push(Problem::new(path, line, format!("`{command}` has an open quote")));
            continue;
        };
        if let Some(sentence) = helps.fault(&words)? {
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

/// The help texts of what is named, asked for once.
struct Helps<'a> {
    programs: &'a Programs,
    known: HashMap<Vec<String>, String>,
}

impl Helps<'_> {
    /// What is wrong with a command, if anything; programs other than ours and cargo pass.
    fn fault(&mut self, words: &[String]) -> Result<Option<String>> {
        let words: Vec<&str> = words.iter().map(String::as_str).take_while(|w| *w != "#").collect();
        match words.as_slice() {
            ["groupcommit", rest @ ..] => self.fault_of_program(&self.programs.groupcommit, rest),
            ["groupcommit-bench", rest @ ..] => self.fault_of_program(&self.programs.bench, rest),
            ["cargo", "xtask", rest @ ..] => Ok(fault_of_xtask(rest)),
            ["cargo", "run", rest @ ..] => {
                let (own, passed) = split_at_dashes(rest);
                if let Some(fault) = self.fault_of_cargo("run", own)? {
                    return Ok(Some(fault));
                }
                // With `--example` or another package it is another program's command line.
                let is_other = |word: &&str| matches!(*word, "--example" | "--package" | "-p");
                if own.contains(&"groupcommit-lab") {
                    self.fault_of_program(&self.programs.bench, passed)
                } else if own.iter().any(is_other) {
                    Ok(None)
                } else {
                    self.fault_of_program(&self.programs.groupcommit, passed)
                }
            }
            ["cargo", subcommand, rest @ ..] => {
                self.fault_of_cargo(subcommand, split_at_dashes(rest).0)
            }
            _ => Ok(None),
        }
    }

    fn fault_of_program(&mut self, program: &Path, words: &[&str]) -> Result<Option<String>> {
        let mut subcommands: Vec<String> = Vec::new();
        let mut rest = words;
        loop {
            let help = self.help(program, &subcommands)?;
            let listed = subcommands_in(&help);
            match rest {
                [next, tail @ ..] if listed.iter().any(|name| name == next) => {
                    subcommands.push((*next).to_owned());
                    rest = tail;
                }
                [next, ..] if !listed.is_empty() && !next.starts_with('-') => {
                    return Ok(Some(format!("there is no subcommand `{next}`")));
                }
                _ => return Ok(unknown_option(&help, rest)),
            }
        }
    }

    fn help(&mut self, program: &Path, subcommands: &[String]) -> Result<String> {
        let key = [&[program.display().to_string()], subcommands].concat();
        if let Some(help) = self.known.get(&key) {
            return Ok(help.clone());
        }
        let mut arguments: Vec<&str> = subcommands.iter().map(String::as_str).collect();
        arguments.push("--help");
        let help = program::output_of(program, &arguments)?;
        self.known.insert(key, help.clone());
        Ok(help)
    }

    fn fault_of_cargo(&mut self, subcommand: &str, words: &[&str]) -> Result<Option<String>> {
        let key = vec!["cargo".to_owned(), subcommand.to_owned()];
        if !self.known.contains_key(&key) {
            let output = program::cargo()
                .args([subcommand, "--help"])
                .output()
                .context("cannot start cargo")?;
            if !output.status.success() {
                return Ok(Some(format!("cargo has no subcommand `{subcommand}`")));
            }
            let help = String::from_utf8_lossy(&output.stdout).into_owned();
            self.known.insert(key.clone(), help);
        }
        Ok(unknown_option(&self.known[&key], words))
    }
}

fn fault_of_xtask(words: &[&str]) -> Option<String> {
    let line = std::iter::once("cargo xtask").chain(words.iter().copied());
    match Arguments::try_parse_from(line) {
        Ok(_) => None,
        Err(error) => error.use_stderr().then(|| error.kind().to_string()),
    }
}

fn split_at_dashes<'a>(words: &'a [&'a str]) -> (&'a [&'a str], &'a [&'a str]) {
    match words.iter().position(|word| *word == "--") {
        Some(position) => (&words[..position], &words[position + 1..]),
        None => (words, &[]),
    }
}

fn subcommands_in(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect()
}

fn unknown_option(help: &str, words: &[&str]) -> Option<String> {
    let known: Vec<&str> = help
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']' | '=' | '(' | ')' | '.'))
        .collect();
    let name = |word: &str| word.split('=').next().unwrap_or(word).to_owned();
    words
        .iter()
        .filter(|word| word.len() > 1 && word.starts_with('-'))
        .map(|word| name(word))
        .find(|option| !known.contains(&option.as_str()))
        .map(|option| format!("there is no option `{option}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "\
Usage: p [OPTIONS] <COMMAND>

Commands:
  ingest  Load
  bench   Measure

Options:
  -t, --table <NAME>  Table
      --null=<TEXT>   Text
";

    #[test]
    fn subcommands_and_options_are_read_from_the_help() {
        assert_eq!(subcommands_in(HELP), ["ingest", "bench"]);
        assert_eq!(unknown_option(HELP, &["-t", "x", "--table=y", "--null", "NA", "-"]), None);
        let unknown = unknown_option(HELP, &["--tables", "x"]).expect("unknown");
        assert!(unknown.contains("`--tables`"), "{unknown}");
    }

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
}
