//! Databases share threads: a slow transaction or a slow callback under some delays no other.

use crate::common::{Scratch, hold, insert};

#[test]
fn slow_transactions_of_some_databases_delay_no_other() {
    let slow: Vec<_> = (0..4).map(|_| Scratch::with_table()).collect();
    let held: Vec<_> = slow.iter().map(|scratch| hold(&scratch.db)).collect();
    let quick = Scratch::with_table();
    for id in 0..100 {
        // On the pool, and on the caller's own thread.
        quick.db.submit(move |tx| insert(tx, id)).wait().unwrap();
        quick.db.transact(move |tx| insert(tx, 1_000 + id)).unwrap();
    }
    assert_eq!(quick.ids().len(), 200);
    for held in held {
        assert!(!held.ticket.is_resolved(), "it was to last longer than all of the others");
        held.release().wait().unwrap();
    }
}

#[test]
fn callbacks_that_block_leave_threads_for_the_databases() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Arc::new(std::sync::Mutex::new(released));
    let slow: Vec<_> = (0..20).map(|_| Scratch::with_table()).collect();
    for scratch in &slow {
        let released = released.clone();
        scratch.db.submit_then(
            |tx| insert(tx, 1),
            move |_| {
                released.lock().unwrap().recv().ok();
            },
        );
    }
    let quick = Scratch::with_table();
    for id in 0..100 {
        quick.db.submit(move |tx| insert(tx, id)).wait().unwrap();
    }
    drop(release);
    for scratch in slow {
        scratch.db.close().unwrap();
    }
}
