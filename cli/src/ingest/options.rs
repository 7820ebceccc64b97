//! The command line of `groupcommit ingest`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use encoding_rs::Encoding as Charset;

use groupcommit::sql::{self, Engine, without_password};

use crate::exit::{Problem, explain};
use crate::ingest::value::Kind;

const AFTER_HELP: &str = "\
Examples:
  groupcommit ingest app.db flights.csv --table flights --null NA
  zcat events.ndjson.gz | groupcommit ingest app.db --table events
  sqlite3 old.db .dump | groupcommit ingest new.db
  groupcommit ingest app.db export.txt --table t --delimiter ';' --encoding windows-1252
  groupcommit ingest postgres://me@host/app flights.csv --table flights --rejects bad.csv

Formats:
  csv     a header line names the columns (--no-header: there is none); quoting as in RFC 4180; blank
          lines are skipped
  ndjson  one JSON object a line; nested values are stored as their JSON text
  sql     one statement a line; in the output of .dump, one to its semicolon. Every statement is its
          own transaction, so BEGIN and COMMIT are skipped
  The file name tells the format, else the first line does. Files compressed with gzip and files that
  begin with a byte order mark are recognised, on standard input too.

Column types:
  A missing table is created from the first records (--sample). A column is INTEGER if every value
  is an integer that reads back as the same text (so 007 makes it TEXT), REAL if every value is a
  number that a REAL keeps to the last digit, BOOLEAN if every JSON value is true or false, else
  TEXT. --type NAME=TYPE overrides this. REAL keeps the number, not its spelling (1.50 becomes 1.5).
  An empty CSV field is NULL in a column of numbers and the empty text in a TEXT column;
  --null '' makes it NULL everywhere. A record with a value that its column would alter is rejected.

Rejected records:
  A bad record does not stop the ingest. It is kept with its line and the reason in the table
  _groupcommit_rejects, and written to --rejects FILE as CSV. A stray quote in a CSV costs the line
  it is in, not the lines after it.

Interruption:
  Every record is its own durable transaction, which also keeps the position in the input (table
  _groupcommit_ingest). After Ctrl-C, kill -9 or a power cut, the same command with --resume
  continues after the last durable record: nothing is lost, and nothing is inserted twice. Each input
  has its own position, so several can go into one table.

Servers (in a program built with --features postgres or mysql):
  postgres://user:password@host:port/database inserts into a table of the first schema.
  --convert-to-wal and --busy-timeout are for SQLite alone.

Key-value engines (in a program built with --features lmdb or rocksdb):
  lmdb:PATH and rocksdb:PATH keep each record under the text of its column --key, in the table or
  column family --table (default: records). The value is the whole record: of CSV a JSON object with
  typed fields, of NDJSON the line itself; --value msgpack writes the same as MessagePack. A record
  without a key, or with too long a key, is rejected.

Exit codes:
  0    every record is durable
  1    the input was read to its end; some records were rejected, all others are durable
  2    wrong usage, or the environment failed (missing file, full disk, lock held); every record that
       was acknowledged is durable, and --resume continues
  3    the outcome of some records is unknown: a commit or flush could not be confirmed; --resume
       continues from what the database has
  130  stopped by Ctrl-C or a termination signal; everything read is durable, and --resume continues";

/// Options of `groupcommit ingest`.
#[derive(Args, Debug, Clone)]
#[command(after_long_help = AFTER_HELP, after_help = "See --help for examples, formats, column types and exit codes.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Options {
    /// SQLite file, created when missing; or `postgres://user@host/database`, `mysql://...`,
    /// lmdb:PATH or rocksdb:PATH
    pub(crate) database: PathBuf,

    /// Input file; standard input when missing or -
    #[arg(value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,

    /// Table to insert into, created from the input when missing; SQL needs none
    #[arg(long, short, value_name = "NAME")]
    pub(crate) table: Option<String>,

    /// Key-value engines: column whose value is the record's key; a key that comes again replaces
    /// the record before
    #[arg(long, value_name = "COLUMN")]
    pub(crate) key: Option<String>,

    /// Key-value engines: how a record is written as a value
    #[arg(long, value_enum, default_value = "json")]
    pub(crate) value: Encoding,

    /// Input format [default: from the file name or the first line]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,

    /// Text that stands for a missing value; may be given several times
    #[arg(long = "null", value_name = "TEXT")]
    pub(crate) nulls: Vec<String>,

    /// Field delimiter of CSV: one ASCII character, or "tab" [default: comma, tab for .tsv]
    #[arg(long, value_name = "CHAR", value_parser = parse_delimiter)]
    pub(crate) delimiter: Option<u8>,

    /// The first line of a CSV is a record: fields go into the table's columns in order, or into c1,
    /// c2, ... of a new table
    #[arg(long)]
    pub(crate) no_header: bool,

    /// Accept CSV records whose last fields are missing (stored as NULL), or that have extra empty
    /// fields
    #[arg(long)]
    pub(crate) ragged: bool,

    /// Encoding of the input, such as windows-1252, utf-16le or shift-jis [default: from a byte
    /// order mark, else UTF-8]
    #[arg(long, value_name = "NAME", value_parser = parse_charset)]
    pub(crate) encoding: Option<&'static Charset>,

    /// Type of a column of a new table: integer, real or text
    #[arg(long = "type", value_name = "NAME=TYPE", value_parser = parse_column_type)]
    pub(crate) types: Vec<(String, Kind)>,

    /// Records read ahead to choose the columns and types; the ingest begins after them
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) sample: u64,

    /// Write rejected records to this CSV file (record, line, reason, content)
    #[arg(long, value_name = "FILE")]
    pub(crate) rejects: Option<PathBuf>,

    /// Continue after the last durable record of this input
    #[arg(long)]
    pub(crate) resume: bool,

    /// Insert an input again from its first record; rows already in the table stay
    #[arg(long, conflicts_with = "resume")]
    pub(crate) restart: bool,

    /// Convert a rollback-journal database to WAL, which groupcommit needs
    #[arg(long)]
    pub(crate) convert_to_wal: bool,

    /// Seconds to wait while another process holds the database
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_seconds)]
    pub(crate) busy_timeout: Duration,

    /// Maximum number of records submitted and not yet durable
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) in_flight: u32,

    /// Print the summary as one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// No progress on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// A format of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated values.
    Csv,
    /// One JSON object a line.
    Ndjson,
    /// SQL statements.
    Sql,
}

/// How a record is written as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encoding {
    /// A JSON object.
    Json,
    /// `MessagePack`.
    #[value(help = "The same in MessagePack")]
    Msgpack,
}

impl Format {
    /// The word for it, as on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Ndjson => "ndjson",
            Format::Sql => "sql",
        }
    }
}

/// An engine that keeps records under keys, given as `ENGINE:PATH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyedEngine {
    /// LMDB, with the feature `lmdb`.
    Lmdb,
    /// RocksDB, with the feature `rocksdb`.
    Rocksdb,
}

impl KeyedEngine {
    /// The name in `ENGINE:PATH`, and of the feature.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lmdb => "lmdb",
            Self::Rocksdb => "rocksdb",
        }
    }

    /// The name in sentences.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Lmdb => "LMDB",
            Self::Rocksdb => "RocksDB",
        }
    }

    /// Whether this program was built with it.
    pub(crate) fn is_built_in(self) -> bool {
        match self {
            Self::Lmdb => cfg!(feature = "lmdb"),
            Self::Rocksdb => cfg!(feature = "rocksdb"),
        }
    }
}

/// Where records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// An SQLite file.
    Sqlite(PathBuf),
    /// The database of this URL on a server.
    Server(Engine, String),
    /// A database of a key-value engine.
    Keyed(KeyedEngine, PathBuf),
}

/// The format and delimiter that apply, by option, else by file name, else by the first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// How records are written.
    pub(crate) format: Format,
    /// The separator of CSV fields.
    pub(crate) delimiter: u8,
}

impl Options {
    /// Where the records go.
    ///
    /// # Errors
    /// A URL that is of no known database or cannot be used here, or options of another engine.
    pub(crate) fn destination(&self) -> Result<Destination, Problem> {
        let destination = self.parse_database()?;
        let is_keyed = matches!(destination, Destination::Keyed(..));
        if !is_keyed && (self.key.is_some() || self.value != Encoding::Json) {
            return Err(Problem::environment(
                "--key and --value are for key-value engines, lmdb:PATH and rocksdb:PATH: leave them out",
            ));
        }
        Ok(destination)
    }

    fn parse_database(&self) -> Result<Destination, Problem> {
        let file = || Ok(Destination::Sqlite(self.database.clone()));
        let Some(url) = self.database.to_str() else { return file() };
        let Some((scheme, rest)) = url.split_once(':') else { return file() };
        let lower = scheme.to_ascii_lowercase();
        for engine in [KeyedEngine::Lmdb, KeyedEngine::Rocksdb] {
            if engine.name() == lower {
                return Ok(Destination::Keyed(engine, rest.into()));
            }
        }
        let refused = |why: &str| {
            Err(Problem::environment(format!("cannot use {}: {why}", without_password(url))))
        };
        match Engine::of_url(url) {
            Ok(engine) if engine.is_server() => Ok(Destination::Server(engine, url.to_owned())),
            Ok(_) if url.contains('?') => {
                refused("give --convert-to-wal and --busy-timeout in place of options in the URL")
            }
            Ok(_) => match sql::sqlite_path(url) {
                Ok(path) => Ok(Destination::Sqlite(path)),
                Err(error) => refused(&explain(&error)),
            },
            // SQLite has URLs of its own, and a file may have any name.
            Err(_) if lower == "file" || !is_scheme(&lower) || self.database.exists() => file(),
            Err(_) => refused(
                "expected a file, or sqlite:, lmdb:, rocksdb:, postgres:// or mysql://; begin the name of a file with ./",
            ),
        }
    }

    /// The database as messages show it.
    pub(crate) fn shown(&self) -> String {
        without_password(&self.database.to_string_lossy())
    }

    /// Whether records come from standard input.
    pub(crate) fn reads_standard_input(&self) -> bool {
        self.input.as_deref().is_none_or(|path| path.as_os_str() == "-")
    }

    /// The format and delimiter that apply; `head` is the first line of the input.
    ///
    /// # Errors
    /// Options that contradict each other or the input.
    pub(crate) fn layout(&self, to: &Destination, head: &[u8]) -> Result<Layout, Problem> {
        let extension = self.extension();
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii();
        let is_dump = ["PRAGMA foreign_keys", "BEGIN TRANSACTION"]
            .iter()
            .any(|first| head.starts_with(first.as_bytes()));
        let is_array = head.first() == Some(&b'[')
            && matches!(head[1..].trim_ascii_start().first(), None | Some(b'{' | b']'));
        let by_name = match extension.as_deref() {
            Some("ndjson" | "jsonl" | "json") => Format::Ndjson,
            Some("sql") => Format::Sql,
            Some("csv" | "tsv" | "tab") => Format::Csv,
            _ if head.starts_with(b"{") || is_array => Format::Ndjson,
            _ if is_dump => Format::Sql,
            _ => Format::Csv,
        };
        let format = self.format.unwrap_or(by_name);
        let tab = matches!(extension.as_deref(), Some("tsv" | "tab"));
        let delimiter = self.delimiter.unwrap_or(if tab { b'\t' } else { b',' });
        if format == Format::Ndjson && is_array {
            return Err(Problem::environment(
                "the input is a JSON array, and NDJSON has one object a line: `jq -c '.[]' FILE` writes it so",
            ));
        }
        for (is_given, option) in [
            (self.delimiter.is_some(), "--delimiter"),
            (self.no_header, "--no-header"),
            (self.ragged, "--ragged"),
        ] {
            if format != Format::Csv && is_given {
                return Err(Problem::environment(format!(
                    "{option} is for CSV, and the input is {}: leave it out or give --format csv",
                    format.name()
                )));
            }
        }
        if format == Format::Sql && !(self.types.is_empty() && self.nulls.is_empty()) {
            return Err(Problem::environment(
                "--type and --null do not apply to SQL: leave them out",
            ));
        }
        let needs_table = format != Format::Sql && !matches!(to, Destination::Keyed(..));
        if needs_table && self.table.is_none() {
            return Err(Problem::environment(format!(
                "{} input needs --table NAME",
                format.name()
            )));
        }
        Ok(Layout { format, delimiter })
    }

    /// The extension of the input's name in lower case, without a `.gz`.
    fn extension(&self) -> Option<String> {
        let path = self.input.as_deref()?;
        let lower =
            |path: &Path| path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        let extension = lower(path)?;
        if extension == "gz" { lower(Path::new(path.file_stem()?)) } else { Some(extension) }
    }
}

/// Whether text before a colon looks like the name of a kind of database.
fn is_scheme(text: &str) -> bool {
    text.len() > 1
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|other| other.is_ascii_alphanumeric() || "+-.".contains(other))
}

fn parse_charset(text: &str) -> Result<&'static Charset, String> {
    Charset::for_label(text.as_bytes()).ok_or_else(|| {
        "unknown; give a label of the WHATWG Encoding Standard, such as windows-1252, utf-16le or shift-jis".into()
    })
}

fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text {
        "tab" | "\\t" => Ok(b'\t'),
        _ => match text.as_bytes() {
            [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n' | 0) => Ok(*byte),
            _ => {
                Err("give one ASCII character other than a quote or a line end, or the word tab"
                    .into())
            }
        },
    }
}

fn parse_column_type(text: &str) -> Result<(String, Kind), String> {
    let (name, kind) = text.rsplit_once('=').ok_or("write NAME=TYPE, for example zip=text")?;
    let kind = match kind.to_ascii_lowercase().as_str() {
        "integer" | "int" => Kind::Integer,
        "real" => Kind::Real,
        "text" => Kind::Text,
        _ => return Err(format!("unknown type {kind}; expected integer, real or text")),
    };
    Ok((name.to_owned(), kind))
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|duration| *duration <= Duration::from_hours(24))
        .ok_or_else(|| "give a number of seconds from 0 to 86400".into())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn layout(arguments: &[&str]) -> Result<Layout, Problem> {
        let line = Line::try_parse_from(["ingest"].iter().chain(arguments)).expect("parses");
        layout_of(&line.options, b"")
    }

    fn layout_of(options: &Options, head: &[u8]) -> Result<Layout, Problem> {
        options.layout(&options.destination().expect("a file"), head)
    }

    fn destination(database: &str) -> Result<Destination, Problem> {
        let line = Line::try_parse_from(["ingest", database]).expect("parses");
        line.options.destination()
    }

    #[test]
    fn databases_are_files_or_of_a_kind_that_is_known() {
        for file in ["app.db", ":memory:", "file:app.db?mode=ro", "./rocskdb:x", "a b:c", "x:y"] {
            assert_eq!(destination(file).expect(file), Destination::Sqlite(file.into()));
        }
        assert_eq!(destination("sqlite:x").expect("a file"), Destination::Sqlite("x".into()));
        let keyed = Destination::Keyed(KeyedEngine::Lmdb, "x:y".into());
        assert_eq!(destination("LMDB:x:y").expect("a key-value engine"), keyed);
        assert!(matches!(destination("mysql://h/d"), Ok(Destination::Server(Engine::Mysql, _))));
        for unknown in ["rocskdb:x", "oracle://h/d", "sqlite:x?create=false"] {
            assert!(destination(unknown).is_err(), "{unknown}");
        }
    }

    #[test]
    fn the_first_line_tells_what_the_name_does_not() {
        let line = Line::try_parse_from(["ingest", "x.db", "-t", "t"]).expect("parses");
        for (head, format) in [
            (&b"a,b\n"[..], Some(Format::Csv)),
            (b"\xef\xbb\xbf\n {\"a\":1}\n", Some(Format::Ndjson)),
            (b"PRAGMA foreign_keys=OFF;\n", Some(Format::Sql)),
            (b"[note],b\n", Some(Format::Csv)),
            (b"[\n", None),
            (b"[ {\"a\":1}]", None),
        ] {
            let found = layout_of(&line.options, head).ok().map(|layout| layout.format);
            assert_eq!(found, format, "{}", head.escape_ascii());
        }
    }

    #[test]
    fn format_follows_the_file_name_through_gzip() {
        for (file, format, delimiter) in [
            ("a.csv", Format::Csv, b','),
            ("a.CSV.GZ", Format::Csv, b','),
            ("a.tsv.gz", Format::Csv, b'\t'),
            ("a.ndjson", Format::Ndjson, b','),
            ("a.jsonl.gz", Format::Ndjson, b','),
            ("a.sql", Format::Sql, b','),
            ("unknown.dat", Format::Csv, b','),
            ("-", Format::Csv, b','),
        ] {
            let found = layout(&["x.db", file, "--table", "t"]).expect(file);
            assert_eq!(found, Layout { format, delimiter }, "{file}");
        }
    }

    #[test]
    fn an_option_wins_over_the_name() {
        let found = layout(&["x.db", "a.txt", "-t", "t", "--format", "ndjson"]).expect("layout");
        assert_eq!(found.format, Format::Ndjson);
        let found = layout(&["x.db", "a.tsv", "-t", "t", "--delimiter", ";"]).expect("layout");
        assert_eq!(found.delimiter, b';');
    }

    #[test]
    fn contradictions_are_refused() {
        assert!(layout(&["x.db", "a.csv"]).is_err(), "CSV without a table");
        assert!(layout(&["x.db", "a.sql"]).is_ok(), "SQL names its own tables");
        assert!(layout(&["x.db", "a.sql", "--null", "NA"]).is_err());
        assert!(layout(&["x.db", "a.ndjson", "-t", "t", "--delimiter", ";"]).is_err());
    }

    #[test]
    fn delimiters_types_and_seconds_are_checked() {
        assert_eq!(parse_delimiter("tab"), Ok(b'\t'));
        assert!(parse_delimiter("\"").is_err());
        assert!(parse_delimiter("ab").is_err());
        assert_eq!(parse_column_type("a=b=TEXT"), Ok(("a=b".to_owned(), Kind::Text)));
        assert!(parse_column_type("a=blob").is_err());
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(parse_seconds("-1").is_err());
        assert!(parse_seconds("NaN").is_err());
    }
}
