//! Experiments on servers that these tests start, and that end with them; without their programs
//! they are skipped, with a line that says so.
#![cfg(any(feature = "postgres", feature = "mysql"))]

use groupcommit_lab::all::AllOptions;
use groupcommit_lab::condition::Condition;
use groupcommit_lab::load::LoadOptions;
use groupcommit_lab::threads::ThreadsOptions;
use groupcommit_lab::web::WebOptions;
use groupcommit_lab::write::WriteOptions;
use groupcommit_lab::{parse, run};
use groupcommit_testkit::servers::{Life, or_skip};

/// Every experiment that there is on a server, in little.
fn experiments(url: &str, name: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let common = format!("--url {url} --repeat 1 --out {}", folder.path().display());
    let all: AllOptions = parse(&common).expect("parses");
    assert_eq!(all.experiments().len(), 4, "the mixed task is not measured on a server");
    let write: WriteOptions = parse(&format!("--rows 300 {common}")).expect("parses");
    let threads: ThreadsOptions =
        parse(&format!("--threads 1,8 --rows 200 {common}")).expect("parses");
    let load: LoadOptions = parse(&format!(
        "--in-flight 1,16 --share 0.5 --group-size 8 --group-delay 1 --rows 200 --seconds-limit 60 {common}"
    ))
    .expect("parses");
    let web: WebOptions =
        parse(&format!("--requests 10 --per-second 100 --at-once 300 --connections 6 {common}"))
            .expect("parses");
    let results = run(&[&write, &threads, &load, &web], |_| {}).expect("measures");
    let server = results.environment.versions.server.expect("described");
    assert!(server.starts_with(name) && !server.contains(','), "{server}");
    let of = |experiment: &str| {
        results.measurements.iter().filter(|m| m.experiment == experiment).collect::<Vec<_>>()
    };
    assert_eq!(of("write").len(), Condition::of_write(write.common.engine()).len());
    for measurement in of("write") {
        assert_eq!((measurement.rows, measurement.verified_rows), (300, 300));
        let merged = measurement.group_transactions_mean > 1.0;
        assert_eq!(merged, measurement.condition == Condition::GroupcommitAsync);
    }
    assert_eq!(of("threads").len(), 2 * 2);
    for measurement in of("threads") {
        assert_eq!((measurement.rows, measurement.verified_rows), (200, 200));
        let is_reference = measurement.condition == Condition::Connections;
        assert_eq!(measurement.is_reference_of_threads(), is_reference);
    }
    let load = of("load");
    assert_eq!(load.len(), 3 * (2 + 1));
    for measurement in load.iter().filter(|m| m.arrivals.as_deref() == Some("closed")) {
        assert_eq!((measurement.rows, measurement.verified_rows), (200, 200));
    }
    assert!(load.iter().any(|m| m.arrivals.as_deref() == Some("open")));
    assert_eq!(of("web").len(), 2 * (5 + 5 + 4));
    for measurement in of("web") {
        let peak = measurement.connections_peak.expect("counted");
        let is_bounded = measurement.condition != Condition::Blocking;
        assert!(!is_bounded || peak <= 6, "{}: {peak}", measurement.condition);
    }
    // On a busy machine, whoever looks may come too late for a short measurement, but not for all.
    assert!(of("web").iter().any(|measurement| measurement.connections_peak > Some(0)));
}

#[cfg(feature = "postgres")]
#[test]
fn postgres() {
    use groupcommit_testkit::servers::postgres::{Kind, start};
    let Some(servers) = or_skip(start(Kind::Single, Life::Process)) else { return };
    experiments(&servers.url(), "PostgreSQL 1");
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'lab%'";
    assert_eq!(servers.sql(left).expect("asks").trim(), "0");
}

#[cfg(feature = "mysql")]
#[test]
fn mariadb() {
    use groupcommit_testkit::servers::mysql::{Kind, start};
    let Some(servers) = or_skip(start(Kind::Single, Life::Process)) else { return };
    experiments(&servers.url(), "MariaDB 1");
}
