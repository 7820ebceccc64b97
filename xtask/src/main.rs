//! The project's own developer commands: `cargo xtask test`, `cargo xtask docs`,
//! `cargo xtask measure`, and the long forms of tests: `cargo xtask simulate`, `fuzz`, `endure` and
//! `hostile`.

mod docs;
mod endure;
mod experiments;
mod fuzz;
mod hostile;
mod layers;
mod libclang;
mod measure;
mod measured;
mod probe;
mod program;
mod root;
mod simulate;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's own developer commands.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check everything: format, lints, documentation, examples, tests, interleavings
    Test(test::Options),
    /// Write the generated parts of the documentation, and check all of it
    Docs(docs::Options),
    /// Measure what the README shows, and write the records to docs/measured
    Measure(measure::Options),
    /// Run the lab's experiments, and keep what came out in docs/measured
    Experiments(experiments::Options),
    /// Run the core's deterministic simulation over many seeds
    Simulate(simulate::Options),
    /// Feed hostile inputs to what reads them
    Fuzz(fuzz::Options),
    /// Let readers, writers and too much load go on for minutes, and check what they saw
    Endure(endure::Options),
    /// Run hostile transactions from many seeds, and compare each with running them one by one
    Hostile(hostile::Options),
    /// One measurement that `measure` starts in a process of its own; prints a JSON record
    #[command(hide = true)]
    Probe(probe::Options),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Test(options) => test::run(&options),
        Command::Docs(options) => docs::run(&options),
        Command::Measure(options) => measure::run(&options),
        Command::Experiments(options) => experiments::run(&options),
        Command::Simulate(options) => simulate::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Endure(options) => endure::run(&options),
        Command::Hostile(options) => hostile::run(&options),
        Command::Probe(options) => probe::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
