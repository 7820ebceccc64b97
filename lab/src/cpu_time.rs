//! What was used while a clock ran: CPU time of the process, and of everybody else on the machine.

use std::fs;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// The kernel counts the machine's time in ticks of 10 ms; over less than this the share of others
/// would be noise.
const OTHERS_SECONDS_MIN: f64 = 0.2;

/// Ticks a second in `/proc/stat`: fixed for programs on every architecture of Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time of the process in user mode and in the kernel, in seconds, and cores used by others.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct CpuTime {
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
    /// Cores that others kept busy, on average; `None` where the system does not say.
    pub(crate) others_cores: Option<f64>,
}

/// Readings at the start.
#[derive(Debug)]
pub(crate) struct CpuMeter {
    began: Instant,
    process: (f64, f64),
    machine: Option<f64>,
}

impl CpuMeter {
    pub(crate) fn start() -> Self {
        Self { began: Instant::now(), process: process_seconds(), machine: machine_seconds() }
    }

    /// What was used since.
    pub(crate) fn stop(&self) -> CpuTime {
        let (user, system) = process_seconds();
        let (user_seconds, system_seconds) = (user - self.process.0, system - self.process.1);
        let elapsed = self.began.elapsed().as_secs_f64();
        let machine = self.machine.zip(machine_seconds()).map(|(before, after)| after - before);
        let others_cores = machine
            .filter(|_| elapsed >= OTHERS_SECONDS_MIN)
            .map(|machine| ((machine - user_seconds - system_seconds) / elapsed).max(0.0));
        CpuTime { user_seconds, system_seconds, others_cores }
    }
}

/// Of all threads together; zero where the system does not say.
fn process_seconds() -> (f64, f64) {
    getrusage(UsageWho::RUSAGE_SELF).map_or((0.0, 0.0), |usage| {
        (
            usage.user_time().num_microseconds() as f64 / 1e6,
            usage.system_time().num_microseconds() as f64 / 1e6,
        )
    })
}

/// Of all processes on all cores, with what a hypervisor took away.
fn machine_seconds() -> Option<f64> {
    busy_ticks(&fs::read_to_string("/proc/stat").ok()?).map(|ticks| ticks / TICKS_PER_SECOND)
}

/// user, nice, system, (not: idle, iowait), irq, softirq, steal of the first line.
fn busy_ticks(stat: &str) -> Option<f64> {
    let fields: Vec<f64> = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_ascii_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = *fields.get(..8)? else {
        return None;
    };
    Some(user + nice + system + irq + softirq + steal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_uses_cpu_time() {
        let meter = CpuMeter::start();
        let mut rounds = 0_u64;
        let used = loop {
            rounds = std::hint::black_box(rounds + 1);
            let used = meter.stop();
            if used.user_seconds + used.system_seconds > 0.001 || rounds == 1_000_000 {
                break used;
            }
        };
        assert!(used.user_seconds + used.system_seconds > 0.001);
    }

    #[test]
    fn idle_and_waiting_time_is_not_busy() {
        let stat = "cpu  1 2 4 1000 1000 8 16 32 7 7\ncpu0 9 9 9 9 9 9 9 9 9 9\n";
        assert_eq!(busy_ticks(stat), Some(63.0));
        assert_eq!(busy_ticks("intr 5"), None);
        assert_eq!(busy_ticks("cpu  1 2 3"), None);
    }
}
