//! `groupcommit bench`: the lab's experiments from the command line.
//!
//! The table goes to standard output, progress to standard error, the records to the folder given
//! by `--out`.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fs, io};

use clap::{Args, Subcommand};
use groupcommit_lab::condition::Condition;
use groupcommit_lab::measurement::{Measurement, RESULTS_FILE};
use groupcommit_lab::table::{describe, write_table};
use groupcommit_lab::write::{Event, WriteOptions, run_write};

/// Measured, but not to be relied on, or not measured at all: usage, environment, or rows that do
/// not add up.
const EXIT_FAILED: u8 = 2;

/// Stopped by a signal: 128 + SIGINT, as shells count.
const EXIT_INTERRUPTED: i32 = 130;

/// Every condition, in the order measured.
const ALL_CONDITIONS: &str = "default,wal,wal-normal,groupcommit-blocking,groupcommit-async";

/// How often to try to remove databases that are still being written.
const REMOVAL_ATTEMPTS: usize = 100;

/// Measure what durable transactions cost on this machine and its disk
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    /// Write rows of an integer key and a UUID, by rows a transaction and by who commits
    ///
    /// Every condition writes the same rows into the same table with the same SQLite library:
    /// `default` (rollback journal, FULL), `wal` (write-ahead log, FULL), `wal-normal` (write-ahead
    /// log, NORMAL: not durable), each one commit a call; `groupcommit-blocking` (callers that
    /// block) and `groupcommit-async` (callers that keep tickets outstanding). Repeats are
    /// interleaved, and the rows are counted at the end of each measurement.
    ///
    /// Exit codes: 0 measured and verified; 2 usage, environment, a transaction that was not
    /// committed, or rows missing; 130 stopped by Ctrl-C, with the finished measurements recorded.
    Write(WriteArguments),
}

#[derive(Debug, Args)]
struct WriteArguments {
    /// Rows to write in each measurement
    #[arg(long, value_name = "N", default_value = "1000000")]
    rows: NonZeroUsize,

    /// Rows a transaction
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,10,100,1000")]
    batch: Vec<NonZeroUsize>,

    /// Tickets outstanding at a time, for `groupcommit-async`
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1000")]
    in_flight: Vec<NonZeroUsize>,

    /// Threads that submit; plain SQLite shares one connection among them by a mutex
    #[arg(long, value_name = "N", default_value = "1")]
    threads: NonZeroUsize,

    /// Conditions to measure
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = ALL_CONDITIONS)]
    conditions: Vec<Condition>,

    /// How often to measure each setting; the table shows medians
    #[arg(long, value_name = "N", default_value = "3")]
    repeat: NonZeroUsize,

    /// Folder for results.json; created when missing, earlier records in it are replaced
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    out: PathBuf,

    /// Folder for the databases, which are removed afterwards: the disk that is measured [default:
    /// the one of --out]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// End a measurement after so many seconds, with the rows it has written by then
    #[arg(long, value_name = "S", default_value = "60", value_parser = parse_seconds)]
    seconds_limit: Duration,

    /// Seed of the random values
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "give a number of seconds greater than 0".to_owned())
}

/// Runs the experiment asked for.
pub(crate) fn run(options: &Options) -> ExitCode {
    match &options.experiment {
        Experiment::Write(arguments) => write(arguments),
    }
}

fn write(arguments: &WriteArguments) -> ExitCode {
    let databases = Arc::new(Mutex::new(None));
    if let Err(error) = clean_up_when_interrupted(&databases, &arguments.out) {
        say(io::stderr(), &format!("groupcommit: could not listen for Ctrl-C: {error}"));
        return ExitCode::from(EXIT_FAILED);
    }
    let observe = |event: Event<'_>| {
        if let Event::Prepared(_, folder) = event {
            *databases.lock().unwrap_or_else(PoisonError::into_inner) = Some(folder.to_owned());
        }
        report(event);
    };
    match run_write(&arguments.to_options(), observe) {
        Ok(results) => {
            say(io::stdout(), &write_table(&results));
            say(io::stderr(), &format!("records: {}", arguments.out.join(RESULTS_FILE).display()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            let mut sentence = format!("groupcommit: {error}");
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                sentence.push_str(": ");
                sentence.push_str(&cause.to_string());
                source = cause.source();
            }
            say(io::stderr(), &sentence);
            ExitCode::from(EXIT_FAILED)
        }
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

impl WriteArguments {
    fn to_options(&self) -> WriteOptions {
        let numbers = |list: &[NonZeroUsize]| list.iter().map(|number| number.get()).collect();
        WriteOptions {
            rows: self.rows.get(),
            batches: numbers(&self.batch),
            in_flight: numbers(&self.in_flight),
            threads: self.threads.get(),
            conditions: self.conditions.clone(),
            repeats: self.repeat.get(),
            out: self.out.clone(),
            database_folder: self.dir.clone(),
            time_limit: self.seconds_limit,
            seed: self.seed,
            command_line: std::env::args().collect::<Vec<_>>().join(" "),
        }
    }
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
            format!("    {rows} rows in {:.0} s", elapsed.as_secs_f64())
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

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        options: Options,
    }

    fn parse(arguments: &str) -> Result<WriteOptions, clap::Error> {
        let program =
            Program::try_parse_from(["bench"].into_iter().chain(arguments.split_whitespace()))?;
        let Experiment::Write(arguments) = program.options.experiment;
        Ok(arguments.to_options())
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Program::command().debug_assert();
    }

    #[test]
    fn the_defaults_are_the_published_experiment() {
        let found = parse("write").expect("parses");
        let published =
            WriteOptions { command_line: found.command_line.clone(), ..WriteOptions::default() };
        assert_eq!(format!("{found:?}"), format!("{published:?}"));
    }

    #[test]
    fn lists_are_separated_by_commas() {
        let options = parse(
            "write --rows 5 --batch 1,20 --in-flight 16,64,256 --threads 25 --conditions wal,groupcommit-async \
             --repeat 2 --out a --dir b --seconds-limit 0.5 --seed 9",
        )
        .expect("parses");
        assert_eq!((options.rows, options.threads, options.repeats, options.seed), (5, 25, 2, 9));
        assert_eq!(options.batches, [1, 20]);
        assert_eq!(options.in_flight, [16, 64, 256]);
        assert_eq!(options.conditions, [Condition::Wal, Condition::GroupcommitAsync]);
        assert_eq!(options.out, PathBuf::from("a"));
        assert_eq!(options.database_folder, Some(PathBuf::from("b")));
        assert_eq!(options.time_limit, Duration::from_millis(500));
    }

    #[test]
    fn senseless_values_are_refused() {
        for arguments in [
            "write --rows 0",
            "write --batch 1,,10",
            "write --batch ten",
            "write --in-flight 0",
            "write --conditions fastest",
            "write --seconds-limit 0",
            "write --seconds-limit -1",
            "write --seconds-limit inf",
            "read",
        ] {
            parse(arguments).expect_err(arguments);
        }
    }
}
