//! Hostile inputs and paths given to the program as a user gives them: it ends with a documented exit
//! code, accounts for every record, and never calls durable what is in no file.
//!
//! `GROUPCOMMIT_FUZZ_PROGRAM_INPUTS` says how many inputs of each format.

mod common;
#[path = "../src/ingest/fuzz/mutate.rs"]
mod mutate;

use common::Place;
use mutate::Mutator;

fn inputs() -> u64 {
    let given = std::env::var("GROUPCOMMIT_FUZZ_PROGRAM_INPUTS").ok();
    given.map_or(25, |count| count.parse().expect("a number"))
}

/// Gives `format` inputs to the program; `count` says how many records one has.
fn every_record_is_accounted_for(format: &str, count: impl Fn(&[u8]) -> u64) {
    let mutator = Mutator::load(format);
    let own = mutator.corpus.iter().map(|(name, content)| (name.clone(), content.clone()));
    let made = (0..inputs()).map(|seed| (format!("number {seed}"), mutator.input(seed)));
    for (name, input) in own.chain(made) {
        let place = Place::new();
        place.write("input", &input);
        let ended = place.run(&["--table", "t", "--format", format, "--json", "--quiet", "input"]);
        let what = format!("{format} {name}, {}: {ended:#?}", input.escape_ascii());
        assert!(!ended.err.contains("panicked"), "{what}");
        if ended.code == Some(2) {
            assert!(
                ended.err.starts_with("groupcommit: ") && ended.err.contains("input"),
                "{what}"
            );
            continue;
        }
        let summary = ended.summary();
        let of = |key: &str| summary[key].as_u64().expect("a number");
        assert_eq!(ended.code, Some(i32::from(of("rejected") > 0)), "{what}");
        assert_eq!(of("committed") + of("rejected"), of("records"), "{what}");
        // Behind a stray quote there are more records than a plain reading has.
        let stray = "SELECT 1 FROM _groupcommit_rejects WHERE reason LIKE 'the quote that opens%'";
        if place.column(stray).is_empty() {
            assert_eq!(of("records"), count(&input), "{what}");
        }
        let rejects = place.column("SELECT count(*) FROM _groupcommit_rejects");
        assert_eq!(rejects, [of("rejected").to_string()], "{what}");
        if format != "sql" {
            assert_eq!(
                place.column("SELECT count(*) FROM t"),
                [of("committed").to_string()],
                "{what}"
            );
        }
    }
}

#[test]
fn csv() {
    every_record_is_accounted_for("csv", |input| {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(input);
        reader.byte_records().count() as u64
    });
}

#[test]
fn ndjson() {
    every_record_is_accounted_for("ndjson", |input| lines(input, false));
}

#[test]
fn sql() {
    every_record_is_accounted_for("sql", |input| lines(input, true));
}

fn lines(input: &[u8], comments: bool) -> u64 {
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    let is_frame = |line: &[u8]| {
        let words = String::from_utf8_lossy(line).to_ascii_uppercase();
        let words: Vec<_> = words.trim_end_matches(';').split_ascii_whitespace().collect();
        ["BEGIN", "COMMIT", "END"].contains(&words.join(" ").as_str())
    };
    let is_blank =
        |line: &[u8]| line.is_empty() || (comments && (line.starts_with(b"--") || is_frame(line)));
    let lines = input.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.filter(|line| !is_blank(line)).count() as u64
}

/// What SQLite might take for something else than a file's name, and names that are odd.
const PATHS: [&str; 16] = [
    ".",
    "/",
    "missing/app.db",
    ":memory:",
    "file::memory:",
    "file:app.db",
    "file:app.db?mode=memory",
    "file:app.db?mode=memory&cache=shared",
    "file:app.db?vfs=unix-none",
    "file:app.db?immutable=1",
    "file:app.db?nolock=1",
    "app.db?mode=ro",
    "é 😀.db",
    "-x",
    "a\nb%00.db",
    "/dev/null",
];

#[test]
fn database_paths() {
    let long = "x".repeat(300);
    for path in PATHS.into_iter().chain([long.as_str()]) {
        let place = Place::new();
        place.write("input.csv", "a\n1\n");
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_groupcommit"));
        command.args(["ingest", "--table", "t", "--quiet", "--", path, "input.csv"]);
        let ended = command.current_dir(place.path("")).output().expect("runs");
        let error = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!error.contains("panicked"), "{path:?}: {error}");
        match ended.status.code() {
            Some(0) => {
                // SQLite takes what begins with `file:` for a URI.
                let uri =
                    path.strip_prefix("file:").map(|uri| uri.split('?').next().unwrap_or(uri));
                let file = place.path(uri.unwrap_or(path));
                assert!(file.is_file(), "{path:?} is in no file of this name: {error}");
                assert!(!path.contains("memory"), "{path:?} is taken for a file");
            }
            Some(2) => assert!(error.starts_with("groupcommit: cannot open"), "{path:?}: {error}"),
            other => panic!("{path:?}: {other:?}, {error}"),
        }
    }
}
