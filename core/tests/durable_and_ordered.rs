//! Promises 1 and 2: a ticket resolves after a flush that began after its group's commit returned,
//! and tickets resolve in submission order.

mod common;

use std::sync::Arc;

use common::{Disk, explore, open, put, thread};

#[test]
fn a_resolved_ticket_is_durable() {
    explore(|| {
        let disk = Disk::new();
        let pipeline = open(&disk);
        let writers: Vec<_> = (0..2_u64)
            .map(|writer| {
                let (pipeline, disk) = (pipeline.clone(), disk.clone());
                thread::spawn(move || {
                    for n in 0..2 {
                        let value = writer * 10 + n;
                        let resolved = pipeline.submit(put(value)).wait();
                        assert_eq!(resolved.unwrap(), value);
                        assert!(disk.durable().contains(&value), "{value} is not durable");
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(disk.values().len(), 4);
    });
}

#[test]
fn a_blocking_caller_is_durable_beside_others() {
    explore(|| {
        let disk = Disk::new();
        let pipeline = open(&disk);
        let callers: Vec<_> = (0..3_u64)
            .map(|value| {
                let (pipeline, disk) = (pipeline.clone(), disk.clone());
                thread::spawn(move || {
                    pipeline.transact(put(value)).unwrap();
                    assert!(disk.durable().contains(&value), "{value} is not durable");
                })
            })
            .collect();
        for caller in callers {
            caller.join().unwrap();
        }
    });
}

#[test]
fn tickets_resolve_in_submission_order() {
    explore(|| {
        let disk = Disk::new();
        let pipeline = open(&disk);
        let tickets: Vec<_> = (0..4).map(|value| pipeline.submit(put(value))).collect();
        let tickets = Arc::new(tickets);
        let watcher = {
            let tickets = tickets.clone();
            thread::spawn(move || {
                for _ in 0..8 {
                    // From the last to the first: one found resolved implies all before it.
                    let resolved: Vec<bool> =
                        tickets.iter().rev().map(groupcommit_core::Ticket::is_resolved).collect();
                    let first = resolved.iter().position(|resolved| *resolved);
                    if let Some(first) = first {
                        assert!(resolved[first..].iter().all(|resolved| *resolved), "{resolved:?}");
                    }
                    thread::yield_now();
                }
            })
        };
        pipeline.flush().unwrap();
        assert!(tickets.iter().all(groupcommit_core::Ticket::is_resolved), "flush waits for all");
        watcher.join().unwrap();
        assert_eq!(disk.values(), [0, 1, 2, 3]);
    });
}

#[test]
fn an_exclusive_runs_between_groups_and_is_durable() {
    explore(|| {
        let disk = Disk::new();
        let pipeline = open(&disk);
        let before = pipeline.submit(put(1));
        let other = {
            let pipeline = pipeline.clone();
            thread::spawn(move || pipeline.transact(put(3)).unwrap())
        };
        let exclusive = pipeline.exclusive(|tx| {
            tx.put(2);
            Ok::<_, String>(())
        });
        exclusive.unwrap();
        assert!(before.is_resolved());
        assert!(disk.durable().contains(&2));
        other.join().unwrap();
        before.wait().unwrap();
    });
}

/// What was committed while a flush ran, in two groups: the next flush is theirs, and it resolves
/// them in the order of submission.
#[cfg(not(shuttle))]
#[test]
fn groups_committed_during_a_flush_wait_for_the_next_and_resolve_in_order() {
    use std::sync::{Mutex, mpsc};

    let disk = Disk::new();
    let pipeline = open(&disk);
    let (sender, calls) = mpsc::channel();
    let submit = {
        let (disk, pipeline) = (Arc::downgrade(&disk), Arc::downgrade(&pipeline));
        move |value| {
            let (sender, disk, pipeline) =
                (sender.clone(), disk.clone(), pipeline.upgrade().unwrap());
            pipeline.submit_then(put(value), move |result| {
                let durable = disk.upgrade().unwrap().durable();
                sender.send((result.unwrap(), durable.contains(&value))).unwrap();
            });
        }
    };
    let first = Mutex::new(Some((submit.clone(), Arc::downgrade(&disk))));
    let during_flush = move || {
        let Some((submit, disk)) = first.lock().unwrap().take() else { return };
        let disk = disk.upgrade().unwrap();
        // One group each; once the last is executed, those before are committed and handed on.
        for value in 2..5 {
            submit(value);
            while !disk.values().contains(&value) {
                thread::yield_now();
            }
        }
    };
    assert!(disk.during_flush.set(Box::new(during_flush)).is_ok());
    submit(1);
    let next = || calls.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
    let called: Vec<_> = (0..4).map(|_| next()).collect();
    assert_eq!(called, [(1, true), (2, true), (3, true), (4, true)]);
}
