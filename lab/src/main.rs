//! The `groupcommit-bench` program: runs the experiments and draws reports from their records.
//!
//! Tables go to standard output and progress to standard error. Exit codes: 0 measured and verified;
//! 2 wrong usage, a refusing environment, or rows that do not add up; 130 stopped by Ctrl-C.

use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use anyhow::Context as _;
use clap::{Parser, Subcommand, ValueEnum};
use groupcommit_lab::all::AllOptions;
use groupcommit_lab::compare::comparison;
use groupcommit_lab::large::LargeOptions;
use groupcommit_lab::load::LoadOptions;
use groupcommit_lab::measurement::{Measurement, RESULTS_FILE, Results};
use groupcommit_lab::mixed::MixedOptions;
use groupcommit_lab::report::{load_all, markdown, model::Report, text, write_page};
use groupcommit_lab::threads::ThreadsOptions;
use groupcommit_lab::wal::WalOptions;
use groupcommit_lab::web::WebOptions;
use groupcommit_lab::write::WriteOptions;
use groupcommit_lab::{Event, Experiment, run};

/// Wrong usage, a refusing environment, or rows that do not add up.
const EXIT_FAILED: u8 = 2;

/// Stopped by a signal: 128 + SIGINT, as shells count.
const EXIT_INTERRUPTED: i32 = 130;

/// How often to try to remove databases that are still being written.
const REMOVAL_ATTEMPTS: usize = 100;

/// Measure what durable transactions cost on this machine and its disk
#[derive(Debug, Parser)]
#[command(name = "groupcommit-bench", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write rows of an integer key and a UUID, by rows a transaction and by who commits
    ///
    /// Every condition writes the same rows into the same table. Repeats are interleaved, and the rows
    /// are counted at the end of each measurement.
    ///
    /// SQLite: `default` (rollback journal, FULL), `wal` (write-ahead log, FULL) and `wal-normal`
    /// (write-ahead log, NORMAL: not durable), each one commit a call; `groupcommit-blocking` (callers
    /// that block) and `groupcommit-async` (callers that keep tickets outstanding). LMDB and RocksDB:
    /// `sync` (one synced commit a call), `sync-threads` (the same from 256 threads), `batched` (1,000
    /// rows a transaction by hand) and the two of groupcommit; RocksDB also `no-wal` and
    /// `wal-nosync` (not durable). Servers: `one-connection` and `connections` (25), one commit a
    /// call each, and `groupcommit-async`; PostgreSQL also `async-commit` (`synchronous_commit=off`: not
    /// durable).
    ///
    /// Exit codes: 0 measured and verified; 2 wrong usage, a refusing environment, a transaction that
    /// was not committed, or rows missing; 130 stopped by Ctrl-C, with the finished measurements kept.
    Write(WriteOptions),

    /// Read and write single rows of a filled table in turn, by who commits
    ///
    /// One caller reads a random key, then writes one, and so on; `groupcommit-async` keeps writes
    /// outstanding meanwhile. At the end every row is compared with what the operations should have
    /// left. The conditions are those of `write`. A server's filled database cannot be copied for each
    /// measurement: use `web` there.
    Mixed(MixedOptions),

    /// Insert single documents from many threads, each in a durable transaction
    ///
    /// SQLite: `shared` (one connection behind a mutex), `connections` (one for every thread) and
    /// `merged` (groupcommit, with threads that block). LMDB and RocksDB: `sync-threads` and
    /// `merged`. Servers: `connections` and `merged`.
    Threads(ThreadsOptions),

    /// Write single rows as load grows, with adaptive and with fixed groups
    ///
    /// Closed loop: a fixed number of transactions in flight. Open loop: Poisson arrivals at shares of
    /// the capacity that adaptive grouping reached, with latencies from the intended arrival. Fixed
    /// groups run through the same pipeline: groups of a size, which go after 10 ms even if they are
    /// not full, and groups that are held open for a time after the first arrival.
    Load(LoadOptions),

    /// Replace random rows of a table that is larger than the page cache
    ///
    /// SQLite: `wal`, by one row and by many rows a transaction, and `groupcommit-async`; keys uniform
    /// and skewed. With the waits come the bytes that the device wrote, the length of the log, and how
    /// long it takes to open the database after a crash. `--seconds-limit 600` is the long form.
    Large(LargeOptions),

    /// Write and read RocksDB without its log, with it, flushed by every write, and with groupcommit
    ///
    /// `fillseq`, `fillrandom` and `readrandom` of 16-byte keys and 100-byte values, one a call or
    /// transaction: `no-wal` and `wal-nosync` (not durable), `wal-sync` (every write flushed) and
    /// `groupcommit`. Needs a program built with the feature `rocksdb`.
    Wal(WalOptions),

    /// Answer requests of a web application: important data first, less important data beside it
    ///
    /// A request asks for important and less important data at once; when the important part is there,
    /// it updates a row; it is done when everything is. `blocking`: a connection for each request;
    /// `blocking-pool`; `async-pool` (servers); `bridge`: the blocking client behind a bounded bridge;
    /// `groupcommit`: reads pipelined, writes merged. Each is measured under normal load, with busy
    /// processors, and with thousands of requests at once.
    Web(WebOptions),

    /// Run every experiment into one folder of records
    ///
    /// `write`, `mixed`, `threads`, `load` and `web`; on a server without `mixed`; on a key-value
    /// engine without `web`.
    All(AllOptions),

    /// Compare two folders of records of one machine, setting by setting
    ///
    /// Records of different machines are refused with exit code 2.
    Compare {
        /// Folder of the earlier records
        before: PathBuf,

        /// Folder of the later records
        after: PathBuf,
    },

    /// Show records as text, as a page with charts, or as Markdown
    ///
    /// Nothing is measured and no record is changed. With --format html, the folder given by --out gets
    /// report.html, one file that needs no network and no script, and the charts as charts/*.svg.
    /// Nothing is compared between records.
    Report {
        /// Folders given by --out, or files of records
        #[arg(value_name = "RECORDS", required = true)]
        records: Vec<PathBuf>,

        /// How to show them
        #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Html)]
        format: Format,

        /// Folder for html [default: the first RECORDS]; file for text and markdown [default: standard
        /// output]
        #[arg(long, value_name = "PATH")]
        out: Option<PathBuf>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// Findings and tables for a terminal
    Text,
    /// A page with charts
    Html,
    /// Findings and tables for a document
    Markdown,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Write(options) => measure(&[&options]),
        Command::Large(options) => measure(&[&options]),
        Command::Mixed(options) => measure(&[&options]),
        Command::Threads(options) => measure(&[&options]),
        Command::Load(options) => measure(&[&options]),
        Command::Wal(options) => measure(&[&options]),
        Command::Web(options) => measure(&[&options]),
        Command::All(options) => {
            let experiments = options.experiments();
            measure(&experiments.iter().map(Box::as_ref).collect::<Vec<_>>())
        }
        Command::Compare { before, after } => compare(&before, &after),
        Command::Report { records, format, out } => report(&records, format, out.as_deref()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(io::stderr(), &format!("groupcommit-bench: {error:#}"));
            ExitCode::from(EXIT_FAILED)
        }
    }
}

fn compare(before: &Path, after: &Path) -> anyhow::Result<()> {
    say(io::stdout(), &comparison(&Results::load(before)?, &Results::load(after)?)?);
    Ok(())
}

fn report(records: &[PathBuf], format: Format, out: Option<&Path>) -> anyhow::Result<()> {
    let runs = load_all(records)?;
    let shown = match format {
        Format::Html => {
            let page = write_page(&runs, out.unwrap_or(&records[0]))?;
            say(io::stdout(), &page.display().to_string());
            return Ok(());
        }
        Format::Text => text::report(&Report::of(&runs)),
        Format::Markdown => markdown::report(&Report::of(&runs), "Measured", ""),
    };
    if let Some(path) = out {
        return fs::write(path, shown)
            .with_context(|| format!("could not write {}", path.display()));
    }
    say(io::stdout(), shown.trim_end());
    Ok(())
}

/// Runs the experiments, prints their progress and then their tables.
fn measure(experiments: &[&dyn Experiment]) -> anyhow::Result<()> {
    let out = &experiments[0].common().out;
    let databases = Arc::new(Mutex::new(None));
    clean_up_when_interrupted(&databases, out)?;
    let results = run(experiments, |event| {
        if let Event::Prepared(_, folder) = event {
            *databases.lock().unwrap_or_else(PoisonError::into_inner) = Some(folder.to_owned());
        }
        progress(event);
    })?;
    say(io::stdout(), &text::run(&results));
    say(io::stderr(), &format!("records: {}", out.join(RESULTS_FILE).display()));
    Ok(())
}

/// On Ctrl-C or a request to terminate, removes the databases and ends the program; the records of
/// finished measurements are already in the folder `out`.
fn clean_up_when_interrupted(
    databases: &Arc<Mutex<Option<PathBuf>>>,
    out: &Path,
) -> Result<(), ctrlc::Error> {
    let (databases, records) = (Arc::clone(databases), out.join(RESULTS_FILE));
    ctrlc::set_handler(move || {
        let folder = databases.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut sentence = format!("stopped; finished measurements are in {}", records.display());
        // A transaction under way may put a file back while the folder is being emptied.
        if let Some(folder) = folder
            && !(0..REMOVAL_ATTEMPTS).any(|_| fs::remove_dir_all(&folder).is_ok())
        {
            sentence = format!("{sentence}; please remove {}", folder.display());
        }
        say(io::stderr(), &sentence);
        process::exit(EXIT_INTERRUPTED);
    })
}

fn progress(event: Event<'_>) {
    let line = match event {
        Event::Prepared(environment, folder) => {
            let mut text =
                format!("{}\ndatabases in {}", text::describe(environment), folder.display());
            for warning in &environment.warnings {
                text.push_str("\nwarning: ");
                text.push_str(warning);
            }
            text
        }
        Event::Warming(setting) => format!("warm-up: {setting}"),
        Event::Started { setting, number, count } => format!("{number}/{count}: {setting}"),
        Event::Running { rows, elapsed } => {
            format!("    {rows} submitted in {:.0} s", elapsed.as_secs_f64())
        }
        Event::Finished(measurement) => finished(measurement),
        _ => return,
    };
    say(io::stderr(), &line);
}

fn finished(measurement: &Measurement) -> String {
    format!(
        "    {:.0} rows/s, wait p50 {:.3} ms, p99 {:.3} ms, {} rows verified",
        measurement.rows_per_second,
        measurement.latency_ms.p50,
        measurement.latency_ms.p99,
        measurement.verified_rows
    )
}

/// A closed terminal or pipe does not end a measurement: the records are what counts.
fn say(mut to: impl io::Write, text: &str) {
    drop(writeln!(to, "{text}"));
}
