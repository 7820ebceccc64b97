//! `cargo xtask mutants`: builds in which one promise is broken on purpose. Tests that do not notice
//! prove nothing.
//!
//! Each mutant is a patch, applied to a copy of the sources; the sources themselves know nothing of
//! them. A patch that no longer applies is an error. Some must be caught by an ordinary test, some by
//! power cuts; the simulation looks for those of the core by itself.

pub(crate) mod copy;
mod cycles;
mod ordinary;

use anyhow::{Result, ensure};
use clap::Args;

use crate::Done;

/// Options of `cargo xtask mutants`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What the random choices are made from
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// How many seeds of power cuts to try each mutant with, instead of going on to the next once it
    /// is caught
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,

    /// Only the mutants whose names begin so
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,

    /// Leave out the power cuts, which need root
    #[arg(long)]
    without_cuts: bool,

    /// Keep the figures in docs/measured, for `cargo xtask docs` to write into the documentation
    #[arg(long)]
    save: bool,
}

pub(crate) fn run(options: &Options) -> Result<Done> {
    let by_tests = ordinary::named(&options.only);
    let mut by_cycles = cycles::named(&options.only);
    by_cycles.retain(|_| !options.without_cuts);
    ensure!(!by_tests.is_empty() || !by_cycles.is_empty(), "there is no mutant `{}`", options.only);
    ordinary::catch(&by_tests, options.save)?;
    cycles::catch(&by_cycles, options)
}

/// The short form, for `cargo xtask test`.
pub(crate) fn short() -> Result<()> {
    ordinary::catch(&ordinary::named("fdatasync-skipped"), false)?;
    let options =
        Options { seed: 1, seeds: None, only: String::new(), without_cuts: false, save: false };
    cycles::catch(&cycles::named(""), &options).map(drop)
}

pub(crate) use ordinary::table;
