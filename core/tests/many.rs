//! Many transactions submitted at once: each with an outcome of its own, and one wake-up for all.
#![cfg(not(shuttle))]

mod common;

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use common::{Disk, Tx, open, open_with, put};
use groupcommit_core::{Failure, Limits, NotRun, Rejected, Tickets};

/// Long enough for anything that does not hang.
const FOREVER: Duration = Duration::from_secs(20);

/// A transaction of which every third fails.
fn some_fail(value: u64) -> impl FnMut(&mut Tx) -> Result<u64, String> + Send + 'static {
    move |tx| {
        tx.put(value);
        if value % 3 == 2 { Err(format!("not {value}")) } else { Ok(value) }
    }
}

fn assert_each(results: Vec<Result<u64, Failure<String>>>, count: u64) {
    assert_eq!(results.len() as u64, count);
    for (value, result) in (0..count).zip(results) {
        match result {
            Ok(own) => assert!(own == value && value % 3 != 2),
            Err(Failure::Rejected(Rejected::Caller(error))) => {
                assert!(error == format!("not {value}") && value % 3 == 2);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_first_run_while_the_last_are_made() {
    let pipeline = open(&Disk::new());
    let (sender, ran) = mpsc::channel();
    let transactions = (0..1_000).map(|value| {
        if value == 999 {
            ran.recv_timeout(FOREVER).expect("the first has run");
        }
        let sender = sender.clone();
        move |tx: &mut Tx| {
            let _is_awaited = sender.send(());
            put(value)(tx)
        }
    });
    assert!(pipeline.submit_many(transactions).wait().iter().all(Result::is_ok));
}

#[test]
fn each_has_an_outcome_of_its_own_in_order() {
    let disk = Disk::new();
    let pipeline = open(&disk);
    assert_each(pipeline.submit_many((0..100).map(some_fail)).wait(), 100);
    assert_eq!(disk.durable(), disk.values());
    let (sender, results) = mpsc::channel();
    pipeline.submit_many_then((0..100).map(some_fail), move |all| sender.send(all).unwrap());
    assert_each(results.recv_timeout(FOREVER).unwrap(), 100);
    let (sender, results) = mpsc::channel();
    let none = (0..0).map(some_fail);
    pipeline.submit_many_then(none, move |all| sender.send(all).unwrap());
    assert!(results.recv_timeout(FOREVER).unwrap().is_empty());
}

#[test]
fn more_than_there_is_room_for_wait_for_it() {
    let pipeline = open_with(&Disk::new(), Limits::new(7, 1 << 20));
    assert_each(pipeline.submit_many((0..100).map(some_fail)).wait(), 100);
    assert_eq!(pipeline.stats().in_flight, 0);
}

#[test]
fn a_closed_database_refuses_each() {
    let pipeline = open(&Disk::new());
    pipeline.close().unwrap();
    let closed = |result: &Result<_, _>| matches!(result, Err(Failure::NotRun(NotRun::Closed)));
    assert!(pipeline.submit_many((0..3).map(put)).wait().iter().all(closed));
    let (sender, results) = mpsc::channel();
    pipeline.submit_many_then((0..3).map(put), move |all| sender.send(all).unwrap());
    let all = results.recv_timeout(FOREVER).unwrap();
    assert!(all.len() == 3 && all.iter().all(closed));
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Calls `meanwhile` while the first flush runs, which holds back everything else.
fn during_the_first_flush(disk: &Disk, meanwhile: impl FnOnce() + Send + 'static) {
    let once = Mutex::new(Some(meanwhile));
    let during_flush = move || {
        let meanwhile = once.lock().expect("unpoisoned").take();
        meanwhile.into_iter().for_each(|meanwhile| meanwhile());
    };
    assert!(disk.during_flush.set(Box::new(during_flush)).is_ok());
}

#[test]
fn who_waits_for_many_is_woken_once() {
    let disk = Disk::new();
    let pipeline = open(&disk);
    let count = Arc::new(Count::default());
    let (polled, tickets) = mpsc::channel();
    let (inside, woken) = (pipeline.clone(), count.clone());
    during_the_first_flush(&disk, move || {
        let mut tickets = inside.submit_many((0..1_000).map(some_fail));
        let waker = Waker::from(woken);
        assert!(Pin::new(&mut tickets).poll(&mut Context::from_waker(&waker)).is_pending());
        polled.send(tickets).unwrap();
    });
    pipeline.transact(put(1)).unwrap();
    let tickets = tickets.recv_timeout(FOREVER).unwrap();
    assert_each(tickets.wait(), 1_000);
    assert!(count.0.load(Ordering::SeqCst) <= 1, "{count}", count = count.0.load(Ordering::SeqCst));
}

/// As an event loop does: one ticket at a time goes in, and what is resolved is taken out.
#[test]
fn who_takes_what_is_resolved_is_woken_once_a_flush() {
    let disk = Disk::new();
    let pipeline = open(&disk);
    let count = Arc::new(Count::default());
    let (polled, tickets) = mpsc::channel();
    let (inside, woken) = (pipeline.clone(), count.clone());
    during_the_first_flush(&disk, move || {
        let mut tickets: Tickets<u64, String> =
            (0..500).map(|value| inside.submit(some_fail(value))).collect();
        let waker = Waker::from(woken);
        let mut cx = Context::from_waker(&waker);
        assert!(pin!(tickets.resolved()).poll(&mut cx).is_pending());
        polled.send(tickets).unwrap();
    });
    pipeline.transact(put(1)).unwrap();
    let mut tickets = tickets.recv_timeout(FOREVER).unwrap();
    pipeline.flush().unwrap();
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    let waker = Waker::from(count.clone());
    let Poll::Ready(all) = pin!(tickets.resolved()).poll(&mut Context::from_waker(&waker)) else {
        panic!("not all are resolved");
    };
    assert_each(all, 500);
    assert!(tickets.is_empty() && tickets.wait_resolved().is_empty());
}

#[test]
fn an_asynchronous_transaction_is_one_await() {
    let disk = Disk::new();
    let pipeline = open(&disk);
    let durable = groupcommit_core::block_on(pipeline.transact_async(put(7))).unwrap();
    assert_eq!((durable, disk.durable()), (7, vec![7]));
}
