//! What the tests of the program share: a directory of their own, the program, a look into the database.
#![expect(dead_code, unreachable_pub, reason = "each test file is a crate that uses its part")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use rusqlite::Connection;
use rusqlite::types::ValueRef;

/// A temporary directory with a database in it.
pub struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Place {
            // Beside the program: /tmp is often in memory, where the program rightly warns.
            directory: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))
                .expect("a temporary directory"),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).expect("writes");
        path
    }

    /// The program in this directory, on the database `test.db`.
    pub fn ingest(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_groupcommit"));
        command.current_dir(self.directory.path()).args(["ingest", "test.db"]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        Ended::from(self.ingest(arguments).output().expect("runs"))
    }

    /// Runs the program to its end with `input` on standard input.
    pub fn run_with(&self, arguments: &[&str], input: &[u8]) -> Ended {
        let mut child = self.ingest(arguments).stdin(Stdio::piped()).spawn().expect("starts");
        let mut standard_input = child.stdin.take().expect("piped");
        let input = input.to_vec();
        // The program may stop reading early; what it says then is what the test looks at.
        let writer = std::thread::spawn(move || drop(standard_input.write_all(&input)));
        let ended = Ended::from(child.wait_with_output().expect("ends"));
        writer.join().expect("writes");
        ended
    }

    /// Starts the program on a pipe that stays open, writes `input` into it, and waits until `position`
    /// records are durable.
    pub fn fed(&self, arguments: &[&str], input: &[u8], position: u64) -> (Child, ChildStdin) {
        let mut child = self.ingest(arguments).stdin(Stdio::piped()).spawn().expect("starts");
        let mut pipe = child.stdin.take().expect("piped");
        pipe.write_all(input).expect("writes");
        wait_for_position(self, &mut child, position);
        (child, pipe)
    }

    /// A connection of the test's own.
    pub fn database(&self) -> Connection {
        Connection::open(self.path("test.db")).expect("opens")
    }

    /// Every row of `query`, each value as SQL writes it.
    pub fn rows(&self, query: &str) -> Vec<Vec<String>> {
        let connection = self.database();
        let mut statement = connection.prepare(query).expect("prepares");
        let count = statement.column_count();
        let mut rows = statement.query([]).expect("runs");
        let mut all = Vec::new();
        while let Some(row) = rows.next().expect("steps") {
            all.push(
                (0..count).map(|index| literal(row.get_ref(index).expect("column"))).collect(),
            );
        }
        all
    }

    /// The lines of `query` with one column.
    pub fn column(&self, query: &str) -> Vec<String> {
        self.rows(query).into_iter().map(|mut row| row.remove(0)).collect()
    }

    /// The rejects file as its records, header left out; U+FFFD for what is no text.
    pub fn rejects(&self, name: &str) -> Vec<Vec<String>> {
        let mut reader = csv::Reader::from_path(self.path(name)).expect("opens");
        assert_eq!(reader.headers().expect("header"), vec!["record", "line", "reason", "content"]);
        let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
        reader
            .byte_records()
            .map(|record| record.expect("reads").iter().map(text).collect())
            .collect()
    }
}

/// A value as SQL writes it.
fn literal(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(integer) => integer.to_string(),
        ValueRef::Real(real) => format!("{real:?}"),
        ValueRef::Text(text) => format!("'{}'", String::from_utf8_lossy(text)),
        ValueRef::Blob(blob) => format!("x'{blob:?}'"),
    }
}

/// How the program ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Ended {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("UTF-8"),
            err: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}

impl Ended {
    /// Demands this exit code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Demands that standard error says this.
    #[track_caller]
    pub fn says(self, part: &str) -> Self {
        assert!(self.err.contains(part), "expected {part:?} in {self:#?}");
        self
    }

    /// The summary printed by --json.
    #[track_caller]
    pub fn summary(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
    }
}

/// The sample of real data in the project.
pub fn flights_sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../data/flights-sample.csv")
        .canonicalize()
        .expect("is there")
}

/// Checks that table `t` holds exactly the records of the CSV `input`, in order, where `NA` is NULL.
#[track_caller]
pub fn assert_equal_to_csv(place: &Place, table: &str, input: &[u8], rejected: &[u64]) {
    let mut reader = csv::Reader::from_reader(input);
    let names: Vec<String> = reader.headers().expect("header").iter().map(str::to_owned).collect();
    let list = names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let connection = place.database();
    let mut statement = connection
        .prepare(&format!("SELECT {list} FROM \"{table}\" ORDER BY rowid"))
        .expect("prepares");
    let mut rows = statement.query([]).expect("runs");
    for (index, record) in reader.records().enumerate() {
        let number = index as u64 + 1;
        if rejected.contains(&number) {
            continue;
        }
        let record = record.expect("reads");
        let row =
            rows.next().expect("steps").unwrap_or_else(|| panic!("no row for record {number}"));
        for (column, expected) in record.iter().enumerate() {
            let found = match row.get_ref(column).expect("column") {
                ValueRef::Null => "NA".to_owned(),
                ValueRef::Integer(integer) => integer.to_string(),
                ValueRef::Real(real) => real.to_string(),
                ValueRef::Text(text) => String::from_utf8(text.to_vec()).expect("UTF-8"),
                ValueRef::Blob(_) => "a blob".to_owned(),
            };
            assert_eq!(found, expected, "record {number}, column {}", names[column]);
        }
    }
    assert!(rows.next().expect("steps").is_none(), "more rows than records");
}

/// Sends the program a signal.
pub fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    nix::sys::signal::kill(pid, signal).expect("signals");
}

/// Waits until the ingest `child` into the database of `place` has made `position` records durable, or
/// has ended; returns the position seen last.
pub fn wait_for_position(place: &Place, child: &mut Child, position: u64) -> u64 {
    loop {
        let seen = durable_position(place);
        if seen >= position || child.try_wait().expect("is there").is_some() {
            return seen;
        }
        std::thread::yield_now();
    }
}

/// The position in the ledger; 0 while there is none.
pub fn durable_position(place: &Place) -> u64 {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
    let Ok(connection) = Connection::open_with_flags(place.path("test.db"), flags) else {
        return 0;
    };
    connection
        .query_row("SELECT position FROM _groupcommit_ingest", [], |row| row.get::<_, i64>(0))
        .map_or(0, i64::cast_unsigned)
}
