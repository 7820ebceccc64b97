//! Connections that are lost before, during and after a commit: every outcome is right, each effect
//! lands once, and what was left open is settled rightly.
//!
//! `GROUPCOMMIT_CUTS` sets how often each kind of cut is made (20 unless told).

use std::time::Duration;

use groupcommit_postgres::{Database, Failure, NotRun, Settled, Statement, Value};

use crate::{
    proxy::{Cut, Proxy},
    server::{ids, insert, schema_through, shared},
    together::in_one_group,
};

fn times() -> i64 {
    std::env::var("GROUPCOMMIT_CUTS").map_or(20, |times| times.parse().unwrap())
}

/// Cuts again and again; every transaction must commit all the same, once.
fn commits_once_whatever_is_cut(cut: Cut) {
    let proxy = Proxy::new(shared().port());
    let url = schema_through(shared(), proxy.port);
    let db = Database::open(&url).unwrap();
    let total = Statement::new("UPDATE t SET v = (v::int + 1)::text WHERE id = -1 RETURNING v", []);
    db.submit_statements(vec![Statement::new("INSERT INTO t VALUES (-1, '0')", [])])
        .wait()
        .unwrap();
    for round in 0..times() {
        let range = round * 5..(round + 1) * 5;
        let cuts = proxy.cuts();
        let tickets = in_one_group(&db, || {
            proxy.cut_next(cut);
            let submit = |id| db.submit_statements(vec![insert(id), total.clone()]);
            range.clone().map(submit).collect::<Vec<_>>()
        });
        for (id, ticket) in range.zip(tickets) {
            let results = ticket.wait().unwrap();
            // Each counted one further than the one before: none was lost, none ran twice.
            assert_eq!(results[1].rows, [[Value::Text((id + 1).to_string())]], "{cut:?} {round}");
        }
        assert_eq!(proxy.cuts(), cuts + 1);
    }
    let expected: Vec<i64> = (-1..times() * 5).collect();
    assert_eq!(ids(&db), expected);
    db.close().unwrap();
}

#[test]
fn a_connection_lost_while_a_group_is_sent_costs_another_attempt() {
    commits_once_whatever_is_cut(Cut::AtBegin);
}

#[test]
fn a_connection_lost_before_the_commit_costs_another_attempt() {
    commits_once_whatever_is_cut(Cut::Before);
}

#[test]
fn a_connection_lost_during_the_commit_is_settled() {
    commits_once_whatever_is_cut(Cut::During);
}

#[test]
fn a_connection_lost_after_the_commit_is_settled() {
    commits_once_whatever_is_cut(Cut::After);
}

/// The server stays out of reach after the cut, so the outcome is unknown; a database that is opened
/// later settles it.
fn an_unknown_is_resolved_later(cut: Cut) {
    let mut settled = [0, 0];
    for round in 0..times() {
        let proxy = Proxy::new(shared().port());
        let url = schema_through(shared(), proxy.port);
        let db = Database::options()
            .settle_max(Duration::ZERO)
            .reconnect_max(Duration::ZERO)
            .open(&url)
            .unwrap();
        db.submit_statements(vec![insert(1)]).wait().unwrap();
        proxy.refuse_after_cut();
        proxy.cut_next(cut);
        let unknown = match db.submit_statements(vec![insert(2)]).wait() {
            Err(Failure::Unknown(unknown)) => unknown,
            other => panic!("{cut:?} {round}: {other:?}"),
        };
        let refused = db.submit_statements(vec![insert(3)]).wait();
        assert!(matches!(refused, Err(Failure::NotRun(NotRun::Failed(_)))), "{refused:?}");
        let direct = url.replace(&proxy.port.to_string(), &shared().port().to_string());
        let again = Database::open(&direct).unwrap();
        let resolved = again.resolve(&unknown).unwrap().unwrap();
        let is_there = ids(&again) == [1, 2];
        assert_eq!(resolved == Settled::Committed, is_there, "{cut:?} {round}: {resolved:?}");
        settled[usize::from(is_there)] += 1;
    }
    println!("{cut:?}: {} rolled back, {} committed", settled[0], settled[1]);
}

#[test]
fn an_outcome_that_stays_unknown_before_the_commit_is_resolved_later() {
    an_unknown_is_resolved_later(Cut::Before);
}

#[test]
fn an_outcome_that_stays_unknown_during_the_commit_is_resolved_later() {
    an_unknown_is_resolved_later(Cut::During);
}

#[test]
fn an_outcome_that_stays_unknown_after_the_commit_is_resolved_later() {
    an_unknown_is_resolved_later(Cut::After);
}

#[test]
fn a_server_that_cannot_be_reached_leaves_transactions_not_run_and_serves_on_when_it_is_back() {
    let proxy = Proxy::new(shared().port());
    let url = schema_through(shared(), proxy.port);
    let db = Database::options().reconnect_max(Duration::ZERO).open(&url).unwrap();
    proxy.refuse_after_cut();
    proxy.cut_next(Cut::AtBegin);
    let not_run = db.submit_statements(vec![insert(1)]).wait();
    assert!(matches!(not_run, Err(Failure::NotRun(NotRun::Unavailable(_)))), "{not_run:?}");
    proxy.accept_again();
    db.submit_statements(vec![insert(1)]).wait().unwrap();
    assert_eq!(ids(&db), [1]);
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
    servers.stop().unwrap();
}
