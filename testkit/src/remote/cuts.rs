//! Connections that are lost before, during and after a commit: every outcome is right, each effect
//! lands once, and an unknown outcome is settled rightly.
//!
//! `GROUPCOMMIT_CUTS` sets how often each kind of cut is made (default: 20).
#![expect(missing_docs, reason = "the name of a case says what it tests")]

use std::time::Duration;

use groupcommit_core::{Failure, NotRun, Settled};
use groupcommit_remote::Database;
use groupcommit_statement::{Statement, Value};

use super::{DatabaseOf, Remote, ids, in_one_group, insert};
use crate::servers::proxy::Cut;

fn times() -> i64 {
    std::env::var("GROUPCOMMIT_CUTS").map_or(20, |times| times.parse().unwrap())
}

/// Cuts again and again at the server on `port`; every transaction must commit all the same, once.
/// `url` creates a database for a client that connects to a port.
pub fn commits_once_whatever_is_cut<S: Remote>(
    port: u16,
    url: impl Fn(u16) -> String,
    cut: Cut,
    before_closing: impl Fn(&str),
) {
    let proxy = S::proxy(port);
    let url = url(proxy.port);
    let db: DatabaseOf<S> = Database::open(&url).unwrap();
    let total = Statement::new(S::SQL.add, [(-1).into()]);
    let look = Statement::new("SELECT v FROM t WHERE id = -1", []);
    let zero = Statement::new(S::SQL.insert, [(-1).into(), "0".into()]);
    db.submit_statements(vec![zero]).wait().unwrap();
    for round in 0..times() {
        let range = round * 5..(round + 1) * 5;
        let cuts = proxy.cuts();
        let tickets = in_one_group(&db, || {
            proxy.cut_next(cut);
            let plan = |id| vec![insert::<S>(id), total.clone(), look.clone()];
            range.clone().map(|id| db.submit_statements(plan(id))).collect::<Vec<_>>()
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
    before_closing(&url);
    db.close().unwrap();
}

fn commits_once<S: Remote>(cut: Cut) {
    commits_once_whatever_is_cut::<S>(S::port(), S::url_through, cut, S::after_cuts);
}

pub fn a_connection_lost_while_a_group_is_sent_costs_another_attempt<S: Remote>() {
    commits_once::<S>(Cut::AtBegin);
}

pub fn a_connection_lost_before_the_commit_costs_another_attempt<S: Remote>() {
    commits_once::<S>(Cut::Before);
}

pub fn a_connection_lost_during_the_commit_is_settled<S: Remote>() {
    commits_once::<S>(Cut::During);
}

pub fn a_connection_lost_after_the_commit_is_settled<S: Remote>() {
    commits_once::<S>(Cut::After);
}

/// The server on `port` stays out of reach after the cut, so the outcome is unknown; a database that
/// is opened later, on the port `later`, settles it.
pub fn an_unknown_is_resolved_later<S: Remote>(
    [port, later]: [u16; 2],
    url: impl Fn(u16) -> String,
    cut: Cut,
    before_reopening: impl Fn(),
) {
    let mut settled = [0, 0];
    for round in 0..times() {
        let proxy = S::proxy(port);
        let url = url(proxy.port);
        // It neither asks nor connects again.
        let options =
            Database::options().settle_timeout(Duration::ZERO).reconnect_timeout(Duration::ZERO);
        let db: DatabaseOf<S> = options.open(&url).unwrap();
        db.submit_statements(vec![insert::<S>(1)]).wait().unwrap();
        proxy.refuse_after_cut();
        proxy.cut_next(cut);
        let unknown = match db.submit_statements(vec![insert::<S>(2)]).wait() {
            Err(Failure::Unknown(unknown)) => unknown,
            other => panic!("{cut:?} {round}: {other:?}"),
        };
        let refused = db.submit_statements(vec![insert::<S>(3)]).wait();
        assert!(matches!(refused, Err(Failure::NotRun(NotRun::Failed(_)))), "{refused:?}");
        let direct = url.replace(&proxy.port.to_string(), &later.to_string());
        before_reopening();
        let again: DatabaseOf<S> = Database::open(&direct).unwrap();
        let resolved = again.resolve(&unknown).unwrap().unwrap();
        let is_there = ids(&again) == [1, 2];
        assert_eq!(resolved == Settled::Committed, is_there, "{cut:?} {round}: {resolved:?}");
        settled[usize::from(is_there)] += 1;
    }
    println!("{cut:?}: {} rolled back, {} committed", settled[0], settled[1]);
}

fn resolved_later<S: Remote>(cut: Cut) {
    an_unknown_is_resolved_later::<S>([S::port(); 2], S::url_through, cut, || {});
}

pub fn an_outcome_that_stays_unknown_before_the_commit_is_resolved_later<S: Remote>() {
    resolved_later::<S>(Cut::Before);
}

pub fn an_outcome_that_stays_unknown_during_the_commit_is_resolved_later<S: Remote>() {
    resolved_later::<S>(Cut::During);
}

pub fn an_outcome_that_stays_unknown_after_the_commit_is_resolved_later<S: Remote>() {
    resolved_later::<S>(Cut::After);
}

pub fn a_server_out_of_reach_leaves_transactions_not_run_and_serves_on_when_it_is_back<
    S: Remote,
>() {
    let proxy = S::proxy(S::port());
    let url = S::url_through(proxy.port);
    let db: DatabaseOf<S> =
        Database::options().reconnect_timeout(Duration::ZERO).open(&url).unwrap();
    proxy.refuse_after_cut();
    proxy.cut_next(Cut::AtBegin);
    let not_run = db.submit_statements(vec![insert::<S>(1)]).wait();
    assert!(matches!(not_run, Err(Failure::NotRun(NotRun::Unavailable(_)))), "{not_run:?}");
    proxy.accept_again();
    db.submit_statements(vec![insert::<S>(1)]).wait().unwrap();
    assert_eq!(ids(&db), [1]);
}
