//! Promise 10 where admission is full or has ended: a callback never waits for itself, and even the
//! refused are called one at a time.
#![cfg(not(shuttle))]

mod common;

use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use common::{Disk, open, open_with, put};
use groupcommit_core::{Failure, Limits, NotRun, Pipeline};

/// Long enough for anything that does not hang.
const FOREVER: Duration = Duration::from_secs(20);

#[test]
fn submitting_from_a_callback_waits_for_no_room() {
    let pipeline = open_with(&Disk::new(), Limits::new(1, 1 << 20));
    let (sender, results) = mpsc::channel();
    let inside = pipeline.clone();
    pipeline.submit_then(put(1), move |result| {
        result.unwrap();
        // The place that this callback holds is the only one.
        inside.submit_then(put(2), move |result| sender.send(result).unwrap());
    });
    let refused = results.recv_timeout(FOREVER).expect("the callback waits for itself");
    assert!(matches!(refused, Err(Failure::NotRun(NotRun::Overloaded))), "{refused:?}");
    pipeline.transact(put(3)).unwrap();
}

#[test]
fn close_waits_for_callbacks() {
    let pipeline = open(&Disk::new());
    let (begun, begins) = mpsc::channel();
    let returned = Arc::new(AtomicBool::new(false));
    let seen = returned.clone();
    let (closes, closing) = mpsc::channel();
    pipeline.submit_then(put(1), move |_| {
        begun.send(()).unwrap();
        // Until the other thread is about to close, and then as long as that takes to be wrong.
        closing.recv_timeout(FOREVER).unwrap();
        (0..1_000).for_each(|_| std::thread::yield_now());
        seen.store(true, Ordering::SeqCst);
    });
    begins.recv_timeout(FOREVER).unwrap();
    closes.send(()).unwrap();
    pipeline.close().unwrap();
    assert!(returned.load(Ordering::SeqCst), "closed while a callback runs");
}

#[test]
fn a_callback_may_close_its_database() {
    let pipeline = open(&Disk::new());
    let inside = pipeline.clone();
    let (sender, closed) = mpsc::channel();
    pipeline.submit_then(put(1), move |_| {
        sender.send(inside.close().is_ok()).unwrap();
    });
    assert!(closed.recv_timeout(FOREVER).expect("it waits for itself"));
}

#[test]
fn those_that_are_refused_are_called_one_at_a_time() {
    let pipeline = open(&Disk::new());
    pipeline.close().unwrap();
    let is_running = Arc::new(AtomicBool::new(false));
    let (sender, calls) = mpsc::channel();
    for number in 0..50 {
        let (is_running, sender) = (is_running.clone(), sender.clone());
        pipeline.submit_then(put(1), move |result| {
            assert!(matches!(result, Err(Failure::NotRun(NotRun::Closed))));
            let alone = !is_running.swap(true, Ordering::SeqCst);
            std::thread::yield_now();
            is_running.store(false, Ordering::SeqCst);
            sender.send((number, alone)).unwrap();
        });
    }
    for number in 0..50 {
        assert_eq!(calls.recv_timeout(FOREVER).unwrap(), (number, true));
    }
    assert_eq!(pipeline.stats().in_flight, 0);
}

#[test]
fn one_databases_callbacks_give_way_to_anothers() {
    // As many as hold every thread that callbacks may have.
    let busy: Vec<_> = (0..groupcommit_core::THREADS_MAX / 2).map(|_| open(&Disk::new())).collect();
    let gate = Arc::new((Mutex::new((0, false, false)), Condvar::new()));
    for pipeline in &busy {
        for number in 0..200 {
            let gate = gate.clone();
            pipeline.submit_then(put(1), move |_| {
                let (state, changed) = &*gate;
                let mut state = state.lock().unwrap();
                if number == 0 {
                    state.0 += 1;
                    changed.notify_all();
                }
                // The first waits until the other's callback is due, the last until it was called.
                let is_due = |state: &(usize, bool, bool)| match number {
                    0 => state.1,
                    199 => state.2,
                    _ => true,
                };
                while !is_due(&state) {
                    let waited = changed.wait_timeout(state, FOREVER).unwrap();
                    assert!(!waited.1.timed_out(), "the other's callback was not called");
                    state = waited.0;
                }
            });
        }
    }
    let (state, changed) = &*gate;
    let holding =
        changed.wait_timeout_while(state.lock().unwrap(), FOREVER, |state| state.0 < busy.len());
    assert!(!holding.unwrap().1.timed_out(), "not every callback has a thread");
    // Two flushes later all callbacks of a database stand in the line.
    let two_flushes = |pipeline: &Arc<Pipeline<common::Memory>>| {
        pipeline.transact(put(2)).unwrap();
        pipeline.transact(put(3)).unwrap();
    };
    busy.iter().for_each(two_flushes);
    let other = open(&Disk::new());
    let (sender, called) = mpsc::channel();
    other.submit_then(put(1), move |_| sender.send(()).unwrap());
    two_flushes(&other);
    state.lock().unwrap().1 = true;
    changed.notify_all();
    let in_time = called.recv_timeout(FOREVER);
    state.lock().unwrap().2 = true;
    changed.notify_all();
    in_time.expect("the callbacks of the others hold every thread");
}
