//! What a call of `powercut` is asked for, and what it came to.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::{control::Control, medium, subject::Engine};

/// Options of `powercut`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// How often to cut the power
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) cycles: u64,

    /// What the random choices are made from
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,

    /// The first cycle: to replay a failure from where its database began
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) first: u64,

    /// The engine under test
    #[arg(long, value_enum, default_value_t = Engine::Sqlite)]
    pub(crate) engine: Engine,

    /// What loses power
    #[arg(long, value_enum, default_value_t = medium::Kind::Shutdown)]
    pub(crate) medium: medium::Kind,

    /// Write through `PROGRAM serve`, from clients that send each request again, with its key, until it
    /// is answered; SQLite only
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) serve: Option<PathBuf>,

    /// Leave out the control: who looks for violations needs none to believe in those that are found
    #[arg(long)]
    pub(crate) without_control: bool,

    /// The folder for the image of the file system [default: /dev/shm, else the temporary folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Write the record as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

/// What a call came to.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Record {
    pub(crate) engine: &'static str,
    pub(crate) medium: &'static str,
    pub(crate) seed: u64,
    pub(crate) cycles: u64,
    /// Databases that were begun afresh.
    pub(crate) databases: u64,
    pub(crate) acknowledged: u64,
    /// Transactions whose outcome was unknown: in flight when the power went.
    pub(crate) unknown: u64,
    /// Submitted again under their tokens, after a kill, a cut or a failure, and not applied again.
    pub(crate) repeated: u64,
    /// Writers that were killed before a cut.
    pub(crate) kills: u64,
    /// Writes of the device that were made to fail.
    pub(crate) failed_writes: u64,
    /// Acknowledged while the power was being cut, and how many of these were gone.
    pub(crate) late: u64,
    pub(crate) late_lost: u64,
    pub(crate) control: Control,
    pub(crate) lost: u64,
    pub(crate) holes: u64,
    pub(crate) partial: u64,
    pub(crate) false_refusals: u64,
    pub(crate) untrue_reads: u64,
    pub(crate) other: u64,
    pub(crate) seconds: f64,
}
