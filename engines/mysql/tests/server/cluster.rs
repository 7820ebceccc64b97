//! A Galera cluster: conflicts between its nodes, commits lost on one of them, a node that dies.

use std::{
    collections::VecDeque,
    thread,
    time::{Duration, Instant},
};

use groupcommit_mysql::{Database, Failure, Settled, Statement, Value};
use groupcommit_testkit::servers::{
    mysql::{Kind, Servers},
    proxy::Cut,
};

use groupcommit_testkit::remote::{
    cuts::{an_unknown_is_resolved_later, commits_once_whatever_is_cut},
    together::one_failing_among_a_thousand,
};

use crate::{
    conformance::Engine,
    contention::{count_together, zeroes},
    server::{at, cluster, database_through, has_a_short_record, ids, insert, start},
};

fn hosts(servers: &Servers, order: [usize; 3]) -> String {
    order.map(|node| at(servers.port(node))).join(",")
}

#[test]
fn of_a_thousand_one_fails_alone() {
    let url = database_through(cluster(), &hosts(cluster(), [0, 1, 2]));
    one_failing_among_a_thousand::<Engine>(&Database::open(&url).unwrap());
}

#[test]
fn conflicts_between_nodes_run_again_until_each_has_counted_once() {
    let first = database_through(cluster(), &at(cluster().port(0)));
    let second = first.replace(&at(cluster().port(0)), &at(cluster().port(1)));
    let db = zeroes(&first);
    cluster().sql_on(1, "SET wsrep_sync_wait = 15; SELECT 1").unwrap();
    let counted = count_together([&first, &second], &[vec![1], vec![1]], 20);
    assert_eq!(counted, (1..=200).collect::<Vec<_>>());
    assert_eq!(
        db.read(&Statement::new("SELECT v FROM t WHERE id = 1", [])).unwrap().rows,
        [["200".into()]]
    );
    // It was not for want of conflicts.
    let conflicts = |node| {
        let sql = "SELECT SUM(variable_value) FROM information_schema.global_status WHERE \
                   variable_name IN ('wsrep_local_cert_failures', 'wsrep_local_bf_aborts')";
        cluster().sql_on(node, sql).unwrap().trim().parse::<f64>().unwrap()
    };
    assert!(conflicts(0) + conflicts(1) > 0.0);
}

#[test]
fn those_who_open_it_on_two_nodes_at_once_are_in_nobodys_way() {
    for _ in 0..10 {
        let first = database_through(cluster(), &at(cluster().port(0)));
        let second = first.replace(&at(cluster().port(0)), &at(cluster().port(1)));
        cluster().sql_on(1, "SET wsrep_sync_wait = 15; SELECT 1").unwrap();
        thread::scope(|scope| {
            for url in [&first, &second, &first, &second] {
                scope.spawn(move || {
                    let db = Database::open(url).unwrap();
                    assert!(db.warnings().is_empty(), "{:?}", db.warnings());
                    db.close().unwrap();
                });
            }
        });
    }
}

fn database_at(port: u16) -> String {
    database_through(cluster(), &at(port))
}

fn commits_once(cut: Cut) {
    commits_once_whatever_is_cut::<Engine>(cluster().port(0), database_at, cut, |url| {
        has_a_short_record(cluster(), url);
    });
}

fn resolved_on(node: usize, cut: Cut) {
    let ports = [0, node].map(|node| cluster().port(node));
    // Until the node has the new database.
    let catch_up = || drop(cluster().sql_on(node, "SET wsrep_sync_wait = 15; SELECT 1").unwrap());
    an_unknown_is_resolved_later::<Engine>(ports, database_at, cut, catch_up);
}

#[test]
fn a_connection_lost_before_the_commit_costs_another_attempt() {
    commits_once(Cut::Before);
}

#[test]
fn a_connection_lost_during_the_commit_is_settled() {
    commits_once(Cut::During);
}

#[test]
fn a_connection_lost_after_the_commit_is_settled() {
    commits_once(Cut::After);
}

#[test]
fn an_outcome_that_stays_unknown_before_the_commit_is_resolved_on_another_node() {
    resolved_on(1, Cut::Before);
}

#[test]
fn an_outcome_that_stays_unknown_during_the_commit_is_resolved_on_another_node() {
    resolved_on(1, Cut::During);
}

#[test]
fn an_outcome_that_stays_unknown_after_the_commit_is_resolved_on_another_node() {
    resolved_on(2, Cut::After);
}

/// All rows of a node, which it must have come to within two minutes.
fn ids_on(servers: &Servers, url: &str, node: usize, count: usize) -> Vec<i64> {
    let name = url.rsplit('/').next().unwrap();
    let until = Instant::now() + Duration::from_mins(2);
    loop {
        let listed = servers.sql_on(
            node,
            &format!("SET wsrep_sync_wait = 15; SELECT id FROM {name}.t ORDER BY id"),
        );
        let ids: Vec<i64> = listed
            .map(|rows| rows.lines().map(|id| id.parse().unwrap()).collect())
            .unwrap_or_default();
        if ids.len() == count || Instant::now() > until {
            return ids;
        }
        thread::yield_now();
    }
}

#[test]
fn no_acknowledged_transaction_is_lost_with_a_node_and_all_are_equal_when_it_is_back() {
    let servers = start(Kind::Galera);
    let url = database_through(&servers, &hosts(&servers, [0, 1, 2]));
    let db = Database::open(&url).unwrap();
    let mut acknowledged = Vec::new();
    let mut unknown = Vec::new();
    let mut waiting = VecDeque::new();
    for id in 0..6_000 {
        if id == 2_000 {
            // The node that the database writes to, with hundreds in flight.
            servers.kill(0).unwrap();
        }
        waiting.push_back((id, db.submit_statements(vec![insert(id)])));
        if waiting.len() < 500 {
            continue;
        }
        let (id, ticket) = waiting.pop_front().unwrap();
        match ticket.wait() {
            Ok(_) => acknowledged.push(id),
            Err(Failure::Unknown(outcome)) => unknown.push((id, outcome)),
            Err(other) => panic!("{id}: {other:?}"),
        }
    }
    for (id, ticket) in waiting {
        ticket.wait().unwrap();
        acknowledged.push(id);
    }
    let again = Database::open(&url).unwrap();
    for (id, outcome) in unknown {
        if again.resolve(&outcome).unwrap() == Some(Settled::Committed) {
            acknowledged.push(id);
        }
    }
    acknowledged.sort_unstable();
    assert_eq!(ids(&again), acknowledged);
    servers.restart(0).unwrap();
    for node in 0..3 {
        assert_eq!(ids_on(&servers, &url, node, acknowledged.len()), acknowledged, "{node}");
    }
    let count = Statement::new("SELECT count(*) FROM t", []);
    let all = i64::try_from(acknowledged.len()).unwrap();
    assert_eq!(again.read_durable(&count).unwrap().rows, [[Value::Int(all)]]);
}
