//! Connections that are lost at a commit: what is particular to PostgreSQL's record of transactions.

use std::time::Duration;

use groupcommit_postgres::{Database, Failure, Settled, Statement};
use groupcommit_testkit::servers::proxy::Cut;

use crate::{
    server::{ids, insert, proxy, schema_through, shared},
    together::in_one_group,
};

/// A database that neither asks nor connects again.
fn open_impatient(url: &str) -> Database {
    let options =
        Database::options().settle_timeout(Duration::ZERO).reconnect_timeout(Duration::ZERO);
    options.open(url).unwrap()
}

#[test]
fn a_crash_of_the_server_between_two_groups_costs_a_connection() {
    let servers = crate::server::start(groupcommit_testkit::servers::postgres::Kind::Single);
    let db = Database::open(&schema_through(&servers, servers.port())).unwrap();
    for id in 0..5 {
        db.submit_statements(vec![insert(id)]).wait().unwrap();
        servers.crash_and_restart().unwrap();
    }
    assert_eq!(ids(&db), [0, 1, 2, 3, 4]);
}

/// Of a group of which many fail, and which so takes more than one commit, the second is lost and the
/// server stays out of reach: what was committed before is no less sure for it, and each outcome is
/// that of its own commit.
fn only_the_lost_commit_is_unknown(cut: Cut) {
    let proxy = proxy(shared().port());
    let url = schema_through(shared(), proxy.port);
    let db = open_impatient(&url);
    // Prepares the statement, so that the group is sent without a pause.
    db.submit_statements(vec![insert(1_000)]).wait().unwrap();
    let fails = |id: i64| id % 10 == 9;
    let tickets = in_one_group(&db, || {
        proxy.refuse_after_cut();
        proxy.cut_later(1, cut);
        let submit = |id| db.submit_statements(vec![insert(if fails(id) { id - 1 } else { id })]);
        (0..200).map(submit).collect::<Vec<_>>()
    });
    let outcomes: Vec<_> = tickets.into_iter().map(groupcommit_postgres::Ticket::wait).collect();
    let direct = url.replace(&proxy.port.to_string(), &shared().port().to_string());
    let again = Database::open(&direct).unwrap();
    let there = ids(&again);
    let mut counts = [0; 4];
    for (id, outcome) in (0_i64..).zip(outcomes) {
        let is_there = there.contains(&id);
        let (kind, expected) = match outcome {
            Ok(_) => (0, true),
            Err(Failure::Unknown(unknown)) => {
                (1, again.resolve(&unknown).unwrap() == Some(Settled::Committed))
            }
            Err(Failure::Rejected(_)) if fails(id) => (2, false),
            Err(Failure::NotRun(_)) => (3, false),
            other => panic!("{id}: {other:?}"),
        };
        assert_eq!(is_there, expected, "{cut:?}: {id}, {counts:?}");
        counts[kind] += 1;
    }
    let [committed, unknown, rejected, _] = counts;
    assert!(committed > 0 && unknown > 0 && rejected > 0, "{cut:?}: {counts:?}");
    assert_eq!(proxy.cuts(), 1);
}

#[test]
fn a_later_commit_that_is_lost_before_it_arrives_leaves_the_earlier_ones_sure() {
    only_the_lost_commit_is_unknown(Cut::Before);
}

#[test]
fn a_later_commit_whose_answer_is_lost_leaves_the_earlier_ones_sure() {
    only_the_lost_commit_is_unknown(Cut::After);
}

/// A commit that did not arrive, at a server that crashes then and forgets that there was such a
/// transaction: it gives the number to another, which commits.
#[test]
fn a_number_that_a_crash_frees_for_another_transaction_settles_nothing_for_it() {
    let servers = crate::server::start(groupcommit_testkit::servers::postgres::Kind::Single);
    // What would write the log meanwhile; it ends with the crash.
    let writer = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'";
    for round in 0..3 {
        let proxy = proxy(servers.port());
        let url = schema_through(&servers, proxy.port);
        let schema = url.rsplit("%3D").next().unwrap();
        let db = open_impatient(&url);
        db.submit_statements(vec![insert(1)]).wait().unwrap();
        let writer = servers.sql(writer).unwrap();
        let stopped = std::process::Command::new("kill").args(["-STOP", writer.trim()]).status();
        assert!(stopped.unwrap().success());
        proxy.refuse_after_cut();
        proxy.cut_next(Cut::Before);
        let number = Statement::new("SELECT pg_current_xact_id()::text", []);
        let unknown = match db.submit_statements(vec![insert(2), number]).wait() {
            Err(Failure::Unknown(unknown)) => unknown,
            other => panic!("{round}: {other:?}"),
        };
        servers.crash_and_restart().unwrap();
        let direct = url.replace(&proxy.port.to_string(), &servers.port().to_string());
        let again = Database::open(&direct).unwrap();
        if round > 0 {
            for id in 3..6 {
                servers.sql(&format!("INSERT INTO {schema}.t VALUES ({id}, '')")).unwrap();
            }
        }
        assert_eq!(again.resolve(&unknown).unwrap(), Some(Settled::RolledBack), "{round}");
        assert!(!ids(&again).contains(&2));
        if round == 2 {
            // Nothing says any more what the crash left.
            servers.sql("CHECKPOINT").unwrap();
            again.resolve(&unknown).unwrap_err();
        }
        again.close().unwrap();
    }
    // One that was committed stays so.
    let proxy = proxy(servers.port());
    let url = schema_through(&servers, proxy.port);
    let db = open_impatient(&url);
    proxy.refuse_after_cut();
    proxy.cut_next(Cut::After);
    let unknown = match db.submit_statements(vec![insert(2)]).wait() {
        Err(Failure::Unknown(unknown)) => unknown,
        other => panic!("{other:?}"),
    };
    servers.crash_and_restart().unwrap();
    let direct = url.replace(&proxy.port.to_string(), &servers.port().to_string());
    let again = Database::open(&direct).unwrap();
    assert_eq!(again.resolve(&unknown).unwrap(), Some(Settled::Committed));
    assert_eq!(ids(&again), [2]);
    again.close().unwrap();
}
