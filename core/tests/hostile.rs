//! Promise 9 against callers' code that panics where nobody expects it: nothing is left hanging.
#![cfg(not(shuttle))]

mod common;

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Wake, Waker},
    time::Duration,
};

use common::{Disk, open, put};
use groupcommit_core::{Failure, Outcome, Terms, Ticket};

/// Long enough for anything that does not hang.
const FOREVER: Duration = Duration::from_secs(20);

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "a test's panic in a destructor");
    }
}

struct PanicsWhenWoken;

impl Wake for PanicsWhenWoken {
    fn wake(self: Arc<Self>) {
        panic!("a test's panic in a waker");
    }
}

fn wait<T: Send + 'static>(mut ticket: Ticket<T, String>) -> Result<T, Failure<String>> {
    ticket.wait_timeout(FOREVER).expect("the pipeline hangs")
}

#[test]
fn a_destructor_that_panics_after_its_ticket_was_dropped() {
    let disk = Disk::new();
    let pipeline = open(&disk);
    for bytes in [0, 1] {
        let terms = Terms::new().bytes(bytes);
        // Held back until the tickets are gone; else the last to drop might be this thread.
        let (release, released) = std::sync::mpsc::channel::<()>();
        let before = pipeline.submit(move |_: &mut common::Tx| {
            released.recv().ok();
            Ok::<_, String>(())
        });
        let captured = PanicsWhenDropped;
        drop(pipeline.with(terms).submit(move |tx: &mut common::Tx| {
            let _captured = &captured;
            tx.put(1);
            Ok::<_, String>(())
        }));
        drop(pipeline.with(terms).submit(|_: &mut common::Tx| Ok::<_, String>(PanicsWhenDropped)));
        release.send(()).unwrap();
        wait(before).unwrap();
        wait(pipeline.submit(put(2))).unwrap();
    }
    pipeline.close().unwrap();
}

#[test]
fn a_destructor_that_panics_in_a_callbacks_cell() {
    for flushes in [0, i64::MAX] {
        let disk = Disk::failing_after(flushes);
        let pipeline = open(&disk);
        let calls = Arc::new(AtomicU64::new(0));
        for _ in 0..2 {
            let (captured, called) = (PanicsWhenDropped, calls.clone());
            pipeline.submit_then(
                move |tx: &mut common::Tx| {
                    let _captured = &captured;
                    tx.put(1);
                    Ok::<_, String>(PanicsWhenDropped)
                },
                move |result| {
                    called.fetch_add(1, Ordering::Relaxed);
                    std::mem::forget(result);
                },
            );
        }
        let last = wait(pipeline.submit(put(2)));
        assert_eq!(last.is_ok(), flushes != 0);
        while pipeline.stats().in_flight > 0 {
            std::thread::yield_now();
        }
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }
}

#[test]
fn a_panic_whose_message_panics_when_dropped() {
    let disk = Disk::new();
    let pipeline = open(&disk);
    let panics = pipeline.submit(|_: &mut common::Tx| -> Result<(), String> {
        std::panic::panic_any(PanicsWhenDropped)
    });
    assert_eq!(Outcome::of(&wait(panics)), Outcome::Rejected);
    wait(pipeline.submit(put(2))).unwrap();
}

#[test]
fn a_waker_that_panics() {
    let disk = Disk::new();
    let pipeline = open(&disk);
    let waker = Waker::from(Arc::new(PanicsWhenWoken));
    let (release, released) = std::sync::mpsc::channel::<()>();
    let mut polled = pipeline.submit(move |_: &mut common::Tx| {
        released.recv().ok();
        Ok::<_, String>(())
    });
    assert!(Pin::new(&mut polled).poll(&mut Context::from_waker(&waker)).is_pending());
    let beside = pipeline.submit(put(1));
    release.send(()).unwrap();
    wait(beside).unwrap();
    wait(pipeline.submit(put(2))).unwrap();
    wait(polled).unwrap();
}
