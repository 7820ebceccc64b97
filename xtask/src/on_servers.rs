//! `cargo xtask measure-servers`: what groupcommit is asked to show on servers, on throw-away ones, in
//! release builds; writes `docs/measured` and then the generated parts of the documentation.
//!
//! 1. One server, or set of servers, runs at a time, and nothing is measured beside it.
//! 2. Each server's records are replaced as a whole and those of the others stay, so that servers can
//!    be measured apart, or again; each record says when and where.

mod records;
pub(crate) mod tables;

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use groupcommit_lab::{measurement::Results, setting::Queries};
use groupcommit_testkit::servers::{
    Life, Trouble, mysql,
    postgres::{self, Kind},
};
use serde::{Deserialize, Serialize};

use crate::{docs, program};
use records::{Records as _, WebOn, WebRecords, WriteOn, WriteRecords};

pub(crate) use records::Rejected;

/// What the programs are built with.
const FEATURES: [&str; 2] = ["postgres", "mysql"];

/// Callers of groupcommit in pure write: transactions in flight.
const IN_FLIGHT: usize = 1_000;

/// What is measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Target {
    /// PostgreSQL alone
    Postgres,
    /// PostgreSQL with two synchronous replicas, of which either has to confirm a commit
    Replicas,
    /// MariaDB alone
    Mariadb,
    /// A Galera cluster of three nodes
    Galera,
    /// SQLite, beside the servers, for the requests of a web application
    Sqlite,
}

impl Target {
    fn title(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::Replicas => "PostgreSQL with two synchronous replicas (`ANY 1`)",
            Self::Mariadb => "MariaDB",
            Self::Galera => "Galera, three nodes",
            Self::Sqlite => "SQLite",
        }
    }

    /// Whether pure write is measured on it here.
    fn has_write(self) -> bool {
        self != Self::Sqlite
    }

    /// Whether the requests of a web application are. No query waits in a file.
    fn has_web(self, queries: Queries) -> bool {
        match queries {
            Queries::Work => matches!(self, Self::Postgres | Self::Mariadb | Self::Sqlite),
            Queries::Wait => matches!(self, Self::Postgres | Self::Mariadb),
        }
    }
}

/// One part of the measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Rows, each a transaction: through groupcommit, 25 connections, and one; and one failing among
    /// a thousand
    Write,
    /// Requests of a web application, whose queries work for the database's processor
    Web,
    /// The same with queries that wait in the server
    WebWait,
}

/// Options of `cargo xtask measure-servers`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What to measure on; the records of the others stay as they are
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "postgres,replicas,mariadb,galera,sqlite"
    )]
    on: Vec<Target>,

    /// Which parts to measure; the records of the others stay as they are
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "write,web,web-wait")]
    part: Vec<Part>,

    /// How often to measure each setting; medians are recorded
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeat: u64,

    /// End a measurement of writing after so many seconds
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    seconds_limit: f64,

    /// Rows to write at most, in each measurement
    #[arg(long, value_name = "N", default_value_t = 500_000)]
    rows: u64,

    /// Requests in each measurement under normal and under high load
    #[arg(long, value_name = "N", default_value_t = 100)]
    requests: u64,

    /// Requests that arrive at once
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    at_once: u64,

    /// The folder for SQLite's databases; the servers put theirs into the folder of temporary files
    /// (TMPDIR) [default: that one too]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Keep the lab's records in this folder, and draw its report of them there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(options.repeat >= 3, "a median needs --repeat 3 at least");
    let program = program::bench(&FEATURES, true)?;
    let xtask = program::build_with("xtask", "xtask", &FEATURES, true)?;
    let temporary = std::env::temp_dir();
    let folder = tempfile::tempdir_in(options.dir.as_deref().unwrap_or(&temporary))
        .context("cannot create a folder for the records")?;
    let out = options.out.clone().unwrap_or_else(|| folder.path().join("out"));
    let session =
        Session { options, program: &program, xtask: &xtask, folder: folder.path(), out: &out };
    let mut folders = Vec::new();
    for &target in &options.on {
        let parts = |part: &Part| match part {
            Part::Write => target.has_write(),
            Part::Web => target.has_web(Queries::Work),
            Part::WebWait => target.has_web(Queries::Wait),
        };
        let parts: Vec<Part> = options.part.iter().copied().filter(parts).collect();
        if parts.is_empty() {
            continue;
        }
        let began = Instant::now();
        let server =
            Server::start(target).with_context(|| format!("cannot start {}", target.title()))?;
        for part in parts {
            folders.push(match part {
                Part::Write => session.write(target, &server.url()?)?,
                Part::Web => session.web(target, Queries::Work, server.url().ok().as_deref())?,
                Part::WebWait => {
                    session.web(target, Queries::Wait, server.url().ok().as_deref())?
                }
            });
        }
        server.stop()?;
        eprintln!("{}: {:.0} s", target.title(), began.elapsed().as_secs_f64());
    }
    if options.out.is_some() {
        session.report(&folders)?;
    }
    docs::write()
}

/// Servers that run for as long as they are measured.
enum Server {
    Postgres(postgres::Servers),
    Mysql(mysql::Servers),
    /// A file has none.
    None,
}

impl Server {
    fn start(target: Target) -> Result<Self, Trouble> {
        let of_postgres = |kind| {
            let bin = postgres::programs_or_install()?;
            postgres::start(&bin, kind, Life::Process).map(Self::Postgres)
        };
        let of_mysql = |kind| {
            mysql::install_if_missing()?;
            mysql::start(kind, Life::Process).map(Self::Mysql)
        };
        match target {
            Target::Postgres => of_postgres(Kind::Single),
            Target::Replicas => of_postgres(Kind::Replicated),
            Target::Mariadb => of_mysql(mysql::Kind::Single),
            Target::Galera => of_mysql(mysql::Kind::Galera),
            Target::Sqlite => Ok(Self::None),
        }
    }

    fn url(&self) -> Result<String> {
        match self {
            Self::Postgres(servers) => Ok(servers.url()),
            Self::Mysql(servers) => Ok(servers.url()),
            Self::None => bail!("SQLite is on no server"),
        }
    }

    fn stop(self) -> Result<(), Trouble> {
        match self {
            Self::Postgres(servers) => servers.stop(),
            Self::Mysql(servers) => servers.stop(),
            Self::None => Ok(()),
        }
    }
}

/// What the parts share.
struct Session<'a> {
    options: &'a Options,
    program: &'a Path,
    xtask: &'a Path,
    folder: &'a Path,
    out: &'a Path,
}

impl Session<'_> {
    /// Runs an experiment, and returns its records and the folder that they are in.
    fn bench(
        &self,
        name: &str,
        url: Option<&str>,
        arguments: &[&str],
    ) -> Result<(Results, PathBuf)> {
        let out = self.out.join(name);
        let mut command = Command::new(self.program);
        command.args(arguments);
        command.args(["--repeat", &self.options.repeat.to_string()]);
        if let Some(url) = url {
            command.args(["--url", url]);
        }
        let status = command
            .arg("--dir")
            .arg(self.folder)
            .arg("--out")
            .arg(&out)
            .status()
            .context("cannot start groupcommit-bench")?;
        ensure!(
            status.success(),
            "`groupcommit-bench {}` on {name} ended with {status}",
            arguments.join(" ")
        );
        Ok((Results::load(&out)?, out))
    }

    fn write(&self, target: Target, url: &str) -> Result<PathBuf> {
        let (rows, in_flight) = (self.options.rows.to_string(), IN_FLIGHT.to_string());
        let limit = self.options.seconds_limit.to_string();
        let arguments =
            ["write", "--rows", &rows, "--in-flight", &in_flight, "--seconds-limit", &limit];
        let name = format!("{}-write", name_of(target));
        let (results, out) = self.bench(&name, Some(url), &arguments)?;
        let output = Command::new(self.xtask)
            .args(["probe", "rejected-server", url])
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start xtask")?;
        ensure!(output.status.success(), "the probe on {name} ended with {}", output.status);
        let rejected = serde_json::from_slice(&output.stdout).context("the record of the probe")?;
        WriteRecords::put(WriteOn::of(target, results, rejected)?)?;
        Ok(out)
    }

    fn web(&self, target: Target, queries: Queries, url: Option<&str>) -> Result<PathBuf> {
        let (requests, at_once) =
            (self.options.requests.to_string(), self.options.at_once.to_string());
        let queries = queries.name();
        let arguments =
            ["web", "--requests", &requests, "--at-once", &at_once, "--queries", queries];
        let name = format!("{}-web-{queries}", name_of(target));
        let (results, out) = self.bench(&name, url, &arguments)?;
        WebRecords::put(WebOn::of(target, queries, results)?)?;
        Ok(out)
    }

    fn report(&self, folders: &[PathBuf]) -> Result<()> {
        let status = Command::new(self.program)
            .arg("report")
            .args(folders)
            .arg("--out")
            .arg(self.out)
            .status()
            .context("cannot start groupcommit-bench")?;
        ensure!(status.success(), "`groupcommit-bench report` ended with {status}");
        Ok(())
    }
}

/// As in options and records.
fn name_of(target: Target) -> String {
    target.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
