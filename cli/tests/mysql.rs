//! Ingest into MariaDB: columns and types, rejects, --resume. The server is a throw-away one, which
//! ends with the tests; without its programs they are skipped, with a line that says so.

mod common;

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use common::{Ended, Place};
use groupcommit_testkit::servers::Life;
use groupcommit_testkit::servers::mysql::{INSTALL, Kind, install_if_missing, start};

#[test]
fn what_the_server_refuses_is_rejected_alone_and_the_rest_is_kept_as_it_is() {
    if let Err(trouble) = install_if_missing() {
        let is_required =
            std::env::var("GROUPCOMMIT_SERVERS").is_ok_and(|value| value == "required");
        assert!(!is_required, "{trouble}");
        eprintln!("skipped: ingest into MariaDB; {INSTALL}");
        return;
    }
    let servers = start(Kind::Single, Life::Process).expect("starts");
    let url = format!("mysql://root@127.0.0.1:{}/test", servers.port(0));
    let place = Place::new();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_groupcommit"));
        command.current_dir(place.path(".")).arg("ingest").arg(&url).args(arguments);
        command.stdin(Stdio::null());
        Ended::from(command.output().expect("runs"))
    };
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
