//! The command line of the experiments.

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Args, Subcommand};
use groupcommit::sql::without_password;
use groupcommit_lab::Common;
use groupcommit_lab::all::AllOptions;
use groupcommit_lab::condition::Condition;
use groupcommit_lab::engine::Engine;
use groupcommit_lab::load::LoadOptions;
use groupcommit_lab::mixed::MixedOptions;
use groupcommit_lab::setting::Queries;
use groupcommit_lab::threads::ThreadsOptions;
use groupcommit_lab::wal::WalOptions;
use groupcommit_lab::web::WebOptions;
use groupcommit_lab::write::WriteOptions;

/// How often each setting is measured, unless the command line says.
const REPEATS: usize = 3;
const REPEATS_QUICK: usize = 2;

#[derive(Debug, Subcommand)]
pub(super) enum Experiment {
    /// Write rows of an integer key and a UUID, by rows a transaction and by who commits
    ///
    /// Every condition writes the same rows into the same table with the same SQLite library:
    /// `default` (rollback journal, FULL), `wal` (write-ahead log, FULL), `wal-normal` (write-ahead
    /// log, NORMAL: not durable), each one commit a call; `groupcommit-blocking` (callers that
    /// block) and `groupcommit-async` (callers that keep tickets outstanding). Repeats are
    /// interleaved, and the rows are counted at the end of each measurement.
    ///
    /// Other engines have their own ways beside groupcommit's: `sync` (one synced commit a call),
    /// `sync-threads` (the same from 256 threads) and `batched` (1,000 rows a transaction by hand);
    /// servers `one-connection` and `connections` (25), one commit a call each.
    ///
    /// Exit codes: 0 measured and verified; 2 usage, environment, a transaction that was not
    /// committed, or rows missing; 130 stopped by Ctrl-C, with the finished measurements recorded.
    Write(WriteArguments),

    /// Read and write single rows of a filled table in turn, by who commits
    ///
    /// The conditions are those of `write`. One caller reads a random key, then writes one, and so
    /// on; `groupcommit-async` keeps writes outstanding meanwhile. At the end every row is
    /// compared with what the operations should have left. Not on a server, whose filled database cannot
    /// be copied for each measurement: `web` reads and writes there.
    Mixed(MixedArguments),

    /// Insert single documents from many threads, each in a durable transaction of its own
    ///
    /// `shared`: one commit each on a connection that the threads share; `connections`: a
    /// connection for every thread; `merged`: groupcommit, with threads that block. Other engines:
    /// `sync-threads`, the engine's own synced commit each, and `merged`; a server: `connections` and
    /// `merged`.
    Threads(ThreadsArguments),

    /// Write single rows as load grows, with the adaptive grouping and with fixed ones
    ///
    /// Closed loop: so many transactions in flight. Open loop: Poisson arrivals at shares of the
    /// capacity that the adaptive grouping reached, with latencies from the intended arrival. The
    /// fixed groupings run through the same pipeline: groups of a size, which go after 10 ms even if
    /// they are not full, and groups that are held open for a time after the first arrival.
    Load(LoadArguments),

    /// Write and read RocksDB without its log, with it, flushed by every write, and through groupcommit
    ///
    /// `fillseq`, `fillrandom` and `readrandom` of 16-byte keys and 100-byte values, one a call or
    /// transaction: `no-wal` and `wal-nosync` (not durable), `wal-sync` (every write flushed) and
    /// `groupcommit` (every transaction durable, many share a flush). Needs a program built with the
    /// feature `rocksdb`.
    Wal(WalArguments),

    /// Answer requests of a web application: important data first, less important beside it
    ///
    /// A request asks for important data and, at once, for less important data; when the important
    /// part is there, it updates something; it is done when everything is. `blocking`: a connection
    /// a request; `blocking-pool`; `async-pool` (servers); `bridge`: the blocking client behind a
    /// bounded bridge; `groupcommit`: reads pipelined, writes merged. Each under normal load, then
    /// with the processors kept busy besides, then with thousands of requests at once. A server is
    /// given by --url.
    Web(WebArguments),

    /// Run every experiment into one folder of records
    ///
    /// `write`, `mixed`, `threads`, `load` and `web`; on a server without `mixed`; on a key-value engine
    /// without `web`.
    All(AllArguments),
}

/// What every experiment takes.
#[derive(Debug, Args)]
pub(super) struct CommonArguments {
    /// The database to measure: `sqlite`, or `lmdb` or `rocksdb` where the program was built with it
    #[arg(long, value_name = "ENGINE", default_value = "sqlite")]
    engine: Engine,

    /// The server to measure, as in `postgres://user@host/database`, where the program was built with
    /// its engine; what is measured has a schema of its own there, which is dropped at the end
    #[arg(long, value_name = "URL", conflicts_with = "engine", value_parser = ServerParser)]
    url: Option<Server>,

    /// Bytes of each value, of a UUID that is cut off or repeated
    #[arg(long, value_name = "N", default_value = "36")]
    value_bytes: NonZeroUsize,

    /// How often to measure each setting; the tables show medians [default: 3, or 2 with --quick]
    #[arg(long, value_name = "N")]
    repeat: Option<NonZeroUsize>,

    /// Folder for results.json; created when missing, earlier records in it are replaced
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    out: PathBuf,

    /// Folder for the databases, which are removed afterwards: the disk that is measured [default:
    /// the one of --out]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Seed of the random values, keys and arrivals
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    /// Add so much to every flush of every condition, SQLite's own included, to show a slower
    /// disk: milliseconds, or with a unit as in 200us or 5ms. Each of a list is measured; what is
    /// not 0 is marked as simulated
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "0",
        value_parser = parse_delay
    )]
    flush_delay: Vec<Duration>,
}

/// A server, by its URL.
#[derive(Debug, Clone)]
struct Server {
    engine: Engine,
    url: String,
}

/// Reads a [`Server`]. Unlike any other value a wrong one is not repeated: it may hold a password.
#[derive(Debug, Clone, Copy)]
struct ServerParser;

impl TypedValueParser for ServerParser {
    type Value = Server;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Server, clap::Error> {
        let server = value.to_str().map_or_else(|| Err("it is no text".to_owned()), str::parse);
        server.map_err(|why| {
            let message = format!("invalid value for '--url <URL>': {why}\n");
            clap::Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
        })
    }
}

impl std::str::FromStr for Server {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let engine = Engine::of_url(url)?;
        if !engine.is_server() {
            return Err(format!("{engine} is on no server: leave --url out, and use --dir"));
        }
        Ok(Self { engine, url: url.to_owned() })
    }
}

#[derive(Debug, Args)]
pub(super) struct WriteArguments {
    /// Rows to write in each measurement
    #[arg(long, value_name = "N", default_value = "1000000")]
    rows: NonZeroUsize,

    /// Rows a transaction [default: 1,10,100,1000; 1 for engines other than SQLite]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    batch: Option<Vec<NonZeroUsize>>,

    /// Tickets outstanding at a time, for `groupcommit-async`
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1000")]
    in_flight: Vec<NonZeroUsize>,

    /// Threads that submit, each a setting of the conditions whose callers block; plain SQLite
    /// shares one connection among them by a mutex. `groupcommit-async` submits from the first
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1")]
    threads: Vec<NonZeroUsize>,

    /// Conditions to measure [default: every condition of the engine]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    conditions: Option<Vec<Condition>>,

    /// End a measurement after so many seconds, with the rows it has written by then
    #[arg(long, value_name = "S", default_value = "60", value_parser = parse_seconds)]
    seconds_limit: Duration,

    #[command(flatten)]
    common: CommonArguments,
}

#[derive(Debug, Args)]
pub(super) struct MixedArguments {
    /// Rows in the table at the start
    #[arg(long, value_name = "N", default_value = "1000000")]
    rows: NonZeroUsize,

    /// Reads and writes together, in each measurement
    #[arg(long, value_name = "N", default_value = "2000000")]
    operations: NonZeroUsize,

    /// Writes outstanding at a time, for `groupcommit-async`
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1000")]
    in_flight: Vec<NonZeroUsize>,

    /// Conditions to measure [default: every condition of the engine]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    conditions: Option<Vec<Condition>>,

    /// End a measurement after so many seconds, with the operations done by then
    #[arg(long, value_name = "S", default_value = "60", value_parser = parse_seconds)]
    seconds_limit: Duration,

    #[command(flatten)]
    common: CommonArguments,
}

#[derive(Debug, Args)]
pub(super) struct ThreadsArguments {
    /// Numbers of threads [default: 1,2,4,8,16,32,64,128,256; up to 64 on a server]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    threads: Option<Vec<NonZeroUsize>>,

    /// Documents to insert at most, in each measurement
    #[arg(long, value_name = "N", default_value = "1000000")]
    rows: NonZeroUsize,

    /// Conditions to measure [default: every condition of the engine]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    conditions: Option<Vec<Condition>>,

    /// End a measurement after so many seconds
    #[arg(long, value_name = "S", default_value = "3", value_parser = parse_seconds)]
    seconds_limit: Duration,

    #[command(flatten)]
    common: CommonArguments,
}

#[derive(Debug, Args)]
pub(super) struct LoadArguments {
    /// Transactions in flight in the closed loop
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1,2,4,8,16,32,64,128,256,512,1024,2048,4096"
    )]
    in_flight: Vec<NonZeroUsize>,

    /// Arrivals in the open loop, as shares of the capacity
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "0.1,0.25,0.5,0.7,0.8,0.9,0.95"
    )]
    share: Vec<f64>,

    /// Fixed group sizes beside the adaptive grouping
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,8,64,512,4096")]
    group_size: Vec<NonZeroUsize>,

    /// Fixed delays beside the adaptive grouping: milliseconds, or with a unit
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "0,0.1,1,10",
        value_parser = parse_delay
    )]
    group_delay: Vec<Duration>,

    /// Rows to write at most, in each measurement
    #[arg(long, value_name = "N", default_value = "1000000")]
    rows: NonZeroUsize,

    /// How long each measurement lasts, in seconds
    #[arg(long, value_name = "S", default_value = "1", value_parser = parse_seconds)]
    seconds_limit: Duration,

    #[command(flatten)]
    common: CommonArguments,
}

#[derive(Debug, Args)]
pub(super) struct WalArguments {
    /// Entries to write, and to read, in each measurement
    #[arg(long, value_name = "N", default_value = "1000000")]
    rows: NonZeroUsize,

    /// Bytes of each value, of which half can be compressed
    #[arg(long, value_name = "N", default_value = "100")]
    value_bytes: NonZeroUsize,

    /// Tickets outstanding at a time, for `groupcommit`
    #[arg(long, value_name = "N", default_value = "1000")]
    in_flight: NonZeroUsize,

    /// Conditions to measure
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "no-wal,wal-nosync,wal-sync,groupcommit"
    )]
    conditions: Vec<Condition>,

    /// End a measurement after so many seconds, with the entries it has written by then
    #[arg(long, value_name = "S", default_value = "10", value_parser = parse_seconds)]
    seconds_limit: Duration,

    /// How often to measure each setting; the tables show medians
    #[arg(long, value_name = "N", default_value = "10")]
    repeat: NonZeroUsize,

    /// Folder for results.json; created when missing, earlier records in it are replaced
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    out: PathBuf,

    /// Folder for the databases, which are removed afterwards: the disk that is measured [default:
    /// the one of --out]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Seed of the random keys and values
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
}

#[derive(Debug, Args)]
pub(super) struct WebArguments {
    /// Requests in each measurement under normal and under high load [default: 400, or 60 with
    /// --quick]
    #[arg(long, value_name = "N")]
    requests: Option<NonZeroUsize>,

    /// Requests that arrive a second, on average
    #[arg(long, value_name = "RATE", default_value = "40")]
    per_second: f64,

    /// Requests that arrive at once, in measurements of their own; 0 leaves them out [default:
    /// 10000, or 500 with --quick]
    #[arg(long, value_name = "N")]
    at_once: Option<usize>,

    /// Connections that a condition with a bound may have
    #[arg(long, value_name = "N", default_value = "10")]
    connections: NonZeroUsize,

    /// Conditions to measure [default: every condition of the engine]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    conditions: Option<Vec<Condition>>,

    /// What takes a query its time: `work` for the database's processor, or `wait` in the server
    /// [default: work; work,wait on a server]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    queries: Option<Vec<Queries>>,

    /// Less of everything
    #[arg(long)]
    quick: bool,

    #[command(flatten)]
    common: CommonArguments,
}

#[derive(Debug, Args)]
pub(super) struct AllArguments {
    /// Less of everything: done within two minutes
    #[arg(long)]
    quick: bool,

    #[command(flatten)]
    common: CommonArguments,
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "give a number of seconds greater than 0".to_owned())
}

/// A duration of milliseconds, or of the unit that is given.
fn parse_delay(text: &str) -> Result<Duration, String> {
    let (number, seconds) = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("", 1e-3)]
        .into_iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))
        .unwrap_or((text, 1e-3));
    let delay = number.trim().parse().ok().and_then(|number: f64| {
        let nanoseconds = (number * seconds * 1e9).round();
        Duration::try_from_secs_f64(nanoseconds / 1e9).ok()
    });
    delay.ok_or_else(|| "give a time such as 0, 0.2, 200us, 5ms or 0.01s".to_owned())
}

fn numbers(list: &[NonZeroUsize]) -> Vec<usize> {
    list.iter().map(|number| number.get()).collect()
}

/// The conditions asked for, or else all of the engine's.
fn conditions(asked: Option<&Vec<Condition>>, all: &[Condition]) -> Vec<Condition> {
    asked.cloned().unwrap_or_else(|| all.to_vec())
}

/// For the record, which is no place for passwords.
fn command_line() -> String {
    std::env::args().map(|word| without_password(&word)).collect::<Vec<_>>().join(" ")
}

impl CommonArguments {
    fn engine(&self) -> Engine {
        self.url.as_ref().map_or(self.engine, |server| server.engine)
    }

    fn to_common(&self, repeats_default: usize) -> Common {
        Common {
            engine: self.engine(),
            url: self.url.as_ref().map(|server| server.url.clone()),
            value_bytes: self.value_bytes.get(),
            repeats: self.repeat.map_or(repeats_default, NonZeroUsize::get),
            out: self.out.clone(),
            database_folder: self.dir.clone(),
            seed: self.seed,
            flush_delays: self.flush_delay.clone(),
            command_line: command_line(),
        }
    }
}

impl WriteArguments {
    pub(super) fn to_options(&self) -> WriteOptions {
        WriteOptions {
            rows: self.rows.get(),
            batches: self
                .batch
                .as_deref()
                .map_or_else(|| WriteOptions::batches_of(self.common.engine()), numbers),
            in_flight: numbers(&self.in_flight),
            threads: numbers(&self.threads),
            conditions: conditions(
                self.conditions.as_ref(),
                Condition::of_write(self.common.engine()),
            ),
            time_limit: self.seconds_limit,
            common: self.common.to_common(REPEATS),
        }
    }
}

impl MixedArguments {
    pub(super) fn to_options(&self) -> MixedOptions {
        MixedOptions {
            rows: self.rows.get(),
            operations: self.operations.get(),
            in_flight: numbers(&self.in_flight),
            conditions: conditions(
                self.conditions.as_ref(),
                Condition::of_mixed(self.common.engine()),
            ),
            time_limit: self.seconds_limit,
            common: self.common.to_common(REPEATS),
        }
    }
}

impl ThreadsArguments {
    pub(super) fn to_options(&self) -> ThreadsOptions {
        ThreadsOptions {
            threads: self
                .threads
                .as_deref()
                .map_or_else(|| ThreadsOptions::threads_of(self.common.engine()), numbers),
            rows: self.rows.get(),
            conditions: conditions(
                self.conditions.as_ref(),
                Condition::of_threads(self.common.engine()),
            ),
            time_limit: self.seconds_limit,
            common: self.common.to_common(REPEATS),
        }
    }
}

impl LoadArguments {
    pub(super) fn to_options(&self) -> LoadOptions {
        LoadOptions {
            in_flight: numbers(&self.in_flight),
            shares: self.share.clone(),
            sizes: numbers(&self.group_size),
            delays: self.group_delay.clone(),
            rows: self.rows.get(),
            time_limit: self.seconds_limit,
            common: self.common.to_common(REPEATS),
        }
    }
}

impl WalArguments {
    pub(super) fn to_options(&self) -> WalOptions {
        WalOptions {
            rows: self.rows.get(),
            in_flight: self.in_flight.get(),
            conditions: self.conditions.clone(),
            time_limit: self.seconds_limit,
            common: Common {
                engine: Engine::Rocksdb,
                value_bytes: self.value_bytes.get(),
                repeats: self.repeat.get(),
                out: self.out.clone(),
                database_folder: self.dir.clone(),
                seed: self.seed,
                command_line: command_line(),
                ..Common::default()
            },
        }
    }
}

impl WebArguments {
    pub(super) fn to_options(&self) -> WebOptions {
        let (requests, at_once, repeats) =
            if self.quick { (60, 500, 1) } else { (400, 10_000, REPEATS) };
        WebOptions {
            requests: self.requests.map_or(requests, NonZeroUsize::get),
            per_second: self.per_second,
            at_once: self.at_once.unwrap_or(at_once),
            connections: self.connections.get(),
            queries: self
                .queries
                .clone()
                .unwrap_or_else(|| Queries::of(self.common.engine()).to_vec()),
            conditions: conditions(
                self.conditions.as_ref(),
                Condition::of_web(self.common.engine()),
            ),
            common: self.common.to_common(repeats),
        }
    }
}

impl AllArguments {
    pub(super) fn to_options(&self) -> AllOptions {
        if self.quick {
            AllOptions::quick(self.common.to_common(REPEATS_QUICK))
        } else {
            AllOptions::published(self.common.to_common(REPEATS))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};

    use std::fmt::Debug;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(subcommand)]
        experiment: Experiment,
    }

    fn program(arguments: &str) -> Result<Program, clap::Error> {
        Program::try_parse_from(["bench"].into_iter().chain(arguments.split_whitespace()))
    }

    fn parse(arguments: &str) -> Result<WriteOptions, clap::Error> {
        let program = program(arguments)?;
        let Experiment::Write(arguments) = program.experiment else { panic!("another experiment") };
        Ok(arguments.to_options())
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Program::command().debug_assert();
    }

    #[test]
    fn the_defaults_are_the_published_experiment() {
        let check = |found: &dyn Debug, published: &dyn Debug| {
            assert_eq!(format!("{found:?}"), format!("{published:?}"));
        };
        let common = Common { command_line: command_line(), ..Common::default() };
        match program("write").expect("parses").experiment {
            Experiment::Write(write) => {
                check(&write.to_options(), &WriteOptions { common, ..WriteOptions::default() });
            }
            other => panic!("{other:?}"),
        }
        let common = Common { command_line: command_line(), ..Common::default() };
        match program("mixed").expect("parses").experiment {
            Experiment::Mixed(mixed) => {
                check(&mixed.to_options(), &MixedOptions { common, ..MixedOptions::default() });
            }
            other => panic!("{other:?}"),
        }
        let common = Common { command_line: command_line(), ..Common::default() };
        match program("threads").expect("parses").experiment {
            Experiment::Threads(threads) => {
                let published = ThreadsOptions { common, ..ThreadsOptions::default() };
                check(&threads.to_options(), &published);
            }
            other => panic!("{other:?}"),
        }
        let common = Common { command_line: command_line(), ..WalOptions::default().common };
        match program("wal").expect("parses").experiment {
            Experiment::Wal(wal) => {
                check(&wal.to_options(), &WalOptions { common, ..WalOptions::default() });
            }
            other => panic!("{other:?}"),
        }
        let common = Common { command_line: command_line(), ..Common::default() };
        match program("web").expect("parses").experiment {
            Experiment::Web(web) => {
                let common = Common { command_line: command_line(), ..Common::default() };
                check(&web.to_options(), &WebOptions { common, ..WebOptions::default() });
            }
            other => panic!("{other:?}"),
        }
        match program("load").expect("parses").experiment {
            Experiment::Load(load) => {
                check(&load.to_options(), &LoadOptions { common, ..LoadOptions::default() });
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lists_are_separated_by_commas() {
        let options = parse(
            "write --rows 5 --batch 1,20 --in-flight 16,64,256 --threads 25 --conditions wal,groupcommit-async \
             --repeat 2 --out a --dir b --seconds-limit 0.5 --seed 9",
        )
        .expect("parses");
        assert_eq!(
            (options.rows, options.threads, options.common.repeats, options.common.seed),
            (5, vec![25], 2, 9)
        );
        assert_eq!(options.batches, [1, 20]);
        assert_eq!(options.in_flight, [16, 64, 256]);
        assert_eq!(options.conditions, [Condition::Wal, Condition::GroupcommitAsync]);
        assert_eq!(options.common.out, PathBuf::from("a"));
        assert_eq!(options.common.database_folder, Some(PathBuf::from("b")));
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
            "write --flush-delay -1ms",
            "write --flush-delay 1min",
            "mixed --operations 0",
            "threads --threads 0",
            "all --rows 5",
            "write --url app.db",
            "write --url sqlite:app.db",
            "web --connections 0",
            "write --engine sqlite --url postgres://a@b/c",
            "read",
        ] {
            program(arguments).expect_err(arguments);
        }
    }

    #[test]
    fn a_url_that_is_refused_is_not_repeated_with_its_password() {
        for url in ["oracle://me:secret@host/db", "oracle:me:secret@host", "lmdb://me:secret@host"]
        {
            let refused = program(&format!("write --url {url}")).expect_err(url).to_string();
            assert!(refused.contains("--url"), "{refused}");
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

    #[test]
    fn flush_delays_have_units_and_are_milliseconds_without() {
        let delays = |text: &str| {
            let options = parse(&format!("write --flush-delay {text}")).expect("parses");
            let micros = options.common.flush_delays.iter().map(Duration::as_micros);
            micros.collect::<Vec<_>>()
        };
        assert_eq!(delays("0,0.2,1ms,200us,0.005s"), [0, 200, 1_000, 200, 5_000]);
    }
}
