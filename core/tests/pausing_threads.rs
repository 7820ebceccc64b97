//! Engines that pause before another attempt do not keep other pipelines from working, however many
//! they are. Alone in its program, because it uses up the pool.
#![cfg(not(shuttle))]

mod common;

use std::{
    sync::{Arc, Barrier},
    time::Duration,
};

use common::{Disk, open, put};
use groupcommit_core::{THREADS_MAX, sleep};

/// Long enough for anything that does not hang.
const FOREVER: Duration = Duration::from_secs(20);

#[test]
fn databases_that_pause_keep_no_other_from_working() {
    let all_inside = Arc::new(Barrier::new(THREADS_MAX));
    // Longer than this process lives; it does not wait for them.
    let pausing: Vec<_> = (0..THREADS_MAX)
        .map(|_| {
            let all_inside = all_inside.clone();
            open(&Disk::new()).submit(move |_: &mut common::Tx| {
                all_inside.wait(); // no thread of the pool is left
                sleep(Duration::MAX);
                Ok::<_, String>(())
            })
        })
        .collect();
    let mut ticket = open(&Disk::new()).submit(put(1));
    ticket.wait_timeout(FOREVER).expect("the pool is used up").unwrap();
    assert!(pausing.iter().all(|ticket| !ticket.is_resolved()));
}
