//! `cargo xtask docs`: writes what is generated in the documentation, and checks all of it, so that
//! no number, link, command, path or name of a test in it goes stale.

mod blocks;
mod commands;
mod links;
mod markdown;
mod sources;

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{
    measure,
    problem::Problem,
    program::{self, Programs},
    root::{documents, read, root},
    transcript,
};

/// Options of `cargo xtask docs`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Write nothing; fail when a generated part is stale
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if !options.check {
        write()?;
    }
    check()
}

/// Fails when anything in the documentation is stale or wrong.
pub(crate) fn check() -> Result<()> {
    let programs = Programs::build()?;
    let program = &programs.groupcommit;
    let mut problems = Vec::new();
    for path in documents()? {
        let text = read(&path)?;
        let document = markdown::Document::parse(&text);
        blocks::check(&path, &text, program, &mut problems)?;
        links::check(&path, &document, &mut problems)?;
        commands::check(&path, &document, &programs, &mut problems)?;
        sources::check_paths(&path, &document, &mut problems);
        sources::check_versions(&path, &text, &mut problems)?;
    }
    for (path, fresh) in measure::files()? {
        if read(path).ok().as_ref() != Some(&fresh) {
            problems.push(Problem::new(Path::new(path), 1, "stale; run `cargo xtask docs`"));
        }
    }
    sources::check_promises(&mut problems)?;
    transcript::check(program, &mut problems)?;
    if problems.is_empty() {
        return Ok(());
    }
    for Problem { place, sentence } in &problems {
        eprintln!("{place}: {sentence}");
    }
    bail!("{} places in the documentation are wrong", problems.len())
}

/// Writes the generated parts.
pub(crate) fn write() -> Result<()> {
    let program = program::groupcommit(false)?;
    for (path, fresh) in measure::files()? {
        fs::write(root().join(path), fresh).with_context(|| format!("cannot write {path}"))?;
    }
    for path in documents()? {
        let text = read(&path)?;
        let fresh = blocks::fill(&path, &text, &program)?;
        if fresh != text {
            fs::write(root().join(&path), fresh)
                .with_context(|| format!("cannot write {}", path.display()))?;
            println!("written: {}", path.display());
        }
    }
    Ok(())
}
