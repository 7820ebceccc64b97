//! Power cuts and failing disks: what survives them, measured on ext4 and loop devices.
//!
//! ```text
//!   harness ──starts──► writer ──submits──► database ──► ext4 ──► loop device
//!      ▲                  │ appends                         ✂ the power is cut
//!      └── judges ◄── records of what was acknowledged
//! ```
//!
//! Run by `cargo xtask powercut` and `cargo xtask faults`; needs root. The harness cuts, waits and
//! judges; a disk in user space is served by another process, and so are writers and workers.

mod case;
mod companion;
mod control;
mod cuts;
mod disk;
mod faults;
mod full;
mod medium;
mod plan;
mod powercut;
mod record;
mod row;
mod schedule;
mod served;
mod shutdown;
mod subject;
mod sweep;
mod verify;
mod worker;
mod writer;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Power cuts and failing disks.
#[derive(Debug, Parser)]
#[command(name = "groupcommit-power", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Cut the power of a file system under a database, again and again
    Powercut(cuts::Options),
    /// Make a disk fail at every write and flush
    Faults(faults::Options),
    /// Take away what runs left behind that were killed; every run begins with it
    Sweep(SweepOptions),
    /// The process that serves a disk
    #[command(hide = true)]
    Disk,
    /// The process that has the database open while a disk fails
    #[command(hide = true)]
    Worker(WorkerOptions),
    /// The process that writes until the power is cut
    #[command(hide = true)]
    Writer(powercut::WriterOptions),
}

/// Options of the hidden `worker`.
#[derive(Debug, clap::Args)]
struct WorkerOptions {
    #[arg(long)]
    engine: subject::Engine,
}

/// Options of `sweep`.
#[derive(Debug, clap::Args)]
struct SweepOptions {
    /// The folder in which the runs had their images and mounts [default: /dev/shm, else the
    /// temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<std::path::PathBuf>,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Powercut(options) => powercut::run(&options),
        Command::Faults(options) => faults::run(&options),
        Command::Sweep(options) => {
            sweep::sweep(&powercut::folder(options.dir.as_deref()));
            Ok(())
        }
        Command::Disk => disk::serve(),
        Command::Worker(options) => worker::serve(options.engine),
        Command::Writer(options) => powercut::run_writer(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("groupcommit-power: {error:#}");
            ExitCode::FAILURE
        }
    }
}
