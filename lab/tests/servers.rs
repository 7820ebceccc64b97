//! Experiments on servers that these tests start, and that end with them; without their programs
//! they are skipped, with a line that says so.
#![cfg(any(feature = "postgres", feature = "mysql"))]

use groupcommit_lab::Common;
use groupcommit_lab::condition::Condition;
use groupcommit_lab::engine::Engine;
use groupcommit_lab::setting::Queries;
use groupcommit_lab::web::{WebOptions, run_web};
use groupcommit_lab::write::{WriteOptions, run_write};
use groupcommit_testkit::servers::{Life, Trouble};

fn skipped(trouble: &Trouble, what: &str) {
    let is_required = std::env::var("GROUPCOMMIT_SERVERS").is_ok_and(|value| value == "required");
    assert!(!is_required, "{trouble}");
    eprintln!("skipped: {what}");
}

fn rows_and_requests(engine: Engine, url: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let common = Common {
        engine,
        url: Some(url.to_owned()),
        repeats: 1,
        out: folder.path().to_owned(),
        ..Common::default()
    };
    let write = WriteOptions {
        rows: 300,
        batches: vec![1],
        conditions: Condition::of_write(engine).to_vec(),
        common: common.clone(),
        ..WriteOptions::default()
    };
    let results = run_write(&write, |_| {}).expect("writes");
    assert_eq!(results.measurements.len(), 3);
    for measurement in &results.measurements {
        assert_eq!((measurement.rows, measurement.verified_rows), (300, 300));
        let merged = measurement.group_transactions_mean > 1.0;
        assert_eq!(merged, measurement.condition == Condition::GroupcommitAsync);
    }
    let web = WebOptions {
        requests: 10,
        per_second: 100.0,
        at_once: 300,
        connections: 6,
        queries: Queries::ALL.to_vec(),
        conditions: Condition::of_web(engine).to_vec(),
        common,
    };
    let results = run_web(&web, |_| {}).expect("answers");
    assert_eq!(results.measurements.len(), 2 * (5 + 5 + 4));
    for measurement in &results.measurements {
        let peak = measurement.connections_peak.expect("counted");
        let is_bounded = measurement.condition != Condition::Blocking;
        assert!(!is_bounded || (1..=6).contains(&peak), "{}: {peak}", measurement.condition);
    }
}

#[cfg(feature = "postgres")]
#[test]
fn postgres() {
    use groupcommit_testkit::servers::postgres::{INSTALL, Kind, programs_or_install, start};
    match programs_or_install() {
        Ok(bin) => {
            let servers = start(&bin, Kind::Single, Life::Process).expect("starts");
            rows_and_requests(Engine::Postgres, &servers.url());
            let left = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'lab%'";
            assert_eq!(servers.sql(left).expect("asks").trim(), "0");
        }
        Err(trouble) => skipped(&trouble, INSTALL),
    }
}

#[cfg(feature = "mysql")]
#[test]
fn mariadb() {
    use groupcommit_testkit::servers::mysql::{INSTALL, Kind, install_if_missing, start};
    match install_if_missing() {
        Ok(()) => {
            let servers = start(Kind::Single, Life::Process).expect("starts");
            rows_and_requests(Engine::Mysql, &servers.url());
        }
        Err(trouble) => skipped(&trouble, INSTALL),
    }
}
