//! Groups that take in what arrives while they are executed, where a commit waits for the disk: every
//! promise holds, caps and exclusives end a group, and a caller executes nobody else's transaction.

mod common;

use common::{Disk, explore, open, put, thread};

#[cfg(not(shuttle))]
use std::sync::{Arc, mpsc};

#[cfg(not(shuttle))]
use common::{Memory, Tx};
#[cfg(not(shuttle))]
use groupcommit_core::{Clock, GROUP_TRANSACTIONS_MAX, Pipeline, Settings, Ticket};

/// A clock that stands still, so that no group has run long enough, however busy the machine is.
#[cfg(not(shuttle))]
#[derive(Debug)]
struct StandsStill;

#[cfg(not(shuttle))]
impl Clock for StandsStill {
    fn now_ns(&self) -> u64 {
        0
    }
}

#[cfg(not(shuttle))]
fn open_without_time(disk: &Arc<Disk>) -> Arc<Pipeline<Memory>> {
    let settings = Settings { clock: Arc::new(StandsStill), ..Settings::default() };
    Arc::new(Pipeline::new(Memory(disk.clone()), settings))
}

/// Submits a transaction that writes 0 and goes on once it is let go; returns when it is executed.
#[cfg(not(shuttle))]
fn hold_up(pipeline: &Pipeline<Memory>) -> (Ticket<(), String>, mpsc::Sender<()>) {
    let (started, has_started) = mpsc::channel();
    let (let_go, held) = mpsc::channel::<()>();
    let ticket = pipeline.submit(move |tx: &mut Tx| {
        started.send(()).expect("somebody waits for it");
        held.recv().expect("is let go");
        tx.put(0);
        Ok(())
    });
    has_started.recv().expect("starts");
    (ticket, let_go)
}

#[test]
fn every_promise_holds_for_those_who_join() {
    explore(|| {
        let disk = Disk::for_which_commits_wait();
        let pipeline = open(&disk);
        let threads: Vec<_> = [10, 20]
            .into_iter()
            .map(|first| {
                let (pipeline, disk) = (pipeline.clone(), disk.clone());
                thread::spawn(move || {
                    let tickets: Vec<_> =
                        (first..first + 3).map(|value| pipeline.submit(put(value))).collect();
                    for ticket in tickets {
                        let value = ticket.wait().expect("durable");
                        assert!(disk.durable().contains(&value), "{value} is not durable");
                    }
                })
            })
            .collect();
        pipeline.transact(put(1)).expect("durable");
        threads.into_iter().for_each(|thread| thread.join().expect("ends well"));
        let durable = disk.durable();
        let of = |from: u64| durable.iter().copied().filter(move |value| value / 10 == from / 10);
        assert!(of(10).eq(10..13) && of(20).eq(20..23), "{durable:?}");
        assert_eq!(durable.len(), 7);
        assert_eq!(pipeline.stats().committed, 7);
        pipeline.close().expect("closes");
    });
}

#[cfg(not(shuttle))]
#[test]
fn what_arrives_while_a_group_is_executed_joins_it_where_a_commit_waits() {
    for (disk, commits) in [(Disk::for_which_commits_wait(), 1), (Disk::new(), 2)] {
        let pipeline = open_without_time(&disk);
        let (first, let_go) = hold_up(&pipeline);
        let tickets: Vec<_> = (1..6).map(|value| pipeline.submit(put(value))).collect();
        let_go.send(()).expect("is held up");
        first.wait().expect("durable");
        for (value, ticket) in (1..).zip(tickets) {
            assert_eq!(ticket.wait().expect("durable"), value);
        }
        assert_eq!(disk.durable(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(pipeline.stats().commits, commits);
        pipeline.close().expect("closes");
    }
}

#[cfg(not(shuttle))]
#[test]
fn a_group_takes_in_no_more_than_its_caps() {
    let disk = Disk::for_which_commits_wait();
    let pipeline = open_without_time(&disk);
    let (first, let_go) = hold_up(&pipeline);
    let last = GROUP_TRANSACTIONS_MAX as u64 + 10;
    let tickets: Vec<_> = (1..=last).map(|value| pipeline.submit(put(value))).collect();
    let_go.send(()).expect("is held up");
    first.wait().expect("durable");
    for (value, ticket) in (1..).zip(tickets) {
        assert_eq!(ticket.wait().expect("durable"), value);
    }
    assert!(disk.durable().into_iter().eq(0..=last));
    let stats = pipeline.stats();
    assert!(stats.commits >= 2 && stats.group_transactions.max <= 1_031, "{stats:?}");
    pipeline.close().expect("closes");
}

#[cfg(not(shuttle))]
#[test]
fn nobody_joins_across_an_exclusive() {
    let disk = Disk::for_which_commits_wait();
    let pipeline = open_without_time(&disk);
    let (first, let_go) = hold_up(&pipeline);
    let before = pipeline.submit(put(1));
    let exclusive = {
        let pipeline = pipeline.clone();
        thread::spawn(move || {
            pipeline.exclusive(|tx: &mut Tx| {
                tx.put(2);
                Ok::<_, String>(())
            })
        })
    };
    while pipeline.stats().queued < 2 {
        thread::yield_now();
    }
    let after = pipeline.submit(put(3));
    let_go.send(()).expect("is held up");
    first.wait().expect("durable");
    assert_eq!(before.wait().expect("durable"), 1);
    assert_eq!(after.wait().expect("durable"), 3);
    exclusive.join().expect("ends").expect("durable");
    assert_eq!(disk.durable(), [0, 1, 2, 3]);
    assert_eq!(pipeline.stats().commits, 3, "two groups and the exclusive");
    pipeline.close().expect("closes");
}

/// The caller may hold a lock that the other transaction takes.
#[cfg(not(shuttle))]
#[test]
fn a_caller_who_leads_executes_nobody_elses_transaction() {
    let disk = Disk::for_which_commits_wait();
    let pipeline = open_without_time(&disk);
    let other = Arc::new(std::sync::Mutex::new(None));
    let (submitting, slot) = (pipeline.clone(), other.clone());
    let caller = thread::current().id();
    let leading = pipeline.transact(move |tx: &mut Tx| {
        tx.put(0);
        let own = submitting.submit(|tx: &mut Tx| {
            tx.put(1);
            Ok::<_, String>(thread::current().id())
        });
        *slot.lock().expect("unpoisoned") = Some(own);
        Ok::<_, String>(thread::current().id())
    });
    assert_eq!(leading.expect("durable"), caller, "an idle pipeline is led by its caller");
    let other = other.lock().expect("unpoisoned").take().expect("submitted");
    assert_ne!(other.wait().expect("durable"), caller);
    assert_eq!(disk.durable(), [0, 1]);
    pipeline.close().expect("closes");
}

#[cfg(not(shuttle))]
#[test]
fn who_would_not_wait_for_others_leads_or_gets_the_closure_back() {
    let disk = Disk::for_which_commits_wait();
    let pipeline = open_without_time(&disk);
    let thread_that_runs = |tx: &mut Tx| {
        tx.put(0);
        Ok::<_, String>(thread::current().id())
    };
    let Ok(led) = pipeline.try_lead(thread_that_runs) else { panic!("the pipeline is idle") };
    assert!(led.is_resolved());
    assert_eq!(led.wait().expect("durable"), thread::current().id());
    let (held, let_go) = hold_up(&pipeline);
    let Err(given_back) = pipeline.try_lead(thread_that_runs) else { panic!("it is busy") };
    let later = pipeline.submit(move |tx: &mut Tx| given_back(tx));
    let_go.send(()).expect("it waits");
    held.wait().expect("durable");
    assert_ne!(later.wait().expect("durable"), thread::current().id());
    pipeline.close().expect("closes");
}
