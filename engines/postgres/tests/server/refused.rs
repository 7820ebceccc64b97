//! Servers and statements under which a ticket would lie.

use groupcommit_postgres::{Database, Error, Failure, Rejected, Statement, Value, Warning};
use groupcommit_testkit::servers::postgres::Kind;

use crate::server::{ids, insert, open, schema, schema_through, start};

#[test]
fn synchronous_commit_off_is_refused() {
    let url = format!("{}%20-c%20synchronous_commit%3Doff", schema());
    let refused = Database::open(&url);
    assert!(
        matches!(&refused, Err(Error::Setting { name: "synchronous_commit", value, .. }) if value == "off"),
        "{refused:?}"
    );
}

#[test]
fn a_server_that_does_not_flush_is_refused_and_torn_pages_are_warned_of() {
    let servers = start(Kind::Single);
    let open = || Database::open(&servers.url());
    assert_eq!(open().unwrap().warnings(), []);
    servers.sql("ALTER SYSTEM SET full_page_writes = off").unwrap();
    servers.crash_and_restart().unwrap();
    assert_eq!(open().unwrap().warnings(), [Warning::TornPages]);
    servers.sql("ALTER SYSTEM SET fsync = off").unwrap();
    servers.crash_and_restart().unwrap();
    let refused = open();
    assert!(matches!(refused, Err(Error::Setting { name: "fsync", .. })), "{refused:?}");
}

#[test]
fn what_would_end_the_transaction_of_others_is_refused() {
    let db = open();
    for sql in ["COMMIT", "ROLLBACK", "/* x */ SET synchronous_commit = off", "SAVEPOINT a"] {
        let plan = vec![insert(1), Statement::new(sql, [])];
        let refused = db.submit_statements(plan).wait();
        assert!(
            matches!(refused, Err(Failure::Rejected(Rejected::Caller(Error::Forbidden(_))))),
            "{refused:?}"
        );
    }
    assert_eq!(ids(&db), []);
}

#[test]
fn no_transaction_can_turn_the_durability_of_its_commit_down() {
    let servers = start(Kind::Single);
    let db = Database::open(&schema_through(&servers, servers.port())).unwrap();
    // By a function, which no look at the statement finds; for the transaction or the session.
    for id in 0..20 {
        let turn = format!("SELECT set_config('synchronous_commit', 'off', {})", id % 2 == 0);
        let position = Statement::new("SELECT pg_current_wal_insert_lsn()::text", []);
        let plan = vec![Statement::new(turn, []), insert(id), position];
        let mut results = db.submit_statements(plan).wait().unwrap();
        let position = results.pop().unwrap().rows.remove(0).remove(0);
        // The commit is behind that position in the log.
        let flushed = "SELECT pg_current_wal_flush_lsn() > $1::text::pg_lsn";
        let flushed = db.read(&Statement::new(flushed, [position])).unwrap();
        assert_eq!(flushed.rows, [[Value::Bool(true)]], "{id}");
    }
}

#[test]
fn a_column_without_a_place_is_refused_before_anything_is_run() {
    let db = open();
    let returning = "INSERT INTO t VALUES (1, 'a') RETURNING now()";
    let refused = db.submit_statements(vec![Statement::new(returning, [])]).wait();
    assert!(
        matches!(&refused, Err(Failure::Rejected(Rejected::Caller(Error::Column { ty, .. }))) if ty == "timestamptz"),
        "{refused:?}"
    );
    let refused = db.submit_statements(vec![Statement::new("SELECT $1::int", [])]).wait();
    assert!(
        matches!(refused, Err(Failure::Rejected(Rejected::Caller(Error::Parameters { .. })))),
        "{refused:?}"
    );
    assert_eq!(ids(&db), []);
}
