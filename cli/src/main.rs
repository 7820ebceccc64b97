//! The `groupcommit` program.
//!
//! Each subcommand lives in a module of its own and returns how the program ends; this file only
//! parses the command line and turns that end into an exit code.

mod exit;
mod ingest;
#[cfg(feature = "serve")]
mod serve;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

// A server allocates for each request on one thread and frees on another, which costs the system's
// allocator more than reading the request.
#[cfg(feature = "serve")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Fast durable writes: concurrent transactions share one commit and one fsync
#[derive(Parser)]
#[command(name = "groupcommit", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// What the program can do.
#[derive(Subcommand)]
enum Command {
    /// Load CSV, NDJSON or SQL into a database, every record its own durable transaction
    Ingest(Box<ingest::Options>),
    #[cfg(feature = "serve")]
    Serve(serve::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let end = match &arguments.command {
        Command::Ingest(options) => ingest::run(options),
        #[cfg(feature = "serve")]
        Command::Serve(options) => serve::run(options),
    };
    match end {
        Ok(exit) => exit.into(),
        Err(problem) => {
            // A closed standard error leaves nobody to tell; the exit code still says it.
            drop(writeln!(std::io::stderr(), "groupcommit: {problem}"));
            problem.exit.into()
        }
    }
}
