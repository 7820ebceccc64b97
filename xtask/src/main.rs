//! The project's own developer commands: `cargo xtask test`, `docs`, `api` and `measure`, and the long forms of tests: `simulate`, `fuzz`, `endure`, `hostile`, `powercut`,
//! `faults`, `mutants`, and `torture` for all of them; and `servers`.

mod api;
mod docs;
mod endure;
mod fuzz;
mod hang;
mod hostile;
mod languages;
mod libclang;
mod measure;
mod mutants;
mod power;
mod problem;
mod program;
mod records;
mod root;
mod served;
mod servers;
mod simulate;
mod test;
mod torture;
mod transcript;

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
    /// Check everything: format, lints, documentation, examples, tests, interleavings, short forms of
    /// power cuts, failing disks and mutants
    Test(test::Options),
    /// Write the generated parts of the documentation, and check all of it
    Docs(docs::Options),
    /// Write the listing of what each published library offers into docs/api
    Api,
    /// Run the experiments that the documentation shows, and keep their records in
    /// docs/measured/experiments
    Measure(measure::Options),
    /// Run the core's deterministic simulation over many seeds
    Simulate(simulate::Options),
    /// Feed hostile inputs to what reads them
    Fuzz(fuzz::Options),
    /// Let readers, writers and too much load go on for minutes, and check what they saw
    Endure(endure::Options),
    /// Run hostile transactions from many seeds, and compare each with running them one by one
    Hostile(hostile::Options),
    /// Cut the power of a file system under a database, again and again (root)
    Powercut(power::CutOptions),
    /// Make a disk fail at every write and flush (root)
    Faults(power::FaultOptions),
    /// Break a promise on purpose, and see that tests and power cuts notice (power cuts: root)
    Mutants(mutants::Options),
    /// Run all the long forms: simulate, fuzz, hostile, faults, mutants, powercut, endure (root)
    Torture(torture::Options),
    /// Start, stop or list throw-away database servers
    Servers(servers::Options),
}

/// What a command came to that may lack rights or programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    Ran,
    /// It has said what is missing.
    Skipped,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<Done> {
    let done = match command {
        Command::Test(options) => test::run(&options),
        Command::Docs(options) => docs::run(&options),
        Command::Api => api::write(),
        Command::Measure(options) => measure::measure(&options),
        Command::Simulate(options) => simulate::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Endure(options) => endure::run(&options),
        Command::Hostile(options) => hostile::run(&options),
        Command::Powercut(options) => return power::cut(&options),
        Command::Faults(options) => return power::faults(&options),
        Command::Mutants(options) => return mutants::run(&options),
        Command::Torture(options) => torture::run(&options),
        Command::Servers(options) => servers::run(&options),
    };
    done.map(|()| Done::Ran)
}
