//! `groupcommit bench`: the lab's experiments from the command line.
//!
//! The tables go to standard output, progress to standard error, the records to the folder given
//! by `--out`.

mod arguments;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use groupcommit_lab::all::run_all;
use groupcommit_lab::compare::comparison;
use groupcommit_lab::load::run_load;
use groupcommit_lab::measurement::{Measurement, RESULTS_FILE, Results};
use groupcommit_lab::mixed::run_mixed;
use groupcommit_lab::table::{describe, tables};
use groupcommit_lab::threads::run_threads;
use groupcommit_lab::wal::run_wal;
use groupcommit_lab::web::run_web;
use groupcommit_lab::write::run_write;
use groupcommit_lab::{Common, Event, LabError};

use crate::exit::explain;
use arguments::Experiment;

pub(crate) use arguments::Options;

/// Measured, but not to be relied on, or not measured at all: usage, environment, or rows that do
/// not add up.
const EXIT_FAILED: u8 = 2;

/// Stopped by a signal: 128 + SIGINT, as shells count.
const EXIT_INTERRUPTED: i32 = 130;

/// How often to try to remove databases that are still being written.
const REMOVAL_ATTEMPTS: usize = 100;

/// Runs the experiment asked for.
pub(crate) fn run(options: &Options) -> ExitCode {
    match &options.experiment {
        Experiment::Write(arguments) => {
            let options = arguments.to_options();
            measure(&options.common, |observe| run_write(&options, observe))
        }
        Experiment::Mixed(arguments) => {
            let options = arguments.to_options();
            measure(&options.common, |observe| run_mixed(&options, observe))
        }
        Experiment::Threads(arguments) => {
            let options = arguments.to_options();
            measure(&options.common, |observe| run_threads(&options, observe))
        }
        Experiment::Load(arguments) => {
            let options = arguments.to_options();
            measure(&options.common, |observe| run_load(&options, observe))
        }
        Experiment::Wal(arguments) => {
            let options = arguments.to_options();
            measure(&options.common, |observe| run_wal(&options, observe))
        }
        Experiment::Web(arguments) => {
            let options = arguments.to_options();
            measure(&options.common, |observe| run_web(&options, observe))
        }
        Experiment::Compare(arguments) => compare(&arguments.before, &arguments.after),
        Experiment::All(arguments) => {
            let options = arguments.to_options();
            measure(&options.write.common, |observe| run_all(&options, observe))
        }
    }
}

fn compare(before: &Path, after: &Path) -> ExitCode {
    let load = |folder| Results::load(folder);
    let compared = load(before).and_then(|before| comparison(&before, &load(after)?));
    match compared {
        Ok(table) => {
            say(io::stdout(), &table);
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &LabError) -> ExitCode {
    say(io::stderr(), &format!("groupcommit: {}", explain(error)));
    ExitCode::from(EXIT_FAILED)
}

/// Runs `experiment`, tells how far it is, and prints its tables.
fn measure(
    common: &Common,
    experiment: impl FnOnce(&mut dyn FnMut(Event<'_>)) -> Result<Results, LabError>,
) -> ExitCode {
    let databases = Arc::new(Mutex::new(None));
    if let Err(error) = clean_up_when_interrupted(&databases, &common.out) {
        say(io::stderr(), &format!("groupcommit: could not listen for Ctrl-C: {error}"));
        return ExitCode::from(EXIT_FAILED);
    }
    let mut observe = |event: Event<'_>| {
        if let Event::Prepared(_, folder) = event {
            *databases.lock().unwrap_or_else(PoisonError::into_inner) = Some(folder.to_owned());
        }
        report(event);
    };
    match experiment(&mut observe) {
        Ok(results) => {
            say(io::stdout(), &tables(&results));
            say(io::stderr(), &format!("records: {}", common.out.join(RESULTS_FILE).display()));
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

/// On Ctrl-C or a request to terminate, removes the databases and ends the program; the records of
/// what was finished by then are already in the folder `out`.
fn clean_up_when_interrupted(
    databases: &Arc<Mutex<Option<PathBuf>>>,
    out: &Path,
) -> Result<(), ctrlc::Error> {
    let (databases, records) = (Arc::clone(databases), out.join(RESULTS_FILE));
    ctrlc::set_handler(move || {
        let folder = databases.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut sentence = format!("stopped; finished measurements are in {}", records.display());
        // A transaction that is under way may put a file back while the folder is being emptied.
        if let Some(folder) = folder
            && !(0..REMOVAL_ATTEMPTS).any(|_| fs::remove_dir_all(&folder).is_ok())
        {
            let _infallible = write!(sentence, "; please remove {}", folder.display());
        }
        say(io::stderr(), &sentence);
        process::exit(EXIT_INTERRUPTED);
    })
}

fn report(event: Event<'_>) {
    let line = match event {
        Event::Prepared(environment, folder) => {
            let mut text = format!("{}\ndatabases in {}", describe(environment), folder.display());
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
