//! A transaction that would wait for itself is told so instead of hanging.
#![cfg(not(shuttle))]

mod common;

use std::time::Duration;

use common::{Disk, open, open_with, put};
use groupcommit_core::{Failure, Limits, NotRun, Rejected, Terms, Ticket};

/// Long enough for anything that does not hang.
const FOREVER: Duration = Duration::from_secs(20);

fn wait<T: Send + 'static>(mut ticket: Ticket<T, String>) -> Result<T, Failure<String>> {
    ticket.wait_timeout(FOREVER).expect("the pipeline hangs")
}

#[test]
fn waiting_inside_a_transaction_for_one_that_comes_after_it() {
    let disk = Disk::new();
    let pipeline = open(&disk);
    let inside = pipeline.clone();
    let outer = pipeline.submit(Terms::default(), move |_: &mut common::Tx| {
        inside.submit(Terms::default(), put(1)).wait().map_err(|failure| failure.to_string())
    });
    match wait(outer) {
        Err(Failure::Rejected(Rejected::Panicked(message))) => {
            assert!(message.contains("wait for itself"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    pipeline.close().unwrap();
    assert_eq!(disk.durable(), [1], "what it submitted is run all the same");
}

#[test]
fn calling_back_through_another_pipeline() {
    let (outer, inner) = (open(&Disk::new()), open(&Disk::new()));
    let (through, back) = (inner.clone(), outer.clone());
    let ticket = outer.submit(Terms::default(), move |_: &mut common::Tx| {
        let back = back.clone();
        let nested = through.transact(Terms::default(), move |_: &mut common::Tx| {
            let refused = back.transact(Terms::default(), put(1));
            Ok::<_, String>(matches!(refused, Err(Failure::NotRun(NotRun::Reentrant))))
        });
        nested.map_err(|failure| failure.to_string())
    });
    assert!(wait(ticket).unwrap(), "it was not refused");
}

#[test]
fn limits_of_nothing_still_let_one_in() {
    let mut limits = Limits::default();
    (limits.transactions, limits.bytes) = (0, 0);
    let pipeline = open_with(&Disk::new(), limits);
    let ticket = pipeline.try_submit(Terms::default(), put(1)).expect("one is let in");
    wait(ticket).unwrap();
}
