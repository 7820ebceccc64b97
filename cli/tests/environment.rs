//! Wrong usage and a refusing environment: exit code 2 and a sentence that names what and what to do.

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use common::{Ended, Place, signal};
use nix::sys::signal::Signal;

#[test]
fn inputs_that_cannot_be_read() {
    let place = Place::new();
    place.run(&["-t", "t", "missing.csv"]).expect(2).says("missing.csv").says("check the path");
    assert!(!place.path("test.db").exists(), "nothing is created for an input that is not there");
    place.run(&["-t", "t", "."]).expect(2).says("is a directory");
    place.run_with(&["-t", "t"], b"").expect(2).says("header");
    place.run_with(&["-t", "t"], b"\x28\xb5\x2f\xfd rest").expect(2).says("zstd");
    place.run_with(&["-t", "t"], b"a,A\n1,2\n").expect(2).says("differ only in case");
    place.run_with(&["-t", "t"], b"a,\n1,2\n").expect(2).says("column 2 has no name");
    place
        .run_with(&["-t", "t", "--format", "ndjson"], b"nonsense\n")
        .expect(2)
        .says("no JSON object");
    place.run_with(&["-t", "t", "--type", "x=text"], b"a\n1\n").expect(2).says("column x");
    place.run_with(&["-t", "_groupcommit_x"], b"a\n1\n").expect(2).says("reserved");
    place.run_with(&[], b"a\n1\n").expect(2).says("--table");
}

#[test]
fn a_gzip_file_that_is_cut_short_keeps_what_came_before() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    let rows: String =
        (0..50_000).fold(String::new(), |rows, number| rows + &format!("{number}\n"));
    std::io::Write::write_all(&mut encoder, format!("a\n{rows}").as_bytes()).expect("compresses");
    let whole = encoder.finish().expect("compresses");
    let place = Place::new();
    place.write("in.csv.gz", &whole[..whole.len() / 2]);
    let ended =
        place.run(&["-t", "t", "in.csv.gz", "--json"]).expect(2).says("in.csv.gz").says("--resume");
    let durable = ended.summary()["position"].as_u64().expect("a number");
    assert!(durable > 10_000, "{durable}");
    place.write("in.csv.gz", &whole);
    place.run(&["-t", "t", "in.csv.gz", "--resume"]).expect(0);
    assert_eq!(
        place.rows("SELECT count(*), sum(a), max(a) FROM t"),
        [["50000", "1249975000", "49999"]]
    );
}

#[test]
fn tables_that_do_not_fit() {
    let place = Place::new();
    place
        .database()
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (a, b NOT NULL); CREATE VIEW v AS SELECT 1 AS a;")
        .expect("creates");
    place.run_with(&["-t", "t"], b"a,b,c,d\n1,2,3,4\n").expect(2).says("no column c, d");
    place.run_with(&["-t", "t"], b"a\n1\n").expect(2).says("needs a value for b");
    place
        .run_with(&["-t", "t", "--type", "a=text"], b"a,b\n1,2\n")
        .expect(2)
        .says("leave --type out");
    place.run_with(&["-t", "v"], b"a\n1\n").expect(2).says("view");
}

#[test]
fn databases_that_cannot_be_used() {
    let place = Place::new();
    place.write(
        "test.db",
        "this is a text file, and long enough to be looked at as a database header, is it not?",
    );
    place.run_with(&["-t", "t"], b"a\n1\n").expect(2).says("test.db");
    let text = std::fs::read_to_string(place.path("test.db")).expect("reads");
    assert!(text.starts_with("this is a text file"), "it is left alone");

    let elsewhere = place.path("no/such/directory/x.db");
    place.write("in.csv", "a\n1\n");
    let ended = Ended::from(
        std::process::Command::new(env!("CARGO_BIN_EXE_groupcommit"))
            .args(["ingest", elsewhere.to_str().expect("UTF-8"), "-t", "t"])
            .arg(place.path("in.csv"))
            .output()
            .expect("runs"),
    );
    ended.expect(2).says("no/such/directory");
}

#[test]
fn a_rollback_journal_database_is_converted_only_when_asked() {
    let place = Place::new();
    place
        .database()
        .execute_batch("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (0)")
        .expect("creates");
    place.run_with(&["-t", "t"], b"a\n1\n").expect(2).says("--convert-to-wal");
    assert_eq!(place.column("PRAGMA journal_mode"), ["'delete'"]);
    place.run_with(&["-t", "t", "--convert-to-wal"], b"a\n1\n").expect(0);
    assert_eq!(place.column("PRAGMA journal_mode"), ["'wal'"]);
    assert_eq!(place.column("SELECT a FROM t"), ["0", "1"]);
}

#[test]
fn another_process_with_the_write_lock_is_named_as_the_cause() {
    let place = Place::new();
    let holder = place.database();
    holder
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (a); BEGIN IMMEDIATE")
        .expect("locks");
    place
        .run_with(&["-t", "t", "--busy-timeout", "0.1"], b"a\n1\n")
        .expect(2)
        .says("another process");
    holder.execute_batch("ROLLBACK").expect("unlocks");
    place.run_with(&["-t", "t"], b"a\n1\n").expect(0);
}

#[test]
fn a_lock_taken_amid_an_ingest_stops_it_at_a_durable_position() {
    let place = Place::new();
    let arguments = ["-t", "t", "--sample", "1", "--busy-timeout", "0.1", "--json"];
    let (child, mut input) = place.fed(&arguments, b"a\n1\n2\n", 2);
    let holder = place.database();
    holder.execute_batch("BEGIN IMMEDIATE").expect("locks");
    input.write_all(b"3\n4\n").expect("writes");
    drop(input);
    let ended = Ended::from(child.wait_with_output().expect("ends")).expect(2);
    let ended = ended.says("write lock").says("record through number 2 (line 3)").says("--resume");
    assert_eq!(
        (&ended.summary()["outcome"], &ended.summary()["position"]),
        (&"stopped".into(), &2.into())
    );
    holder.execute_batch("ROLLBACK").expect("unlocks");
    place.run_with(&["-t", "t", "--resume"], b"a\n1\n2\n3\n4\n").expect(0);
    assert_eq!(place.column("SELECT a FROM t"), ["1", "2", "3", "4"]);
}

#[test]
fn the_rejects_file_overwrites_neither_input_nor_database() {
    let place = Place::new();
    place.write("in.csv", "a\n1\n");
    place.run(&["-t", "t", "in.csv", "--rejects", "./in.csv"]).expect(2).says("overwrite");
    place
        .run(&["-t", "t", "in.csv", "--resume", "--rejects", "no/dir/bad.csv"])
        .expect(2)
        .says("no/dir/bad.csv");
    // By another of its names, and as what standard input is redirected from.
    std::fs::hard_link(place.path("in.csv"), place.path("link.csv")).expect("links");
    place.run(&["-t", "t", "in.csv", "--rejects", "link.csv"]).expect(2).says("overwrite");
    let file = std::fs::File::open(place.path("in.csv")).expect("opens");
    let mut redirected = place.ingest(&["-t", "t", "--rejects", "in.csv"]);
    let output = redirected.stdin(Stdio::from(file)).output().expect("runs");
    Ended::from(output).expect(2).says("overwrite");
    place.run(&["-t", "t", "in.csv", "--rejects", "-"]).expect(2).says("--rejects needs a file");
    assert!(!place.path("-").exists());
    assert_eq!(std::fs::read_to_string(place.path("in.csv")).expect("reads"), "a\n1\n");
    place.run(&["-t", "t", "in.csv"]).expect(0);
    for file in ["test.db", "test.db-wal"] {
        let holder = place.database();
        holder.execute_batch("CREATE TABLE IF NOT EXISTS x (a)").expect("writes");
        place.run(&["-t", "t", "in.csv", "--rejects", file]).expect(2).says("overwrite");
    }
}

#[test]
fn a_file_of_one_byte_is_no_database() {
    let place = Place::new();
    place.write("test.db", "x");
    place.run_with(&["-t", "t"], b"a\n1\n").expect(2).says("not an SQLite database");
    assert_eq!(std::fs::read_to_string(place.path("test.db")).expect("reads"), "x");
}

#[test]
fn waiting_for_a_lock_is_told_and_ctrl_c_ends_it() {
    let place = Place::new();
    let holder = place.database();
    holder
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (a); BEGIN IMMEDIATE")
        .expect("locks");
    place.write("in.csv", "a\n1\n");
    let mut child = place.ingest(&["-t", "t", "in.csv"]).spawn().expect("starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped"));
    let mut said = String::new();
    lines.read_line(&mut said).expect("reads");
    assert!(said.contains("waiting for") && said.contains("write lock"), "{said}");
    signal(&child, Signal::SIGINT);
    lines.read_to_string(&mut said).expect("reads");
    assert_eq!(child.wait().expect("ends").code(), Some(130));
    assert!(said.contains("stopping") && said.contains("nothing was ingested"), "{said}");
    holder.execute_batch("ROLLBACK").expect("unlocks");
    assert_eq!(place.column("SELECT count(*) FROM t"), ["0"]);
    place.run(&["-t", "t", "in.csv"]).expect(0);
}

#[test]
fn waiting_amid_an_ingest_is_told_too() {
    let place = Place::new();
    let (mut child, mut input) = place.fed(&["-t", "t", "--sample", "1", "--quiet"], b"a\n1\n", 1);
    let holder = place.database();
    holder.execute_batch("BEGIN IMMEDIATE").expect("locks");
    input.write_all(b"2\n").expect("writes");
    drop(input);
    let mut lines = BufReader::new(child.stderr.take().expect("piped"));
    let mut said = String::new();
    lines.read_line(&mut said).expect("reads");
    assert!(said.contains("waiting for") && said.contains("write lock"), "{said}");
    signal(&child, Signal::SIGINT);
    lines.read_line(&mut said).expect("reads");
    assert!(said.contains("stopping"), "{said}");
    holder.execute_batch("ROLLBACK").expect("unlocks");
    child.wait().expect("ends");
    assert_eq!(place.column("SELECT a FROM t"), ["1", "2"]);
}

#[test]
fn urls_are_of_a_database_that_is_known_and_show_no_password() {
    let place = Place::new();
    place.write("in.csv", "a\n1\n");
    let run = |url: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_groupcommit"));
        command
            .current_dir(place.path("."))
            .args(["ingest", url, "-t", "t", "in.csv"])
            .stdin(Stdio::null());
        Ended::from(command.output().expect("runs"))
    };
    let ended = run("oracle://me:secret@host/db").expect(2).says("oracle://me@host/db");
    assert!(!ended.err.contains("secret"), "{}", ended.err);
    run("rocskdb:x").expect(2).says("rocksdb:").says("./");
    assert!(!place.path("rocskdb:x").exists());
    run("./rocskdb:x").expect(0);
    run("sqlite:app.db?create=false").expect(2).says("--busy-timeout");
    assert!(!place.path("app.db").exists());
    for (url, file) in [("sqlite:app.db", "app.db"), ("SQLite:other%20one.db", "other one.db")] {
        run(url).expect(0);
        assert!(place.path(file).exists(), "{url}");
    }
}
