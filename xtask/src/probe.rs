//! Measurements that are no benchmark of throughput, each in a process of its own, so that threads,
//! memory and CPU time are its own.

mod databases;
mod ingest;
mod memory;
mod rejected;
#[cfg(all(feature = "lmdb", feature = "rocksdb"))]
mod rejected_keyed;
mod rejected_server;

use std::{path::PathBuf, sync::mpsc};

use anyhow::Result;
use clap::{Args, Subcommand};
use groupcommit::{
    Ticket,
    sqlite::{Database, rusqlite},
};
use serde::Serialize;

/// Options of the hidden command.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// One rejected among a thousand at once
    Rejected { folder: PathBuf },
    /// The same on a key-value engine
    #[cfg(all(feature = "lmdb", feature = "rocksdb"))]
    RejectedKeyed { engine: rejected_keyed::Engine, folder: PathBuf },
    /// The same on a server
    RejectedServer { url: String },
    /// Memory of queued transactions
    Memory { folder: PathBuf },
    /// A thousand open databases
    Databases { folder: PathBuf },
    /// The full data set, against one commit a record
    Ingest { folder: PathBuf, program: PathBuf, input: PathBuf, repeat: u64 },
}

pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.what {
        What::Rejected { folder } => print(&rejected::measure(folder)?),
        #[cfg(all(feature = "lmdb", feature = "rocksdb"))]
        What::RejectedKeyed { engine, folder } => print(&rejected_keyed::measure(*engine, folder)?),
        What::RejectedServer { url } => print(&rejected_server::measure(url)?),
        What::Memory { folder } => print(&memory::measure(folder)?),
        What::Databases { folder } => print(&databases::measure(folder)?),
        What::Ingest { folder, program, input, repeat } => {
            print(&ingest::measure(folder, program, input, *repeat)?)
        }
    }
}

fn print(record: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(record)?);
    Ok(())
}

/// Holds a database up: what is submitted after it queues until `release` is called.
struct HeldUp {
    let_go: mpsc::Sender<()>,
    ticket: Ticket<(), rusqlite::Error>,
}

impl HeldUp {
    fn new(db: &Database) -> Result<Self> {
        let (let_go, held) = mpsc::channel::<()>();
        let (started, has_started) = mpsc::channel();
        let ticket = db.submit(move |_| {
            let _nobody_listens = started.send(());
            let _until_let_go = held.recv();
            Ok(())
        });
        // From here on its group is formed, and nothing joins it.
        has_started.recv()?;
        Ok(Self { let_go, ticket })
    }

    fn release(self) -> Result<()> {
        drop(self.let_go);
        Ok(self.ticket.wait()?)
    }
}
