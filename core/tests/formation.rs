//! Groups held open, the door for experiments: full groups go at once, what waits for company does
//! not keep a flush or a close from ending, and every promise holds all the same.

mod common;

use std::{sync::Arc, time::Duration};

use common::{Disk, Memory, explore, put};
use groupcommit_core::{Formation, Pipeline, Settings};

/// Longer than any test waits: only a full group, a barrier or an exclusive ends it.
const FOREVER: Duration = Duration::from_secs(100_000);

fn held(disk: &Arc<Disk>, transactions: usize, delay: Duration) -> Pipeline<Memory> {
    let formation = Formation::Fixed { transactions, delay };
    Pipeline::new(Memory(disk.clone()), Settings { formation, ..Settings::default() })
}

#[test]
fn a_full_group_goes_and_is_no_larger() {
    explore(|| {
        let disk = Disk::new();
        let pipeline = held(&disk, 3, FOREVER);
        let tickets: Vec<_> = (0..6).map(|value| pipeline.submit(put(value))).collect();
        for ticket in tickets {
            ticket.wait().expect("durable");
        }
        assert_eq!(disk.durable(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(pipeline.stats().commits, 2);
        pipeline.close().expect("closes");
    });
}

#[test]
fn a_group_that_never_fills_goes_with_a_barrier() {
    explore(|| {
        let disk = Disk::new();
        let pipeline = held(&disk, 1_000, FOREVER);
        let ticket = pipeline.submit(put(7));
        pipeline.flush().expect("flushes");
        assert!(ticket.is_resolved());
        drop(pipeline.submit(put(8)));
        pipeline.close().expect("closes");
        assert_eq!(disk.durable(), [7, 8]);
    });
}

/// The model checker has no time in which the delay could pass.
#[cfg(not(shuttle))]
#[test]
fn a_group_that_never_fills_goes_when_the_delay_is_over() {
    let disk = Disk::new();
    let pipeline = held(&disk, 1_000, Duration::from_millis(2));
    let began = std::time::Instant::now();
    pipeline.transact(put(7)).expect("durable");
    assert!(began.elapsed() >= Duration::from_millis(2));
    assert_eq!(disk.durable(), [7]);
    pipeline.close().expect("closes");
}
