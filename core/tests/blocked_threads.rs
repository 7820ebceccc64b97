//! Transactions that wait for another pipeline do not keep it from working, however many they are.
//! Alone in its program, because it uses up the pool.
#![cfg(not(shuttle))]

mod common;

use std::{
    sync::{Arc, Barrier},
    time::Duration,
};

use common::{Disk, open, put};
use groupcommit_core::THREADS_MAX;

/// Long enough for anything that does not hang.
const FOREVER: Duration = Duration::from_secs(20);

#[test]
fn transactions_of_many_pipelines_that_wait_for_one() {
    let shared = open(&Disk::new());
    let many = THREADS_MAX;
    let all_inside = Arc::new(Barrier::new(many));
    let outer: Vec<_> = (0..many as u64)
        .map(|value| {
            let (shared, all_inside) = (shared.clone(), all_inside.clone());
            let pipeline = open(&Disk::new());
            pipeline.submit(move |_: &mut common::Tx| {
                all_inside.wait(); // no thread of the pool is left
                let ticket = shared.submit(put(value));
                ticket.wait().map_err(|failure| failure.to_string())
            })
        })
        .collect();
    for mut ticket in outer {
        ticket.wait_timeout(FOREVER).expect("the pool is used up").unwrap();
    }
}
