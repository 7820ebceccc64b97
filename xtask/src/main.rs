//! The project's own developer commands: `cargo xtask test`, `cargo xtask docs`,
//! `cargo xtask measure`.

mod docs;
mod experiments;
mod layers;
mod measure;
mod measured;
mod probe;
mod program;
mod root;
mod servers;
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
    /// Start, stop or list throw-away database servers
    Servers(servers::Options),
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
        Command::Servers(options) => servers::run(&options),
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
