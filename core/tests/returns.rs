//! A flush that waits for those whom the last one answered: how long, and that nothing hangs.

mod common;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use common::{Disk, Memory, explore, put};
use groupcommit_core::{Clock, Pipeline, Settings, Spawn, Task};

const FLUSH_NS: u64 = 1_000_000;

/// A clock that goes on a little whenever it is read.
#[derive(Debug, Default)]
struct Ticking(AtomicU64);

impl Ticking {
    fn pass(&self, ns: u64) -> u64 {
        self.0.fetch_add(ns, Ordering::Relaxed) + ns
    }
}

impl Clock for Ticking {
    fn now_ns(&self) -> u64 {
        self.pass(10_000)
    }
}

/// Tasks wait until the test runs them, on its own thread.
#[derive(Default)]
struct ByHand(Mutex<VecDeque<Task>>);

impl std::fmt::Debug for ByHand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ByHand")
    }
}

impl ByHand {
    fn run(&self) {
        loop {
            let task = self.0.lock().expect("no task panics under the lock").pop_front();
            let Some(task) = task else { return };
            task();
        }
    }
}

impl Spawn for ByHand {
    fn spawn(&self, task: Task) {
        self.0.lock().expect("no task panics under the lock").push_back(task);
    }

    fn spawn_callback(&self, callback: Task) {
        self.spawn(callback);
    }

    fn is_crowded(&self) -> bool {
        false
    }
}

/// When the last flush began.
struct Flushes {
    clock: Arc<Ticking>,
    began_ns: Arc<AtomicU64>,
}

fn disk_with_slow_flushes() -> (Arc<Disk>, Flushes) {
    let disk = Disk::new();
    let clock = Arc::new(Ticking::default());
    let began_ns = Arc::new(AtomicU64::new(0));
    let (passing, began) = (clock.clone(), began_ns.clone());
    let during_flush = move || {
        began.store(passing.pass(0), Ordering::Relaxed);
        passing.pass(FLUSH_NS);
    };
    assert!(disk.during_flush.set(Box::new(during_flush)).is_ok());
    (disk, Flushes { clock, began_ns })
}

#[cfg(not(shuttle))]
#[test]
fn a_flush_waits_for_those_who_usually_come_back_and_not_for_long() {
    let (disk, flushes) = disk_with_slow_flushes();
    let spawn = Arc::new(ByHand::default());
    let settings =
        Settings { clock: flushes.clock.clone(), spawn: spawn.clone(), ..Settings::default() };
    let pipeline = Pipeline::new(Memory(disk), settings);
    let round = |callers: u64| {
        let answered_ns = flushes.clock.pass(0);
        let tickets: Vec<_> = (0..callers).map(|value| pipeline.submit(put(value))).collect();
        spawn.run();
        tickets.into_iter().for_each(|ticket| {
            ticket.wait().expect("nothing fails here");
        });
        flushes.began_ns.load(Ordering::Relaxed) - answered_ns
    };

    let first_ns = round(8);
    assert!(first_ns < FLUSH_NS / 4, "nothing is known, but it waited: {first_ns} ns");
    for _ in 0..20 {
        round(8);
    }
    let all_back_ns = round(8);
    assert!(all_back_ns < FLUSH_NS / 4, "all are there, but it waited: {all_back_ns} ns");
    let one_back_ns = round(1);
    assert!(
        (FLUSH_NS / 5..FLUSH_NS / 2).contains(&one_back_ns),
        "seven are missing, and it began after {one_back_ns} ns"
    );

    // They now come when a flush has long ended, as callers do who wait for nobody.
    for _ in 0..10 {
        flushes.clock.pass(FLUSH_NS);
        round(8);
    }
    flushes.clock.pass(FLUSH_NS);
    let strangers_ns = round(1);
    assert!(strangers_ns < FLUSH_NS / 4, "nobody is expected, but it waited: {strangers_ns} ns");
}

#[test]
fn callers_who_come_back_at_once_are_all_answered() {
    explore(|| {
        let (disk, flushes) = disk_with_slow_flushes();
        let settings = Settings { clock: flushes.clock, ..Settings::default() };
        let pipeline = Arc::new(Pipeline::new(Memory(disk.clone()), settings));
        let callers: Vec<_> = (0..2)
            .map(|caller| {
                let pipeline = pipeline.clone();
                common::thread::spawn(move || {
                    for round in 0..6 {
                        let value = caller * 100 + round;
                        let answer = pipeline.submit(put(value)).wait();
                        assert_eq!(answer.expect("nothing fails here"), value);
                    }
                })
            })
            .collect();
        callers.into_iter().for_each(|caller| caller.join().expect("a caller was answered"));
        pipeline.close().expect("nothing failed");
        assert_eq!(disk.durable().len(), 12);
    });
}
