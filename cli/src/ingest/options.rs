//! The command line of `groupcommit ingest`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use groupcommit::sql;

use crate::exit::{Problem, explain};
use crate::ingest::value::Kind;

const AFTER_HELP: &str = "\
Formats:
  csv     a header line names the columns; quoting as in RFC 4180; blank lines are skipped
  ndjson  one JSON object a line; nested values are stored as their JSON text
  sql     one statement a line; blank lines and lines that begin with -- are skipped
  Input compressed with gzip is recognised by its first bytes, on standard input too.

Servers (where the program was built with them, as in --features postgres):
  postgres://user:password@host:port/database inserts into a table of the database's first schema.
  The options of SQLite alone (--convert-to-wal, --busy-timeout) do not apply.

Key-value engines (where the program was built with them, as in --features lmdb,rocksdb):
  lmdb:PATH and rocksdb:PATH keep each record under the text of its column --key COLUMN, in the
  table or column family --table (records, unless named). The value is the whole record: of CSV a JSON object, its fields typed
  as below; of NDJSON the line as it stands; --value msgpack writes the same as MessagePack.
  A record without a key, or with one that is too long, is rejected.

Column types:
  A missing table is created from the first records (--sample). A column is INTEGER if every value
  is an integer that reads back as the same text (so 007 makes it TEXT), REAL if every value is a
  number that a REAL keeps to the last digit, BOOLEAN if every JSON value is true or false, else
  TEXT. --type NAME=TYPE overrides this. REAL keeps the number, not its spelling (1.50 becomes 1.5).
  An empty CSV field is NULL in a column of numbers and the empty text in a TEXT column;
  --null '' makes it NULL everywhere. A later value that its column would alter is a rejected
  record, never stored changed.

Interruption:
  Every record is its own durable transaction, and the position in the input is kept in the same
  transaction (table _groupcommit_ingest). After Ctrl-C, kill -9 or a power cut, the same command
  with --resume continues behind the last durable record: nothing is lost, nothing comes twice.
  Rejected records are kept in _groupcommit_rejects and written to --rejects FILE as CSV.

Exit codes:
  0    every record is durable
  1    the input was read to its end, some records were rejected, all others are durable
  2    wrong usage, or the environment refused (missing file, full disk, lock held); what was
       acknowledged is durable, and --resume continues
  3    the outcome of some records is unknown: a commit or flush could not be confirmed; --resume
       continues from what the database recovers
  130  stopped by Ctrl-C or a termination signal; everything read is durable, --resume continues";

/// Options of `groupcommit ingest`.
#[derive(Args, Debug, Clone)]
#[command(after_long_help = AFTER_HELP, after_help = "See --help for formats, column types and exit codes.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Options {
    /// SQLite database, created when missing; or a URL: `postgres://user@host/database`,
    /// or lmdb:PATH or rocksdb:PATH for one of those
    pub(crate) database: PathBuf,

    /// Input file; - or nothing reads standard input
    #[arg(value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,

    /// Table to insert into; created from the input when missing (not needed for SQL)
    #[arg(long, short, value_name = "NAME")]
    pub(crate) table: Option<String>,

    /// Key-value engines: the column under whose value a record is kept; one that comes again
    /// replaces the record before
    #[arg(long, value_name = "COLUMN")]
    pub(crate) key: Option<String>,

    /// Key-value engines: how a record is written as a value
    #[arg(long, value_enum, default_value = "json")]
    pub(crate) value: Encoding,

    /// Input format; default: from the file name, else CSV
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,

    /// Text that stands for a missing value; may be given several times
    #[arg(long = "null", value_name = "TEXT")]
    pub(crate) nulls: Vec<String>,

    /// Field delimiter of CSV: one ASCII character, or "tab"; default: comma, tab for .tsv
    #[arg(long, value_name = "CHAR", value_parser = parse_delimiter)]
    pub(crate) delimiter: Option<u8>,

    /// Type of a column when the table is created: integer, real or text
    #[arg(long = "type", value_name = "NAME=TYPE", value_parser = parse_column_type)]
    pub(crate) types: Vec<(String, Kind)>,

    /// Records read ahead to choose the columns and types; nothing is ingested before they have come
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) sample: u64,

    /// Write rejected records to this CSV file (record, line, reason, content)
    #[arg(long, value_name = "FILE")]
    pub(crate) rejects: Option<PathBuf>,

    /// Continue an interrupted ingest behind its last durable record
    #[arg(long)]
    pub(crate) resume: bool,

    /// Forget an interrupted ingest and begin at the first record; rows already in the table stay
    #[arg(long, conflicts_with = "resume")]
    pub(crate) restart: bool,

    /// Convert a rollback-journal database to WAL, which groupcommit needs
    #[arg(long)]
    pub(crate) convert_to_wal: bool,

    /// Seconds to wait while another process holds the database
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_seconds)]
    pub(crate) busy_timeout: Duration,

    /// Most records submitted and not yet known to be durable
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
    /// Comma-separated values with a header line.
    Csv,
    /// One JSON object a line.
    Ndjson,
    /// One SQL statement a line.
    Sql,
}

/// How a record is written as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encoding {
    /// A JSON object.
    Json,
    /// The same in `MessagePack`.
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
}

/// The format and delimiter that apply, by option, else by file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// How records are written.
    pub(crate) format: Format,
    /// What separates CSV fields.
    pub(crate) delimiter: u8,
}

impl Options {
    /// The key-value engine and the path, where the database is given as `ENGINE:PATH`.
    pub(crate) fn keyed_target(&self) -> Option<(KeyedEngine, PathBuf)> {
        let (name, path) = self.database.to_str()?.split_once(':')?;
        let engine = [KeyedEngine::Lmdb, KeyedEngine::Rocksdb];
        let engine = engine.into_iter().find(|engine| engine.name() == name)?;
        Some((engine, path.into()))
    }

    /// The server's engine and the URL, where the database is given as one.
    pub(crate) fn server_target(&self) -> Option<(sql::Engine, &str)> {
        let url = self.database.to_str()?;
        let engine = sql::Engine::of_url(url).ok().filter(|engine| engine.is_server())?;
        Some((engine, url))
    }

    /// The same options with the file of SQLite in place of its URL.
    ///
    /// # Errors
    /// When the URL names no file, has options, which are this program's own here, or is of another
    /// database.
    pub(crate) fn with_sqlite_path(&self) -> Result<Self, Problem> {
        let mut options = self.clone();
        let Some(url) = self.database.to_str() else { return Ok(options) };
        let refused = |why: String| {
            Problem::environment(format!("cannot use {}: {why}", sql::without_password(url)))
        };
        match sql::Engine::of_url(url) {
            Ok(_) if url.contains('?') => {
                return Err(refused(
                    "give --convert-to-wal and --busy-timeout in place of options in the URL"
                        .to_owned(),
                ));
            }
            Ok(_) => {
                options.database =
                    sql::sqlite_path(url).map_err(|error| refused(explain(&error)))?;
            }
            Err(error) if url.contains("://") => return Err(refused(explain(&error))),
            Err(_) => {} // a file
        }
        Ok(options)
    }

    /// Refuses what only key-value engines take.
    ///
    /// # Errors
    /// When such an option is given.
    pub(crate) fn check_without_key(&self) -> Result<(), Problem> {
        if self.key.is_some() || self.value != Encoding::Json {
            return Err(Problem::environment(
                "--key and --value are for key-value engines, lmdb:PATH and rocksdb:PATH: leave them out",
            ));
        }
        Ok(())
    }

    /// Whether records come from standard input.
    pub(crate) fn reads_standard_input(&self) -> bool {
        self.input.as_deref().is_none_or(|path| path.as_os_str() == "-")
    }

    /// The format and delimiter that apply.
    ///
    /// # Errors
    /// Options that contradict each other.
    pub(crate) fn layout(&self) -> Result<Layout, Problem> {
        let extension = self.extension();
        let by_name = match extension.as_deref() {
            Some("ndjson" | "jsonl" | "json") => Format::Ndjson,
            Some("sql") => Format::Sql,
            _ => Format::Csv,
        };
        let format = self.format.unwrap_or(by_name);
        let tab = matches!(extension.as_deref(), Some("tsv" | "tab"));
        let delimiter = self.delimiter.unwrap_or(if tab { b'\t' } else { b',' });
        if format != Format::Csv && self.delimiter.is_some() {
            return Err(Problem::environment(format!(
                "--delimiter is for CSV, and the input is {}: leave it out or give --format csv",
                format.name()
            )));
        }
        if format == Format::Sql && !(self.types.is_empty() && self.nulls.is_empty()) {
            return Err(Problem::environment(
                "--type and --null do not apply to SQL lines: leave them out",
            ));
        }
        if format != Format::Sql && self.table.is_none() && self.keyed_target().is_none() {
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
        let lower = |path: &std::path::Path| {
            path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase)
        };
        let extension = lower(path)?;
        if extension == "gz" {
            lower(std::path::Path::new(path.file_stem()?))
        } else {
            Some(extension)
        }
    }
}

fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text {
        "tab" | "\\t" => Ok(b'\t'),
        _ => match text.as_bytes() {
            [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n' | 0) => Ok(*byte),
            _ => {
                Err("give one ASCII character that is no quote and no line end, or the word tab"
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
        _ => return Err(format!("{kind} is none of integer, real, text")),
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
        line.options.layout()
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
