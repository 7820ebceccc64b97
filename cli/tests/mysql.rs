//! Ingest into MariaDB: columns and types, rejects, --resume. The server is a throw-away one, which
//! ends with the tests; without its programs they are skipped, with a line that says so.

mod common;

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use common::{Ended, Place};
use groupcommit_testkit::servers::mysql::{Kind, Servers, start};
use groupcommit_testkit::servers::{Life, or_skip};

/// The server that the tests share; `None` where there is none.
fn shared() -> Option<&'static Servers> {
    static SHARED: OnceLock<Option<Servers>> = OnceLock::new();
    SHARED.get_or_init(|| or_skip(start(Kind::Single, Life::Process))).as_ref()
}

fn ingest(servers: &Servers, database: &str, place: &Place, arguments: &[&str]) -> Ended {
    let url = format!("mysql://root@127.0.0.1:{}/{database}", servers.port(0));
    let mut command = Command::new(env!("CARGO_BIN_EXE_groupcommit"));
    command.current_dir(place.path(".")).arg("ingest").arg(url).args(arguments);
    command.stdin(Stdio::null());
    Ended::from(command.output().expect("runs"))
}

#[test]
fn what_the_server_refuses_is_rejected_alone_and_the_rest_is_kept_as_it_is() {
    let Some(servers) = shared() else { return };
    let place = Place::new();
    let run = |arguments: &[&str]| ingest(servers, "test", &place, arguments);
    let mut input = "id,n,zip\n".to_owned();
    for id in 1..=1_000 {
        let n = if id == 300 { "x".to_owned() } else { format!("{id}.5") };
        writeln!(input, "{id},{n},00{id}").expect("writes");
    }
    place.write("in.csv", input);
    let arguments = ["-t", "a `t`", "--sample", "100", "--rejects", "bad.csv", "in.csv", "--json"];
    let ended = run(&arguments).expect(1);
    assert_eq!(ended.summary()["committed"], 999);
    let sql = "SELECT count(*), sum(n), max(length(zip)) FROM test.`a ``t```";
    assert!(servers.sql(sql).expect("asks").contains("999\t500699.5\t6"), "{:?}", servers.sql(sql));
    // Into a table that is there, with a key that it has already.
    servers.sql("ALTER TABLE test.`a ``t``` ADD PRIMARY KEY (id)").expect("alters");
    place.write("more.csv", "id,n,zip\n1001,1,a\n7,1,b\n1002,1,c\n");
    let arguments = ["-t", "a `t`", "--rejects", "bad.csv", "more.csv", "--json"];
    let ended = run(&arguments).expect(1);
    assert_eq!(ended.summary()["committed"], 2);
    let rejects = place.rejects("bad.csv");
    assert!(rejects.len() == 1 && rejects[0][2].contains("Duplicate"), "{rejects:?}");
    let ended = run(&[&arguments[..], &["--resume"]].concat()).expect(1);
    assert_eq!(ended.summary()["records"], 0);
}

/// MariaDB's own default is `latin1`, its own `TEXT` holds 64 KiB, and names of tables have case.
#[test]
fn a_record_that_the_servers_default_types_have_no_place_for_stops_nothing() {
    let Some(servers) = shared() else { return };
    servers.sql("CREATE DATABASE narrow CHARACTER SET latin1").expect("creates");
    let place = Place::new();
    let run = |arguments: &[&str]| ingest(servers, "narrow", &place, arguments);
    let long = "x".repeat(70_000);
    place.write("in.csv", format!("id,v\n1,a\n2,漢字\n3,{long}\n4,d\n"));
    run(&["-t", "made", "in.csv"]).expect(0);
    let sql = "SELECT max(length(v)), sum(hex(v) = 'E6BCA2E5AD97') FROM narrow.made";
    assert_eq!(servers.sql(sql).expect("asks").trim(), "70000\t1");
    // Where the table is there, what it has no place for is rejected, and kept as it was.
    servers.sql("CREATE TABLE narrow.found (id INT, v TEXT)").expect("creates");
    let arguments = ["-t", "found", "--rejects", "bad.csv", "in.csv", "--json"];
    assert_eq!(run(&arguments).expect(1).summary()["committed"], 2);
    let rejects = place.rejects("bad.csv");
    assert_eq!(rejects.len(), 2, "{rejects:?}");
    assert_eq!((rejects[0][3].as_str(), rejects[1][3].len()), ("2,漢字", long.len() + 2));
    place.write("one.csv", "id\n1\n");
    for table in ["T", "t"] {
        run(&["-t", table, "one.csv"]).expect(0);
    }
    let sql = "SELECT count(*) FROM narrow._groupcommit_ingest WHERE target = 'T' OR target = 't'";
    assert_eq!(servers.sql(sql).expect("asks").trim(), "2");
}
