//! Ingest into PostgreSQL: columns and types, rejects, --resume, SQL lines, and `kill -9` amid the
//! records. The server is a throw-away one, which ends with the tests; without its programs they are
//! skipped, with a line that says so.

mod common;

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use common::{Ended, Place};
use groupcommit_testkit::servers::postgres::{Kind, Servers, start};
use groupcommit_testkit::servers::{Life, or_skip};

/// The server that the tests share; `None` where there is none.
fn shared() -> Option<&'static Servers> {
    static SHARED: OnceLock<Option<Servers>> = OnceLock::new();
    SHARED.get_or_init(|| or_skip(start(Kind::Single, Life::Process))).as_ref()
}

/// A schema of its own, and a folder for files.
struct Schema {
    servers: &'static Servers,
    name: String,
    place: Place,
}

impl Schema {
    fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let servers = shared()?;
        let name = format!("ingest_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        servers.sql(&format!("CREATE SCHEMA {name}")).expect("creates");
        Some(Self { servers, name, place: Place::new() })
    }

    fn url(&self) -> String {
        format!("{}?options=-c%20search_path%3D{}", self.servers.url(), self.name)
    }

    fn sql(&self, sql: &str) -> String {
        let sql = format!("SET search_path = {}; {sql}", self.name);
        let said = self.servers.sql(&sql).expect("runs");
        said.trim_start_matches("SET").trim().to_owned()
    }

    fn ingest(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_groupcommit"));
        command.current_dir(self.place.path(".")).arg("ingest").arg(self.url()).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        Ended::from(self.ingest(arguments).output().expect("runs"))
    }
}

#[test]
fn a_table_is_created_and_values_are_kept_as_they_are() {
    let Some(schema) = Schema::new() else { return };
    schema.place.write("in.csv", "id,n,zip,t\n1,2.5,007,caf\u{e9}\n2,,010,\n3,7,1,it's\n4,x,1,z\n");
    let arguments = ["-t", "t", "--sample", "3", "--rejects", "bad.csv", "in.csv", "--json"];
    let ended = schema.run(&arguments).expect(1);
    assert_eq!(
        (&ended.summary()["committed"], &ended.summary()["rejected"]),
        (&3.into(), &1.into())
    );
    assert_eq!(
        schema.sql("SELECT id, n, zip, t FROM t ORDER BY id"),
        "1|2.5|007|caf\u{e9}\n2||010|\n3|7|1|it's"
    );
    let rejects = schema.place.rejects("bad.csv");
    assert_eq!(rejects.len(), 1);
    assert!(rejects[0][2].contains("\"n\"") && rejects[0][3] == "4,x,1,z", "{rejects:?}");
    // Again, finished: nothing is new, and the rejects are told again.
    let ended = schema.run(&[&arguments[..], &["--resume"]].concat()).expect(1);
    assert_eq!(ended.summary()["records"], 0);
    assert_eq!(schema.place.rejects("bad.csv"), rejects);
}

#[test]
fn what_the_server_refuses_is_rejected_alone() {
    let Some(schema) = Schema::new() else { return };
    schema.sql(
        "CREATE TABLE t (id int PRIMARY KEY, day date NOT NULL, flag boolean, \
         twice int GENERATED ALWAYS AS (id * 2) STORED, note varchar(3) DEFAULT 'x')",
    );
    let mut input = "id,day,flag\n".to_owned();
    for id in 1..=1_000 {
        let (id, day) = match id {
            100 => (99, "2013-01-01"),                // a key twice
            200 => (200, "yesterwhen"),               // no date
            300 => (3_000_000_000_i64, "2013-01-01"), // out of range
            id => (id, "2013-01-01"),
        };
        writeln!(input, "{id},{day},{}", if id % 2 == 0 { "true" } else { "" }).expect("writes");
    }
    schema.place.write("in.csv", input);
    let ended = schema
        .run(&["-t", "t", "--null", "", "--rejects", "bad.csv", "in.csv", "--json"])
        .expect(1);
    assert_eq!(ended.summary()["committed"], 997);
    let rejects = schema.place.rejects("bad.csv");
    let records: Vec<&str> = rejects.iter().map(|reject| reject[0].as_str()).collect();
    assert_eq!(records, ["100", "200", "300"]);
    assert!(
        rejects[0][2].contains("t_pkey") && rejects[1][2].contains("yesterwhen"),
        "{rejects:?}"
    );
    assert_eq!(schema.sql("SELECT count(*), sum(twice), count(flag) FROM t"), "997|999800|497");
    // What was moved over is forgotten.
    assert_eq!(schema.sql("SELECT count(*) FROM _groupcommit_decided"), "0");
    assert_eq!(schema.sql("SELECT position, finished FROM _groupcommit_ingest"), "1000|1");
}

#[test]
fn lines_of_sql_are_run_as_they_are() {
    let Some(schema) = Schema::new() else { return };
    schema.place.write(
        "in.sql",
        "CREATE TABLE a (i int PRIMARY KEY);\nINSERT INTO a VALUES (1);\nINSERT INTO a VALUES (1);\n\
         SELEC 1;\nCOMMIT;\nINSERT INTO a VALUES (2); INSERT INTO a VALUES (3);\nINSERT INTO a VALUES (4)\n",
    );
    let ended = schema.run(&["in.sql", "--rejects", "bad.csv", "--json"]).expect(1);
    assert_eq!(ended.summary()["committed"], 3);
    let rejects = schema.place.rejects("bad.csv");
    let records: Vec<&str> = rejects.iter().map(|reject| reject[0].as_str()).collect();
    assert_eq!(records, ["3", "4", "5"], "COMMIT is no record");
    assert_eq!(schema.sql("SELECT i FROM a ORDER BY i"), "1\n4");
}

#[test]
fn any_moment_can_be_the_last() {
    let Some(schema) = Schema::new() else { return };
    schema.sql("CREATE TABLE t (number bigint PRIMARY KEY, v text)");
    let records = 20_000_u64;
    let rejected: Vec<u64> = (1..=records).filter(|number| number % 1_000 == 0).collect();
    let mut input = "number,v\n".to_owned();
    for number in 1..=records {
        let written = if number % 1_000 == 0 { number - 1 } else { number };
        writeln!(input, "{written},row {number}").expect("writes");
    }
    schema.place.write("in.csv", input);
    let arguments = ["-t", "t", "--rejects", "bad.csv", "--quiet", "--resume", "in.csv"];
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..3 {
        let target = random.u64(0..records);
        let mut child = schema.ingest(&arguments).spawn().expect("starts");
        let count = "SELECT count(*) FROM t";
        while schema.sql(count).parse::<u64>().expect("a number") < target
            && child.try_wait().expect("is there").is_none()
        {}
        child.kill().expect("kills");
        child.wait().expect("ends");
    }
    schema.run(&arguments).expect(1);
    let expected = records - rejected.len() as u64;
    assert_eq!(
        schema.sql("SELECT count(*), count(DISTINCT number) FROM t WHERE v = 'row ' || number"),
        format!("{expected}|{expected}")
    );
    let numbers: Vec<u64> = schema
        .place
        .rejects("bad.csv")
        .iter()
        .map(|reject| reject[0].parse().expect("a number"))
        .collect();
    assert_eq!(numbers, rejected, "each rejected record once");
    // Another input is not a continuation of this one.
    schema.place.write("in.csv", "number,v\n1,other\n");
    schema.run(&arguments).expect(2).says("has only 1 record");
}

#[test]
fn a_server_out_of_reach_is_said_without_its_password() {
    let place = Place::new();
    place.write("in.csv", "id\n1\n");
    // A port that was free a moment ago.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let port = listener.local_addr().expect("has one").port();
    drop(listener);
    let mut command = Command::new(env!("CARGO_BIN_EXE_groupcommit"));
    let url = format!("postgres://me:secret@127.0.0.1:{port}/db");
    command.current_dir(place.path(".")).args(["ingest", &url, "-t", "t", "in.csv"]);
    let ended =
        Ended::from(command.output().expect("runs")).expect(2).says("postgres://me@127.0.0.1");
    assert!(!ended.err.contains("secret"), "{ended:?}");
}
