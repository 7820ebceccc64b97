//! A primary that dies, and a replica that takes its place.

use std::{
    collections::VecDeque,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use groupcommit_postgres::{Database, Error, Failure};
use groupcommit_testkit::{
    SetOnPanic,
    servers::{
        postgres::{Kind, Servers},
        proxy::Cut,
    },
};

use crate::server::{ids, insert, proxy, schema_through, start};

/// Long enough for anything that does not hang.
const FOREVER: Duration = Duration::from_mins(2);

fn until(mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < FOREVER, "it never came to it");
        thread::yield_now();
    }
}

/// A new schema, and the URL of all servers, of which the first is reached through `port`.
fn schema_on_all(servers: &Servers, port: u16) -> String {
    let others = &servers.ports()[1..];
    let hosts: Vec<String> =
        [port].iter().chain(others).map(|port| format!("127.0.0.1:{port}")).collect();
    let alone = format!("127.0.0.1:{port}");
    schema_through(servers, port).replace(&alone, &hosts.join(","))
}

/// The replica that has all that was acknowledged takes the place of the primary, which is dead.
fn promote(servers: &mut Servers) {
    let replica = servers.foremost_replica().unwrap();
    servers.promote(replica).unwrap();
}

#[test]
fn a_writer_that_meets_a_replica_waits_for_it_to_be_promoted() {
    let mut servers = start(Kind::Replicated);
    let proxy = proxy(servers.port());
    let url = schema_through(&servers, proxy.port);
    let open = || Database::options().reconnect_timeout(FOREVER).open(&url);
    let db = open().unwrap();
    db.submit_statements(vec![insert(1)]).wait().unwrap();
    servers.kill_primary().unwrap();
    let replica = servers.foremost_replica().unwrap();
    proxy.lead_to(replica);
    // Who opens a database learns of it at once.
    let since = Instant::now();
    let refused = open();
    assert!(matches!(refused, Err(Error::ReadOnly(_))), "{refused:?}");
    assert!(since.elapsed() < FOREVER / 2);
    let met_before = proxy.connections();
    let mut ticket = db.submit_statements(vec![insert(2)]);
    until(|| {
        assert!(!ticket.is_resolved(), "given up");
        proxy.connections() >= met_before + 3
    });
    servers.promote(replica).unwrap();
    ticket.wait_timeout(FOREVER).expect("it is a primary now").unwrap();
    assert_eq!(ids(&db), [1, 2]);
    db.close().unwrap();
}

#[test]
fn a_commit_whose_answer_died_with_the_primary_stays_unknown_on_the_next() {
    let mut servers = start(Kind::Replicated);
    let proxy = proxy(servers.port());
    let url = schema_on_all(&servers, proxy.port);
    let db = Database::options()
        .settle_timeout(FOREVER)
        .open(&format!("{url}&target_session_attrs=read-write"))
        .unwrap();
    db.submit_statements(vec![insert(1)]).wait().unwrap();
    proxy.refuse_after_cut();
    proxy.cut_next(Cut::After);
    let mut ticket = db.submit_statements(vec![insert(2)]);
    until(|| proxy.cuts() == 1);
    assert!(!ticket.is_resolved());
    servers.kill_primary().unwrap();
    promote(&mut servers);
    let unknown = match ticket.wait_timeout(FOREVER).expect("it can be asked") {
        Err(Failure::Unknown(unknown)) => unknown,
        other => panic!("{other:?}"),
    };
    assert!(unknown.cause().to_string().contains("promoted since"), "{unknown:?}");
    // The next primary does not know what the number stood for.
    let again = Database::open(&url).unwrap();
    let unsettled = again.resolve(&unknown).unwrap_err().to_string();
    assert!(unsettled.contains("promoted since"), "{unsettled}");
    again.submit_statements(vec![insert(3)]).wait().unwrap();
    assert_eq!(ids(&again), [1, 2, 3]);
    again.close().unwrap();
}

/// What one writer was told of its transactions.
#[derive(Debug, Default)]
struct Told {
    committed: Vec<i64>,
    not_run: Vec<i64>,
    unknown: Vec<i64>,
}

/// Keeps some transactions in flight until it is told to stop. Whoever meets an unknown outcome opens
/// the database again.
fn write(
    url: &str,
    ids: impl Iterator<Item = i64>,
    stop: &AtomicBool,
    count: &AtomicUsize,
) -> Told {
    let open = || {
        let since = Instant::now();
        loop {
            match Database::options().reconnect_timeout(FOREVER).open(url) {
                Ok(db) => return db,
                Err(error) => assert!(since.elapsed() < FOREVER, "{error}"),
            }
        }
    };
    let (mut db, mut told, mut in_flight) = (open(), Told::default(), VecDeque::new());
    let mut ids = ids.take_while(|_| !stop.load(Ordering::SeqCst));
    loop {
        let next = ids.next();
        let is_last = next.is_none();
        if let Some(id) = next {
            in_flight.push_back((id, db.submit_statements(vec![insert(id)])));
        }
        while in_flight.len() >= 20 || (is_last && !in_flight.is_empty()) {
            let Some((id, mut ticket)) = in_flight.pop_front() else { break };
            match ticket.wait_timeout(FOREVER).expect("no ticket hangs") {
                Ok(_) => {
                    told.committed.push(id);
                    count.fetch_add(1, Ordering::SeqCst);
                }
                Err(Failure::NotRun(_)) => told.not_run.push(id),
                Err(Failure::Unknown(_)) => {
                    told.unknown.push(id);
                    // All others that were in flight were resolved with it.
                    db = open();
                }
                Err(other) => panic!("{id}: {other:?}"),
            }
        }
        if is_last {
            return told;
        }
    }
}

#[test]
fn a_failover_under_load_loses_nothing_that_was_acknowledged_and_writing_goes_on() {
    let mut servers = start(Kind::Replicated);
    let port = servers.port();
    let url = schema_on_all(&servers, port);
    let (stop, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (sender, told) = mpsc::channel();
    thread::scope(|scope| {
        let _ends = SetOnPanic(&stop);
        for writer in 0..3 {
            let (url, stop, count, sender) = (&url, &stop, &count, sender.clone());
            scope.spawn(move || {
                sender.send(write(url, (writer..).step_by(3), stop, count)).unwrap();
            });
        }
        until(|| count.load(Ordering::SeqCst) > 300);
        servers.kill_primary().unwrap();
        promote(&mut servers);
        let promoted_at = count.load(Ordering::SeqCst);
        until(|| count.load(Ordering::SeqCst) > promoted_at + 300);
        stop.store(true, Ordering::SeqCst);
    });
    drop(sender);
    let db = Database::open(&url).unwrap();
    let there = ids(&db);
    assert_eq!(there.len(), there.iter().collect::<std::collections::BTreeSet<_>>().len());
    let is_there = |id: &i64| there.binary_search(id).is_ok();
    let mut known = 0;
    for told in told {
        println!(
            "{} committed, {} not run, {} unknown",
            told.committed.len(),
            told.not_run.len(),
            told.unknown.len()
        );
        assert!(told.committed.iter().all(is_there), "an acknowledged transaction is lost");
        assert!(!told.not_run.iter().any(is_there), "what was not run is there");
        known += told.committed.len() + told.unknown.iter().filter(|id| is_there(id)).count();
    }
    assert_eq!(there.len(), known);
    db.close().unwrap();
}
