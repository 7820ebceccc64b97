//! A server that has as many connections as it allows.

use std::time::{Duration, Instant};

use groupcommit_postgres::{Database, Error, Failure, NotRun, Statement};
use groupcommit_testkit::servers::postgres::{Kind, Servers};

use crate::server::{insert, proxy, start};

/// Long enough for anything that does not hang.
const FOREVER: Duration = Duration::from_mins(1);

/// Takes every connection that there is, as soon as it is free; at least one.
fn fill(url: &str) -> Vec<Database> {
    let mut taken = Vec::new();
    let since = Instant::now();
    loop {
        match Database::open(url) {
            Ok(db) => taken.push(db),
            Err(_) if taken.is_empty() => {
                assert!(since.elapsed() < FOREVER, "none is free");
            }
            Err(_) => return taken,
        }
    }
}

/// Ends the connections of this name.
fn end(servers: &Servers, name: &str) {
    let end = "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity \
               WHERE application_name";
    assert_eq!(servers.sql(&format!("{end} = '{name}'")).unwrap().trim(), "1");
}

#[test]
fn who_finds_no_room_is_told_what_to_do_and_writes_on_when_there_is_some() {
    let servers = start(Kind::Single);
    // Of these some are kept for superusers: for what this test asks the server itself.
    for sql in [
        "CREATE ROLE app LOGIN",
        "CREATE SCHEMA app AUTHORIZATION app",
        "CREATE TABLE app.t (id bigint PRIMARY KEY, v text NOT NULL)",
        "ALTER TABLE app.t OWNER TO app",
        "ALTER SYSTEM SET max_wal_senders = 2",
        "ALTER SYSTEM SET max_connections = 12",
    ] {
        servers.sql(sql).unwrap();
    }
    servers.crash_and_restart().unwrap();
    let proxy = proxy(servers.port());
    let at = |port: u16| format!("postgres://app@127.0.0.1:{port}/postgres?application_name=");
    let hasty = Database::options()
        .reconnect_timeout(Duration::ZERO)
        .open(&(at(servers.port()) + "hasty"))
        .unwrap();
    let patient =
        Database::options().reconnect_timeout(FOREVER).open(&(at(proxy.port) + "patient")).unwrap();
    let mut others = fill(&(at(servers.port()) + "other"));
    // A read finds no connection of its own.
    match hasty.read(&Statement::new("SELECT 1", [])) {
        Err(Failure::NotRun(NotRun::Unavailable(error))) => {
            assert!(matches!(error.downcast_ref(), Some(Error::Connect { .. })), "{error:?}");
            assert!(error.to_string().contains("max_connections"), "{error}");
            assert!(error.source().is_some());
        }
        other => panic!("{other:?}"),
    }
    hasty.submit_statements(vec![insert(1)]).wait().unwrap();
    // Neither does a writer whose connection was lost.
    end(&servers, "hasty");
    others.append(&mut fill(&(at(servers.port()) + "other")));
    match hasty.submit_statements(vec![insert(2)]).wait() {
        Err(Failure::NotRun(NotRun::Unavailable(cause))) => {
            assert!(cause.to_string().contains("max_connections"), "{cause}");
        }
        other => panic!("{other:?}"),
    }
    end(&servers, "patient");
    others.append(&mut fill(&(at(servers.port()) + "other")));
    let before = proxy.connections();
    let mut ticket = patient.submit_statements(vec![insert(3)]);
    let since = Instant::now();
    while proxy.connections() < before + 3 {
        assert!(!ticket.is_resolved() && since.elapsed() < FOREVER);
    }
    // There is room again.
    drop(others);
    ticket.wait_timeout(FOREVER).expect("there is room").unwrap();
    hasty.submit_statements(vec![insert(2)]).wait().unwrap();
    assert_eq!(servers.sql("SELECT count(*) FROM app.t").unwrap().trim(), "3");
}
