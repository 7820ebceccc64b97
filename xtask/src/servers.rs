//! `cargo xtask servers`: throw-away database servers, which live until they are stopped. The tests
//! start their own through the same code.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use groupcommit_testkit::servers::{
    self, Life, mysql,
    postgres::{self, Kind},
};

/// Options of `cargo xtask servers`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start one PostgreSQL, one with two synchronous replicas, one MariaDB, and a Galera cluster of
    /// three nodes; installs them where that is allowed and needed
    Start,
    /// Stop what `start` started, and remove what a killed run left behind
    Stop,
    /// Say which servers run, and at which URL
    Status,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    match options.action {
        Action::Start => start(),
        Action::Stop => stop(),
        Action::Status => status(),
    }
}

fn start() -> Result<()> {
    for (name, kind) in [
        ("PostgreSQL", Kind::Single),
        ("PostgreSQL with two synchronous replicas", Kind::Replicated),
    ] {
        let started =
            postgres::start(kind, Life::Kept).with_context(|| format!("cannot start {name}"))?;
        println!("{name}: {}", started.url());
    }
    for (name, kind) in
        [("MariaDB", mysql::Kind::Single), ("Galera with three nodes", mysql::Kind::Galera)]
    {
        let started =
            mysql::start(kind, Life::Kept).with_context(|| format!("cannot start {name}"))?;
        println!("{name}: {}", started.url());
    }
    Ok(())
}

fn stop() -> Result<()> {
    for folder in servers::sweep(true)? {
        println!("stopped {}", folder.display());
    }
    Ok(())
}

fn status() -> Result<()> {
    let mut folders: Vec<PathBuf> =
        fs::read_dir(servers::home()?)?.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    for folder in &folders {
        match fs::read_to_string(folder.join("url")) {
            Ok(url) => println!("{url} in {}", folder.display()),
            Err(_) => println!("starting or half gone: {}", folder.display()),
        }
    }
    if folders.is_empty() {
        println!("no server runs");
    }
    Ok(())
}
