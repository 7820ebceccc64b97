//! A primary whose commits wait for one of two replicas; and somebody who cancels that wait.
//!
//! The server reports a commit whose wait was cancelled as a success, with a warning, though no
//! replica may have it.

use std::time::{Duration, Instant};

use groupcommit_postgres::{Database, Failure, Settled, Statement, StatementResult, Ticket};
use groupcommit_testkit::servers::postgres::{Kind, Servers};

use crate::server::{ids, insert, schema_through, start};

#[test]
fn a_commit_is_on_a_replica_when_its_ticket_resolves() {
    let servers = start(Kind::Replicated);
    let url = schema_through(&servers, servers.port());
    let db = Database::open(&url).unwrap();
    assert_eq!(db.warnings(), []);
    for id in 0..50 {
        db.submit_statements(vec![insert(id)]).wait().unwrap();
        // The position of the log behind the commit is flushed on one replica at least.
        let flushed = servers.sql(
            "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum' \
             AND flush_lsn >= (SELECT max(commit_lsn) FROM \
             (SELECT pg_current_wal_flush_lsn() AS commit_lsn) AS now)",
        );
        assert_ne!(flushed.unwrap().trim(), "0", "after {id}");
    }
    assert_eq!(ids(&db), (0..50).collect::<Vec<_>>());
    db.close().unwrap();
}

/// Long enough for anything that does not hang.
const FOREVER: Duration = Duration::from_mins(1);

/// From now on a commit waits for the replicas of this name; `*` is any.
fn wait_for_replicas(servers: &Servers, name: &str) {
    let before = servers.sql("SELECT pg_conf_load_time()").unwrap();
    let setting = format!("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 ({name})'");
    servers.sql(&setting).unwrap();
    servers.sql("SELECT pg_reload_conf()").unwrap();
    until(|| servers.sql("SELECT pg_conf_load_time()").unwrap() != before);
}

fn until(is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < FOREVER, "it never came to it");
    }
}

/// Processes of the engine's that wait for replicas, running the text that begins so: their number,
/// after `apply` was called on each.
fn waiting(servers: &Servers, text: &str, apply: &str) -> usize {
    let listed = servers.sql(&format!(
        "SELECT {apply} FROM pg_stat_activity WHERE wait_event = 'SyncRep' \
         AND application_name = 'groupcommit' AND query LIKE '{text}%'"
    ));
    listed.unwrap().lines().count()
}

const COMMIT: &str = "SET LOCAL client_min_messages = warning; SET LOCAL synchronous_commit";
const BARRIER: &str = "BEGIN READ WRITE";

/// A commit that waits for replicas which stay away.
fn held_up(
    servers: &Servers,
    db: &Database,
) -> Ticket<Vec<StatementResult>, groupcommit_postgres::Error> {
    wait_for_replicas(servers, "nobody");
    let ticket = db.submit_statements(vec![insert(1)]);
    until(|| waiting(servers, COMMIT, "pid") == 1);
    ticket
}

#[test]
fn a_wait_for_replicas_that_is_cancelled_resolves_no_ticket_before_they_have_it() {
    let servers = start(Kind::Replicated);
    // Whatever else the account wants to hear of.
    let quiet = "%20-c%20client_min_messages%3Derror";
    let db = Database::open(&(schema_through(&servers, servers.port()) + quiet)).unwrap();
    let mut ticket = held_up(&servers, &db);
    until(|| waiting(&servers, COMMIT, "pg_cancel_backend(pid)") == 1);
    // It is committed on the primary, and the wait begins again, however often it is cancelled.
    for _ in 0..3 {
        until(|| waiting(&servers, BARRIER, "pg_cancel_backend(pid)") == 1);
        assert_eq!(ids(&db), [1]);
        assert!(!ticket.is_resolved());
    }
    until(|| waiting(&servers, BARRIER, "pid") == 1);
    assert!(!ticket.is_resolved());
    wait_for_replicas(&servers, "*");
    ticket.wait_timeout(FOREVER).expect("the replicas have it").unwrap();
    // So does a read that promises to have seen nothing that can be lost.
    wait_for_replicas(&servers, "nobody");
    let reader = db.clone();
    let read = std::thread::spawn(move || reader.read_durable(&Statement::new("SELECT 1", [])));
    for _ in 0..3 {
        until(|| waiting(&servers, BARRIER, "pg_cancel_backend(pid)") == 1);
    }
    until(|| waiting(&servers, BARRIER, "pid") == 1);
    assert!(!read.is_finished());
    wait_for_replicas(&servers, "*");
    read.join().unwrap().unwrap();
    db.close().unwrap();
}

#[test]
fn a_process_that_is_ended_while_it_waits_for_replicas_leaves_its_commit_unknown_until_they_have_it()
 {
    let servers = start(Kind::Replicated);
    let url = schema_through(&servers, servers.port());
    let open = || Database::options().settle_timeout(Duration::ZERO).open(&url).unwrap();
    let db = open();
    let mut ticket = held_up(&servers, &db);
    until(|| waiting(&servers, COMMIT, "pg_terminate_backend(pid)") == 1);
    let unknown = match ticket.wait_timeout(FOREVER).expect("asked for in vain") {
        Err(Failure::Unknown(unknown)) => unknown,
        other => panic!("{other:?}"),
    };
    // It is there on the primary, and that is not what was promised.
    let again = open();
    assert_eq!(ids(&again), [1]);
    let open_still = again.resolve(&unknown).unwrap_err();
    assert!(open_still.to_string().contains("replicas did not confirm"), "{open_still}");
    wait_for_replicas(&servers, "*");
    assert_eq!(again.resolve(&unknown).unwrap(), Some(Settled::Committed));
    again.close().unwrap();
}
