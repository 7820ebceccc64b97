//! Ingest into a key-value engine, the same for each: records under their key, rejects, --resume, and
//! `kill -9` amid the records.
#![expect(unreachable_pub, reason = "each test file is a crate that includes it")]

use std::process::{Command, Stdio};

use crate::common::{Ended, Place};

/// One engine, as the tests see it.
pub struct Store {
    /// What `ingest` is given, on a place of its own.
    pub target: &'static str,
    /// What is in a table, keys and values as text; nothing where there is no such table yet.
    pub rows: fn(&Place, &str) -> Vec<(String, String)>,
}

impl Store {
    fn ingest(&self, place: &Place, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_groupcommit"));
        command.current_dir(place.path(".")).args(["ingest", self.target]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, place: &Place, arguments: &[&str]) -> Ended {
        Ended::from(self.ingest(place, arguments).output().expect("runs"))
    }
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

pub fn records_of_a_csv_become_objects_under_their_key(store: &Store) {
    let place = Place::new();
    place.write("in.csv", "id,n,t\nb,1,x\na,2.5,\nb,3,y\n,4,z\n");
    let arguments = ["--key", "id", "--rejects", "bad.csv", "in.csv", "--json"];
    let ended = store.run(&place, &arguments).expect(1);
    assert_eq!(ended.summary()["committed"], 3);
    assert_eq!(
        (store.rows)(&place, "records"),
        [pair("a", r#"{"id":"a","n":2.5,"t":""}"#), pair("b", r#"{"id":"b","n":3.0,"t":"y"}"#)]
    );
    let rejects = place.rejects("bad.csv");
    assert_eq!(rejects.len(), 1);
    assert!(rejects[0][2].contains("missing or empty") && rejects[0][3] == ",4,z", "{rejects:?}");
    // Again, finished: nothing is new, and the rejects are told again.
    let arguments = ["--key", "id", "--rejects", "bad.csv", "in.csv", "--json", "--resume"];
    let ended = store.run(&place, &arguments).expect(1);
    assert_eq!(ended.summary()["records"], 0);
    assert_eq!(place.rejects("bad.csv"), rejects);
}

pub fn lines_of_json_are_kept_as_they_are(store: &Store) {
    let place = Place::new();
    let line = r#"{"id": 7, "x": {"y": [1.50]}}"#;
    place.write("in.ndjson", format!("{line}\n"));
    store.run(&place, &["--key", "id", "-t", "mine", "in.ndjson"]).expect(0);
    assert_eq!((store.rows)(&place, "mine"), [pair("7", line)]);
}

pub fn wrong_usage_is_said(store: &Store) {
    let place = Place::new();
    place.write("in.csv", "id,n\n1,2\n");
    store.run(&place, &["in.csv"]).expect(2).says("--key");
    store.run(&place, &["--key", "other", "in.csv"]).expect(2).says("it has id, n");
    store.run(&place, &["--key", "id", "--format", "sql", "in.csv"]).expect(2).says("no SQL");
    place.run(&["-t", "t", "--key", "id", "in.csv"]).expect(2).says("lmdb:PATH and rocksdb:PATH");
}

pub fn any_moment_can_be_the_last(store: &Store) {
    let place = Place::new();
    let records = 20_000_u64;
    let text = |number: u64| format!("{number:08},{}\n", number * 7);
    let input: String =
        std::iter::once("id,n\n".to_owned()).chain((1..=records).map(text)).collect();
    place.write("in.csv", input);
    let arguments = ["--key", "id", "--quiet", "--resume", "in.csv"];
    for microseconds in [5_000, 30_000, 60_000, 120_000] {
        let mut child = store.ingest(&place, &arguments).spawn().expect("starts");
        // When the kill comes does not matter: every moment has to do.
        std::thread::park_timeout(std::time::Duration::from_micros(microseconds));
        child.kill().expect("kills");
        child.wait().expect("ends");
        let found =
            if place.path("store").exists() { (store.rows)(&place, "records") } else { Vec::new() };
        let expected: Vec<_> = (1..=found.len() as u64).map(|n| format!("{n:08}")).collect();
        assert_eq!(found.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), expected);
    }
    store.run(&place, &arguments).expect(0);
    let found = (store.rows)(&place, "records");
    assert_eq!(found.len() as u64, records);
    assert_eq!(found[41], pair("00000042", r#"{"id":"00000042","n":294}"#));
}

/// Turns every case into a test of the engine.
#[macro_export]
macro_rules! keyed_cases {
    ($store:expr) => {
        $crate::keyed_cases!(@ $store;
            records_of_a_csv_become_objects_under_their_key,
            lines_of_json_are_kept_as_they_are,
            wrong_usage_is_said,
            any_moment_can_be_the_last,
        );
    };
    (@ $store:expr; $($case:ident),+ $(,)?) => {
        $(
            #[test]
            fn $case() {
                $crate::keyed::$case(&$store);
            }
        )+
    };
}
