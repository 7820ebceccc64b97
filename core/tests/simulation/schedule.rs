//! The simulated scheduler and the simulated clock: which thread goes on, and how much time that
//! took, come from the seed alone.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use groupcommit_core::Clock;
use shuttle::{
    scheduler::{Schedule, Scheduler, Task, TaskId},
    thread,
};

/// A clock that advances only with the steps of the scheduler.
#[derive(Debug, Default)]
pub(crate) struct SimulatedClock {
    now_ns: AtomicU64,
    /// Every choice of the scheduler so far, in one number.
    choices: AtomicU64,
}

impl Clock for SimulatedClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }
}

impl SimulatedClock {
    /// Lets simulated time pass, in which the other threads go on.
    pub(crate) fn sleep(&self, duration_ns: u64) {
        let until_ns = self.now_ns() + duration_ns;
        while self.now_ns() < until_ns {
            thread::yield_now();
        }
    }

    /// A number that two runs share only if the scheduler chose alike in both.
    pub(crate) fn choices(&self) -> u64 {
        self.choices.load(Ordering::Relaxed)
    }
}

/// In which way the next thread is chosen.
#[derive(Debug)]
enum Way {
    /// Each with the same probability.
    Uniform,
    /// The same as long as it can, with rare switches.
    Sticky { switch_one_in: u32 },
    /// The one of the highest priority, with rare changes of priority: few, well placed preemptions
    /// (the idea of PCT: "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs",
    /// Burckhardt et al., ASPLOS 2010).
    Priorities { of_task: Vec<u64>, change_one_in: u32, lowest: u64 },
}

/// Schedules one run.
#[derive(Debug)]
pub(crate) struct Seeded {
    rng: fastrand::Rng,
    way: Way,
    step_ns_max: u64,
    clock: Arc<SimulatedClock>,
    begun: bool,
}

impl Seeded {
    pub(crate) fn new(seed: u64, clock: Arc<SimulatedClock>) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x5ced);
        let way = match rng.u8(0..3) {
            0 => Way::Uniform,
            1 => Way::Sticky { switch_one_in: rng.u32(2..30) },
            _ => Way::Priorities {
                of_task: Vec::new(),
                change_one_in: rng.u32(20..400),
                lowest: u64::MAX / 2,
            },
        };
        let step_ns_max = [100, 1_000, 10_000, 100_000][rng.usize(0..4)];
        Self { rng, way, step_ns_max, clock, begun: false }
    }

    fn choose(&mut self, runnable: &[usize], current: Option<usize>, yields: bool) -> usize {
        let Self { rng, way, .. } = self;
        match way {
            Way::Uniform => runnable[rng.usize(0..runnable.len())],
            Way::Sticky { switch_one_in } => match current.filter(|task| runnable.contains(task)) {
                Some(current) if !yields && rng.u32(0..*switch_one_in) > 0 => current,
                _ => runnable[rng.usize(0..runnable.len())],
            },
            Way::Priorities { of_task, change_one_in, lowest } => {
                let tasks = runnable.iter().copied().max().unwrap_or(0) + 1;
                while of_task.len() < tasks {
                    of_task.push(u64::MAX / 2 + rng.u64(0..u64::MAX / 4));
                }
                if let Some(current) = current.filter(|&current| current < of_task.len())
                    && (yields || rng.u32(0..*change_one_in) == 0)
                {
                    *lowest -= 1;
                    of_task[current] = *lowest;
                }
                let highest = runnable.iter().copied().max_by_key(|&task| of_task[task]);
                highest.unwrap_or(runnable[0])
            }
        }
    }
}

impl Scheduler for Seeded {
    fn new_execution(&mut self) -> Option<Schedule> {
        let first = !std::mem::replace(&mut self.begun, true);
        first.then(|| Schedule::new(0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        yields: bool,
    ) -> Option<TaskId> {
        let tasks: Vec<usize> = runnable.iter().map(|task| task.id().into()).collect();
        let chosen = self.choose(&tasks, current.map(Into::into), yields);
        // Whoever yields waits for time to pass; where nobody else can go on, it passes quickly.
        let waited_ns = match (yields, tasks.len()) {
            (true, 1) => 100_000,
            (true, _) => 20_000,
            (false, _) => 1,
        };
        let step_ns = self.rng.u64(0..self.step_ns_max) + self.rng.u64(0..waited_ns);
        self.clock.now_ns.fetch_add(step_ns, Ordering::Relaxed);
        let before = self.clock.choices();
        let mixed = (before.rotate_left(5) ^ chosen as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.clock.choices.store(mixed, Ordering::Relaxed);
        runnable.iter().map(|task| task.id()).find(|&task| usize::from(task) == chosen)
    }

    fn next_u64(&mut self) -> u64 {
        self.rng.u64(..)
    }
}
