//! The `groupcommit-bench` program: runs the experiments and draws reports from their records.
//!
//! Tables go to standard output and progress to standard error. Exit codes: 0 measured and verified;
//! 2 wrong usage, a refusing environment, or rows that do not add up; 130 stopped by Ctrl-C.

mod arguments;

use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use anyhow::Context as _;
use clap::{Parser, Subcommand, ValueEnum};
use groupcommit_lab::all::run_all;
use groupcommit_lab::compare::comparison;
use groupcommit_lab::load::run_load;
use groupcommit_lab::measurement::{Measurement, RESULTS_FILE, Results};
use groupcommit_lab::mixed::run_mixed;
use groupcommit_lab::report::{load_all, markdown, model::Report, text, write_page};
use groupcommit_lab::threads::run_threads;
use groupcommit_lab::wal::run_wal;
use groupcommit_lab::web::run_web;
use groupcommit_lab::write::run_write;
use groupcommit_lab::{Common, Event, LabError};

use arguments::Experiment;

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
#[expect(clippy::large_enum_variant, reason = "there is one, and it lives as long as the program")]
enum Command {
    #[command(flatten)]
    Measure(Experiment),

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
    /// report.html, one file that needs no network and no script, the charts as charts/*.svg and the
    /// records as csv/*.csv. Nothing is compared between records.
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
        Command::Measure(experiment) => measure(&experiment),
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

fn measure(experiment: &Experiment) -> anyhow::Result<()> {
    match experiment {
        Experiment::Write(arguments) => {
            let options = arguments.to_options();
            run(&options.common, |observe| run_write(&options, observe))
        }
        Experiment::Mixed(arguments) => {
            let options = arguments.to_options();
            run(&options.common, |observe| run_mixed(&options, observe))
        }
        Experiment::Threads(arguments) => {
            let options = arguments.to_options();
            run(&options.common, |observe| run_threads(&options, observe))
        }
        Experiment::Load(arguments) => {
            let options = arguments.to_options();
            run(&options.common, |observe| run_load(&options, observe))
        }
        Experiment::Wal(arguments) => {
            let options = arguments.to_options();
            run(&options.common, |observe| run_wal(&options, observe))
        }
        Experiment::Web(arguments) => {
            let options = arguments.to_options();
            run(&options.common, |observe| run_web(&options, observe))
        }
        Experiment::All(arguments) => {
            let options = arguments.to_options();
            run(&options.write.common, |observe| run_all(&options, observe))
        }
    }
}

/// Runs `experiment`, prints its progress and then its tables.
fn run(
    common: &Common,
    experiment: impl FnOnce(&mut dyn FnMut(Event<'_>)) -> Result<Results, LabError>,
) -> anyhow::Result<()> {
    let databases = Arc::new(Mutex::new(None));
    clean_up_when_interrupted(&databases, &common.out)?;
    let mut observe = |event: Event<'_>| {
        if let Event::Prepared(_, folder) = event {
            *databases.lock().unwrap_or_else(PoisonError::into_inner) = Some(folder.to_owned());
        }
        progress(event);
    };
    let results = experiment(&mut observe)?;
    say(io::stdout(), &text::run(&results));
    say(io::stderr(), &format!("records: {}", common.out.join(RESULTS_FILE).display()));
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
