//! Connections that are lost before, during and after a commit: every outcome is right, each effect
//! lands once, and what was left open is settled rightly.
//!
//! `GROUPCOMMIT_CUTS` sets how often each kind of cut is made (20 unless told).

use std::time::Duration;

use groupcommit_mysql::{
    Database, Error, Failure, NotRun, Rejected, Settled, Statement, Value, Warning,
};
use groupcommit_testkit::servers::{
    mysql::{Kind, Servers},
    proxy::Cut,
};

use crate::{
    server::{at, database_through, ids, insert, proxy, shared, start},
    together::in_one_group,
};

fn times() -> i64 {
    std::env::var("GROUPCOMMIT_CUTS").map_or(20, |times| times.parse().unwrap())
}

/// Cuts again and again; every transaction must commit all the same, once.
pub(crate) fn commits_once_whatever_is_cut(servers: &Servers, cut: Cut) {
    let proxy = proxy(servers.port(0));
    let url = database_through(servers, &at(proxy.port));
    let db = Database::open(&url).unwrap();
    let total = Statement::new("UPDATE t SET v = v + 1 WHERE id = -1", []);
    let look = Statement::new("SELECT v FROM t WHERE id = -1", []);
    db.submit_statements(vec![Statement::new("INSERT INTO t VALUES (-1, '0')", [])])
        .wait()
        .unwrap();
    for round in 0..times() {
        let range = round * 5..(round + 1) * 5;
        let cuts = proxy.cuts();
        let tickets = in_one_group(&db, || {
            proxy.cut_next(cut);
            let submit = |id| db.submit_statements(vec![insert(id), total.clone(), look.clone()]);
            range.clone().map(submit).collect::<Vec<_>>()
        });
        for (id, ticket) in range.zip(tickets) {
            let results = ticket.wait().unwrap();
            // Each counted one further than the one before: none was lost, none ran twice.
            assert_eq!(results[2].rows, [[Value::Text((id + 1).to_string())]], "{cut:?} {round}");
        }
        assert_eq!(proxy.cuts(), cuts + 1);
    }
    let expected: Vec<i64> = (-1..times() * 5).collect();
    assert_eq!(ids(&db), expected);
    // Of each attempt a row was left, whatever came of it.
    let name = url.rsplit('/').next().unwrap();
    let rows = servers.sql(&format!("SELECT count(*) FROM {name}.groupcommit_outcome")).unwrap();
    assert!(rows.trim().parse::<u32>().unwrap() <= 20, "{rows}");
    db.close().unwrap();
}

#[test]
fn a_connection_lost_while_a_group_is_sent_costs_another_attempt() {
    commits_once_whatever_is_cut(shared(), Cut::AtBegin);
}

#[test]
fn a_connection_lost_before_the_commit_costs_another_attempt() {
    commits_once_whatever_is_cut(shared(), Cut::Before);
}

#[test]
fn a_connection_lost_during_the_commit_is_settled() {
    commits_once_whatever_is_cut(shared(), Cut::During);
}

#[test]
fn a_connection_lost_after_the_commit_is_settled() {
    commits_once_whatever_is_cut(shared(), Cut::After);
}

/// The server stays out of reach after the cut, so the outcome is unknown; a database that is opened
/// later, on `node`, settles it.
pub(crate) fn an_unknown_is_resolved_later(servers: &Servers, node: usize, cut: Cut) {
    let mut settled = [0, 0];
    for round in 0..times() {
        let proxy = proxy(servers.port(0));
        let url = database_through(servers, &at(proxy.port));
        let db = Database::options()
            .settle_timeout(Duration::ZERO)
            .reconnect_timeout(Duration::ZERO)
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
        let direct = url.replace(&proxy.port.to_string(), &servers.port(node).to_string());
        // Until the node has the new database.
        servers.sql_on(node, "SET wsrep_sync_wait = 15; SELECT 1").unwrap();
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
    an_unknown_is_resolved_later(shared(), 0, Cut::Before);
}

#[test]
fn an_outcome_that_stays_unknown_during_the_commit_is_resolved_later() {
    an_unknown_is_resolved_later(shared(), 0, Cut::During);
}

#[test]
fn an_outcome_that_stays_unknown_after_the_commit_is_resolved_later() {
    an_unknown_is_resolved_later(shared(), 0, Cut::After);
}

#[test]
fn a_server_that_cannot_be_reached_leaves_transactions_not_run_and_serves_on_when_it_is_back() {
    let proxy = proxy(shared().port(0));
    let url = database_through(shared(), &at(proxy.port));
    let db = Database::options().reconnect_timeout(Duration::ZERO).open(&url).unwrap();
    proxy.refuse_after_cut();
    proxy.cut_next(Cut::AtBegin);
    let not_run = db.submit_statements(vec![insert(1)]).wait();
    assert!(matches!(not_run, Err(Failure::NotRun(NotRun::Unavailable(_)))), "{not_run:?}");
    proxy.accept_again();
    db.submit_statements(vec![insert(1)]).wait().unwrap();
    assert_eq!(ids(&db), [1]);
}

#[test]
fn the_record_is_removed_also_where_the_last_commit_took_the_connection_with_it() {
    let proxy = proxy(shared().port(0));
    let url = database_through(shared(), &at(proxy.port));
    let name = url.rsplit('/').next().unwrap();
    let db = Database::open(&url).unwrap();
    proxy.cut_next(Cut::After);
    db.submit_statements(vec![insert(1)]).wait().unwrap();
    db.close().unwrap();
    let left = format!("SELECT count(*) FROM {name}.groupcommit_outcome");
    assert_eq!(shared().sql(&left).unwrap().trim(), "0");
}

#[test]
fn a_crash_of_the_server_between_two_groups_costs_a_connection() {
    let servers = start(Kind::Single);
    let db = Database::open(&database_through(&servers, &at(servers.port(0)))).unwrap();
    for id in 0..3 {
        db.submit_statements(vec![insert(id)]).wait().unwrap();
        servers.crash_and_restart(&[]).unwrap();
    }
    assert_eq!(ids(&db), [0, 1, 2]);
    servers.stop().unwrap();
}

#[test]
fn without_its_table_a_lost_commit_stays_unknown_and_is_said_to() {
    let proxy = proxy(shared().port(0));
    let url = database_through(shared(), &at(proxy.port));
    let name = url.rsplit('/').next().unwrap();
    shared()
        .sql(&format!(
            "CREATE USER {name}@'%'; GRANT SELECT, INSERT, UPDATE, DELETE ON {name}.t TO {name}@'%'"
        ))
        .unwrap();
    let url = url.replace("root@", &format!("{name}@"));
    let db = Database::open(&url).unwrap();
    assert_eq!(db.warnings(), [Warning::NoRecord]);
    db.submit_statements(vec![insert(1)]).wait().unwrap();
    assert_eq!(ids(&db), [1]);
    let all = Statement::new("SELECT 1", []);
    let refused = db.read_durable(&all);
    assert!(
        matches!(refused, Err(Failure::Rejected(Rejected::Caller(Error::NoRecord)))),
        "{refused:?}"
    );
    proxy.cut_next(Cut::After);
    let unknown = match db.submit_statements(vec![insert(2)]).wait() {
        Err(Failure::Unknown(unknown)) => unknown,
        other => panic!("{other:?}"),
    };
    let again = Database::open(&url).unwrap();
    assert!(matches!(again.resolve(&unknown), Err(Error::Unsettled(_))));
    assert_eq!(ids(&again), [1, 2]);
}
