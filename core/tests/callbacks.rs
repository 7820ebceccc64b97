//! Promise 10 where admission is full or has ended: a callback never waits for itself, and even the
//! refused are called one at a time.
#![cfg(not(shuttle))]

mod common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use common::{Disk, open, open_with, put};
use groupcommit_core::{Failure, Limits, NotRun, Terms};

/// Long enough for anything that does not hang.
const FOREVER: Duration = Duration::from_secs(20);

#[test]
fn submitting_from_a_callback_waits_for_no_room() {
    let pipeline = open_with(&Disk::new(), Limits::new(1, 1 << 20));
    let (sender, results) = mpsc::channel();
    let inside = pipeline.clone();
    pipeline.submit_then(Terms::default(), put(1), move |result| {
        result.unwrap();
        // The place that this callback holds is the only one.
        inside.submit_then(Terms::default(), put(2), move |result| sender.send(result).unwrap());
    });
    let refused = results.recv_timeout(FOREVER).expect("the callback waits for itself");
    assert!(matches!(refused, Err(Failure::NotRun(NotRun::Overloaded))), "{refused:?}");
    pipeline.transact(Terms::default(), put(3)).unwrap();
}

#[test]
fn those_that_are_refused_are_called_one_at_a_time() {
    let pipeline = open(&Disk::new());
    pipeline.close().unwrap();
    let is_running = Arc::new(AtomicBool::new(false));
    let (sender, calls) = mpsc::channel();
    for number in 0..50 {
        let (is_running, sender) = (is_running.clone(), sender.clone());
        pipeline.submit_then(Terms::default(), put(1), move |result| {
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
