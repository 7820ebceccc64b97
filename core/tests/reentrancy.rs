//! A transaction that would wait for itself is told so instead of hanging.
#![cfg(not(shuttle))]

mod common;

use std::{
    sync::{Arc, Barrier, mpsc},
    time::Duration,
};

use common::{Disk, open, open_with, put};
use groupcommit_core::{Failure, Limits, NotRun, Rejected, Ticket};

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
    let outer = pipeline.submit(move |_: &mut common::Tx| {
        inside.submit(put(1)).wait().map_err(|failure| failure.to_string())
    });
    match wait(outer) {
        Err(Failure::Rejected(Rejected::Caller(message))) => {
            assert_eq!(message, Failure::<String>::from(NotRun::Reentrant).to_string());
        }
        other => panic!("{other:?}"),
    }
    pipeline.close().unwrap();
    assert_eq!(disk.durable(), [], "what it waited for is withdrawn");
}

#[test]
fn waiting_inside_a_transaction_for_itself() {
    let pipeline = open(&Disk::new());
    let (sender, tickets) = mpsc::channel::<Ticket<bool, String>>();
    let own = pipeline.submit(move |_: &mut common::Tx| {
        let itself = tickets.recv().unwrap();
        Ok(matches!(itself.wait(), Err(Failure::Unknown(_))))
    });
    let (done, ends) = mpsc::channel();
    sender.send(own).unwrap();
    pipeline.submit_then(put(1), move |result| done.send(result).unwrap());
    ends.recv_timeout(FOREVER).expect("the pipeline hangs").unwrap();
}

/// Two databases whose transactions wait for each other, in either order.
#[test]
fn a_circle_through_another_database() {
    for _ in 0..50 {
        let databases = [open(&Disk::new()), open(&Disk::new())];
        let both_run = Arc::new(Barrier::new(2));
        let tickets = [0, 1].map(|own| {
            let (other, both_run) = (databases[1 - own].clone(), both_run.clone());
            databases[own].submit(move |_: &mut common::Tx| {
                both_run.wait();
                Ok::<_, String>(other.transact(put(1)))
            })
        });
        let results = tickets.map(|ticket| wait(ticket).unwrap());
        let refused = |result: &&Result<u64, Failure<String>>| {
            matches!(result, Err(Failure::NotRun(NotRun::Reentrant)))
        };
        assert_eq!(results.iter().filter(refused).count(), 1, "{results:?}");
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    }
}

#[test]
fn what_an_engine_may_wait_for_does_not_wait_for_it() {
    let pipeline = open(&Disk::new());
    let refused = pipeline.holding(|| pipeline.transact(put(1)));
    assert!(matches!(refused, Err(Failure::NotRun(NotRun::Reentrant))), "{refused:?}");
    pipeline.transact(put(2)).unwrap();
}

#[test]
fn calling_back_through_another_pipeline() {
    let (outer, inner) = (open(&Disk::new()), open(&Disk::new()));
    let (through, back) = (inner.clone(), outer.clone());
    let ticket = outer.submit(move |_: &mut common::Tx| {
        let back = back.clone();
        let nested = through.transact(move |_: &mut common::Tx| {
            let refused = back.transact(put(1));
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
    let ticket = pipeline.try_submit(put(1)).expect("one is let in");
    wait(ticket).unwrap();
}
