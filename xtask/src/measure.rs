//! `cargo xtask measure`: runs the experiments that the documentation shows, in release builds, one
//! after the other. Each run leaves condensed records in `docs/measured/experiments`; the documents are
//! made from these by `cargo xtask docs`.

use std::{
    any::Any,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use groupcommit_lab::{
    measurement::Results,
    report::{markdown, model::Report, svg},
};
use groupcommit_testkit::servers::{Life, Trouble, mysql, postgres};

use crate::{languages, libclang, program, root::root, served, transcript};

/// Where the records are kept.
const FOLDER: &str = "docs/measured/experiments";

/// The chart of the README, and the end of its name in the report: the first such is taken.
const README_CHART: (&str, &str) = ("docs/callers.svg", "threads-throughput");

const BENCHMARKS: &str = "docs/benchmarks.md";

const INTRODUCTION: &str = "\
Written from the records in `docs/measured/experiments` by `cargo xtask docs`; `cargo xtask measure` makes the
records anew. What each experiment does, and where it was published: [experiments.md](experiments.md).";

/// One run of `groupcommit-bench`.
struct Run {
    /// The name of its records.
    name: &'static str,
    /// What the report calls it.
    title: &'static str,
    on: On,
    arguments: &'static [&'static str],
}

/// What an experiment runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    Disk,
    Rocksdb,
    Postgres(postgres::Kind),
    Mysql(mysql::Kind),
}

/// `groupcommit serve` has a load generator of its own.
const SERVER: &str = "server";

/// What is measured by other programs than `groupcommit-bench`.
const OTHERS: [&str; 3] = [SERVER, languages::PYTHON, languages::NODE];

const SERVER_WRITE: &[&str] = &["write", "--in-flight=1000"];
const WEB: &[&str] = &["web"];
const WEB_WAIT: &[&str] = &["web", "--queries=wait"];

const fn run(
    name: &'static str,
    title: &'static str,
    on: On,
    arguments: &'static [&'static str],
) -> Run {
    Run { name, title, on, arguments }
}

/// In the order of the report.
const RUNS: [Run; 18] = [
    run("write-sqlite", "SQLite", On::Disk, &["write", "--in-flight=1,16,64,256,1000"]),
    run(
        "write-lmdb",
        "LMDB",
        On::Disk,
        &[
            "write",
            "--engine=lmdb",
            "--value-bytes=100",
            "--batch=1",
            "--in-flight=1,16,64,256,1000",
        ],
    ),
    run(
        "write-rocksdb",
        "RocksDB",
        On::Rocksdb,
        &[
            "write",
            "--engine=rocksdb",
            "--value-bytes=100",
            "--batch=1",
            "--in-flight=1,16,64,256,1000",
        ],
    ),
    run("write-postgres", "PostgreSQL", On::Postgres(postgres::Kind::Single), SERVER_WRITE),
    run(
        "write-replicas",
        "PostgreSQL, two synchronous replicas (`ANY 1`)",
        On::Postgres(postgres::Kind::Replicated),
        SERVER_WRITE,
    ),
    run("write-mariadb", "MariaDB", On::Mysql(mysql::Kind::Single), SERVER_WRITE),
    run("write-galera", "Galera, three nodes", On::Mysql(mysql::Kind::Galera), SERVER_WRITE),
    run("mixed-sqlite", "SQLite", On::Disk, &["mixed", "--rows=200000", "--operations=400000"]),
    run("threads-sqlite", "SQLite", On::Disk, &["threads"]),
    run("load-sqlite", "SQLite", On::Disk, &["load", "--share=0.5,0.9"]),
    run("large-sqlite", "SQLite", On::Disk, &["large", "--value-bytes=100", "--seconds-limit=8"]),
    run("web-sqlite", "SQLite", On::Disk, WEB),
    run("web-postgres", "PostgreSQL", On::Postgres(postgres::Kind::Single), WEB),
    run(
        "web-postgres-wait",
        "PostgreSQL, queries that wait",
        On::Postgres(postgres::Kind::Single),
        WEB_WAIT,
    ),
    run("web-mariadb", "MariaDB", On::Mysql(mysql::Kind::Single), WEB),
    run("web-mariadb-wait", "MariaDB, queries that wait", On::Mysql(mysql::Kind::Single), WEB_WAIT),
    run("wal-rocksdb", "RocksDB", On::Rocksdb, &["wal", "--rows=400000"]),
    run("threads-postgres", "PostgreSQL", On::Postgres(postgres::Kind::Single), &["threads"]),
];

/// Options of `cargo xtask measure`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Only the runs whose names begin so, as in `write` or `web-postgres`; the records of the others
    /// stay as they are
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "")]
    only: Vec<String>,

    /// How often to measure each setting; medians are shown
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeat: u64,

    /// How long each measurement of writing lasts at most, in seconds
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds_limit: f64,

    /// The folder for databases: the disk that is measured [default: the folder of temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn measure(options: &Options) -> Result<()> {
    ensure!(options.repeat >= 3, "a median needs --repeat 3 at least");
    let is_wanted = |run: &str| options.only.iter().any(|name| run.starts_with(name.as_str()));
    let runs: Vec<&Run> = RUNS.iter().filter(|run| is_wanted(run.name)).collect();
    let others: Vec<&str> = OTHERS.into_iter().filter(|name| is_wanted(name)).collect();
    let is_any = !runs.is_empty() || !others.is_empty();
    ensure!(is_any, "no run begins with {}", options.only.join(", "));
    let temporary = std::env::temp_dir();
    let folder = tempfile::tempdir_in(options.dir.as_deref().unwrap_or(&temporary))
        .context("cannot create a folder for the databases")?;
    if !runs.is_empty() {
        experiment(&runs, options, folder.path())?;
    }
    for name in others {
        if name == SERVER {
            served::measure(folder.path())?;
        } else {
            languages::measure(name, folder.path())?;
        }
    }
    Ok(())
}

/// Runs experiments of `groupcommit-bench`, and the first command of the README.
fn experiment(runs: &[&Run], options: &Options, folder: &Path) -> Result<()> {
    let mut features = vec!["lmdb", "postgres", "mysql"];
    if runs.iter().any(|run| run.on == On::Rocksdb) {
        ensure!(libclang::is_there(), "{}", libclang::MISSING);
        features.push("rocksdb");
    }
    let program = program::bench(&features, true)?;
    for run in runs {
        let began = Instant::now();
        let (url, server) =
            run.on.start().with_context(|| format!("cannot start {}", run.title))?;
        let results = run.bench(&program, options, folder, url)?;
        drop(server);
        run.keep(results)?;
        eprintln!("{}: {:.0} s", run.name, began.elapsed().as_secs_f64());
    }
    transcript::record(&program::groupcommit(true)?)
}

impl Run {
    fn file(&self) -> PathBuf {
        root().join(FOLDER).join(self.name).with_extension("json")
    }

    fn bench(
        &self,
        program: &Path,
        options: &Options,
        folder: &Path,
        url: Option<String>,
    ) -> Result<Results> {
        let out = folder.join(self.name);
        let mut command = Command::new(program);
        command.args(self.arguments).args(["--repeat", &options.repeat.to_string()]);
        let has_own =
            |argument: &&str| *argument == "web" || argument.starts_with("--seconds-limit");
        if !self.arguments.iter().any(has_own) {
            command.args(["--seconds-limit", &options.seconds_limit.to_string()]);
        }
        if let Some(url) = url {
            command.args(["--url", &url]);
        }
        command.arg("--dir").arg(folder).arg("--out").arg(&out);
        let status = command.status().context("cannot start groupcommit-bench")?;
        ensure!(status.success(), "{} ended with {status}", self.name);
        Ok(Results::load(&out)?)
    }

    /// A measurement per line: records are read by programs, and compared by people.
    fn keep(&self, results: Results) -> Result<()> {
        let Results { environment, measurements, .. } = results.condensed();
        let lines: Vec<String> =
            measurements.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        let text = format!(
            "{{\n\"title\": {},\n\"environment\": {},\n\"measurements\": [\n{}\n]\n}}\n",
            serde_json::to_string(self.title)?,
            serde_json::to_string(&environment)?,
            lines.join(",\n")
        );
        fs::create_dir_all(root().join(FOLDER))?;
        fs::write(self.file(), text).with_context(|| format!("cannot write {}", self.name))
    }
}

impl On {
    /// The URL of a server, which runs for as long as the other is kept.
    fn start(self) -> Result<(Option<String>, Box<dyn Any>), Trouble> {
        Ok(match self {
            Self::Disk | Self::Rocksdb => (None, Box::new(())),
            Self::Postgres(kind) => {
                let servers = postgres::start(kind, Life::Process)?;
                (Some(servers.url()), Box::new(servers))
            }
            Self::Mysql(kind) => {
                let servers = mysql::start(kind, Life::Process)?;
                (Some(servers.url()), Box::new(servers))
            }
        })
    }
}

/// The files that are made of the records alone: path and content.
pub(crate) fn files() -> Result<Vec<(&'static str, String)>> {
    let names: Vec<&str> = RUNS.iter().map(|run| run.name).collect();
    let report = report(&names)?;
    let (path, name) = README_CHART;
    let chart = report.charts().find(|chart| chart.name.ends_with(name));
    let chart = chart.with_context(|| format!("the records make no chart {name}"))?;
    Ok(vec![
        (BENCHMARKS, markdown::report(&report, "Benchmarks", INTRODUCTION)),
        (path, svg(chart) + "\n"),
    ])
}

/// What the named records show, a list item a finding, and where the first was measured.
pub(crate) fn findings(names: &[&str]) -> Result<String> {
    let report = report(names)?;
    let mut text = String::new();
    for part in report.sections.iter().flat_map(|section| &section.parts) {
        for finding in &part.body.findings {
            writeln!(text, "- {finding}")?;
        }
    }
    if let Some(first) = report.runs.first() {
        writeln!(text, "\n{}", first.sentence)?;
    }
    Ok(text)
}

/// The report of those of the named records that are kept.
fn report(names: &[&str]) -> Result<Report> {
    let mut runs = Vec::new();
    for run in RUNS.iter().filter(|run| names.contains(&run.name)) {
        let path = run.file();
        if path.exists() {
            runs.push((run.name.to_owned(), Results::load_file(&path)?));
        }
    }
    Ok(Report::of(&runs))
}
