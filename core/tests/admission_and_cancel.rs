//! Promises 8, 9 and 10: bounded, nothing left hanging, callbacks called once.

mod common;

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use common::{Disk, explore, open, open_with, put, thread};
use groupcommit_core::{Failure, Limits, NotRun, Outcome, Terms};

#[test]
fn submitters_beyond_the_limit_wait_and_all_are_served() {
    explore(|| {
        let disk = Disk::new();
        let pipeline = open_with(&disk, Limits::new(1, 1 << 20));
        let writers: Vec<_> = (0..3_u64)
            .map(|value| {
                let pipeline = pipeline.clone();
                thread::spawn(move || pipeline.submit(put(value)).wait().unwrap())
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(disk.values().len(), 3);
        assert_eq!(pipeline.stats().in_flight, 0);
    });
}

#[test]
fn a_submission_dropped_after_some_polls_gives_its_place_back() {
    for polls in 0..4 {
        static POLLS: AtomicU64 = AtomicU64::new(0);
        POLLS.store(polls, Ordering::Relaxed);
        explore(|| {
            let disk = Disk::new();
            let pipeline = open_with(&disk, Limits::new(1, 1 << 20));
            let first = pipeline.submit(put(1));
            {
                let mut waiting = pin!(pipeline.submit_async(put(2)));
                let mut cx = Context::from_waker(Waker::noop());
                for _ in 0..POLLS.load(Ordering::Relaxed) {
                    if let Poll::Ready(ticket) = waiting.as_mut().poll(&mut cx) {
                        drop(ticket); // neither cancels nor leaks
                        break;
                    }
                    thread::yield_now();
                }
            }
            let third = pipeline.submit(put(3));
            first.wait().unwrap();
            third.wait().unwrap();
            pipeline.close().unwrap();
            assert_eq!(pipeline.stats().in_flight, 0, "a place was lost");
            assert!(disk.durable().contains(&3));
        });
    }
}

#[test]
fn a_ticket_dropped_after_some_polls_leaves_its_transaction_alone() {
    for polls in 0..4 {
        static POLLS: AtomicU64 = AtomicU64::new(0);
        POLLS.store(polls, Ordering::Relaxed);
        explore(|| {
            let disk = Disk::new();
            let pipeline = open(&disk);
            {
                let mut ticket = pin!(pipeline.submit(put(1)));
                let mut cx = Context::from_waker(Waker::noop());
                for _ in 0..POLLS.load(Ordering::Relaxed) {
                    if ticket.as_mut().poll(&mut cx).is_ready() {
                        break;
                    }
                    thread::yield_now();
                }
            }
            pipeline.close().unwrap();
            assert_eq!(disk.durable(), [1]);
        });
    }
}

#[test]
fn a_cancelled_transaction_has_no_effect_and_one_that_was_not_has_its_own() {
    explore(|| {
        let disk = Disk::new();
        let pipeline = open(&disk);
        let before = pipeline.submit(put(1));
        let ticket = pipeline.submit(put(2));
        let withdrawn = ticket.cancel();
        let result = ticket.wait();
        if withdrawn {
            assert!(matches!(result, Err(Failure::NotRun(NotRun::Cancelled))));
            assert!(before.is_resolved(), "its turn came before");
        } else {
            assert_eq!(result.unwrap(), 2);
        }
        pipeline.close().unwrap();
        assert_eq!(disk.values().contains(&2), !withdrawn);
        before.wait().unwrap();
    });
}

#[test]
fn closing_during_submissions_resolves_every_ticket() {
    explore(|| {
        let disk = Disk::new();
        let pipeline = open_with(&disk, Limits::new(2, 1 << 20));
        let writers: Vec<_> = (0..2_u64)
            .map(|writer| {
                let pipeline = pipeline.clone();
                thread::spawn(move || {
                    let tickets: Vec<_> =
                        (0..2).map(|n| pipeline.submit(put(writer * 10 + n))).collect();
                    let results = tickets.into_iter().map(groupcommit_core::Ticket::wait);
                    results
                        .filter(|result| {
                            let outcome = Outcome::of(result);
                            assert!(matches!(outcome, Outcome::Committed | Outcome::NotRun));
                            outcome == Outcome::Committed
                        })
                        .count()
                })
            })
            .collect();
        pipeline.close().unwrap();
        let durable_at_close = disk.durable().len();
        let committed: usize = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        assert_eq!(committed, disk.durable().len());
        assert_eq!(committed, durable_at_close, "nothing is admitted after close returned");
    });
}

#[test]
fn dropping_the_pipeline_lets_what_was_admitted_finish() {
    explore(|| {
        let disk = Disk::new();
        let pipeline = open(&disk);
        let tickets: Vec<_> = (0..3).map(|value| pipeline.submit(put(value))).collect();
        drop(pipeline);
        for ticket in tickets {
            ticket.wait().unwrap();
        }
        assert_eq!(disk.durable(), [0, 1, 2]);
    });
}

#[test]
fn callbacks_are_called_once_and_in_order() {
    explore(|| {
        let disk = Disk::new();
        let pipeline = open_with(&disk, Limits::new(2, 1 << 20));
        let called = Arc::new(Mutex::new(Vec::new()));
        for value in 0..3_u64 {
            let (called, disk) = (called.clone(), disk.clone());
            let transaction = move |tx: &mut common::Tx| {
                tx.put(value);
                if value == 1 { Err("no") } else { Ok(value) }
            };
            pipeline.submit_then(transaction, move |result| {
                assert_eq!(result.is_ok(), value != 1);
                assert_eq!(disk.durable().contains(&value), value != 1);
                called.lock().unwrap().push(value);
            });
        }
        pipeline.close().unwrap();
        // Those with callbacks stay admitted until these have returned.
        while pipeline.stats().in_flight > 0 {
            thread::yield_now();
        }
        assert_eq!(*called.lock().unwrap(), [0, 1, 2]);
    });
}

#[test]
fn blocking_inside_a_transaction_of_the_same_pipeline_is_refused() {
    let disk = Disk::new();
    let scenario = move || {
        let pipeline = open(&disk);
        let inner = pipeline.clone();
        let refused = pipeline.transact(move |_| {
            Ok::<_, String>(matches!(
                inner.transact(put(1)),
                Err(Failure::NotRun(NotRun::Reentrant))
            ))
        });
        assert!(refused.unwrap());
    };
    #[cfg(not(shuttle))]
    scenario();
    #[cfg(shuttle)]
    shuttle::check_random(scenario, 10);
}

#[test]
fn whoever_was_let_in_but_has_not_queued_yet_is_refused_after_close() {
    explore(|| {
        let disk = Disk::new();
        let pipeline = open_with(&disk, Limits::new(1, 1 << 20));
        let first = pipeline.submit(put(1));
        let mut waiting = pin!(pipeline.submit_async(put(2)));
        let mut cx = Context::from_waker(Waker::noop());
        let polled = waiting.as_mut().poll(&mut cx);
        first.wait().unwrap(); // lets the other in, which nobody polls meanwhile
        pipeline.close().unwrap();
        let Poll::Ready(ticket) = (match polled {
            Poll::Ready(ticket) => Poll::Ready(ticket),
            Poll::Pending => waiting.as_mut().poll(&mut cx),
        }) else {
            panic!("close left one in the line")
        };
        match ticket.wait() {
            Ok(_) => assert!(disk.durable().contains(&2)),
            Err(Failure::NotRun(NotRun::Closed)) => assert_eq!(disk.values(), [1]),
            Err(other) => panic!("{other:?}"),
        }
        assert_eq!(pipeline.stats().in_flight, 0, "a place was lost");
    });
}

#[test]
fn a_closed_pipeline_leaves_its_engine_alone() {
    explore(|| {
        let disk = Disk::new();
        let pipeline = open(&disk);
        pipeline.transact(put(1)).unwrap();
        let beside = pipeline.clone();
        let other = thread::spawn(move || beside.close().unwrap());
        pipeline.close().unwrap();
        pipeline.flush().unwrap();
        other.join().unwrap();
        assert_eq!(disk.durable(), [1]);
    });
}

#[test]
fn a_cancelled_transaction_is_called_so_even_past_its_deadline() {
    explore(|| {
        let pipeline = open(&Disk::new());
        let before = pipeline.submit(put(1));
        let terms = Terms::new().deadline(std::time::Duration::ZERO);
        let ticket = pipeline.with(terms).submit(put(2));
        let withdrawn = ticket.cancel();
        match ticket.wait() {
            Err(Failure::NotRun(NotRun::Cancelled)) => assert!(withdrawn),
            Err(Failure::NotRun(NotRun::DeadlinePassed)) => assert!(!withdrawn),
            other => panic!("{other:?}"),
        }
        before.wait().unwrap();
    });
}
