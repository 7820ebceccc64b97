//! CPU time that the process has used, all its threads together.

use std::ops::Sub;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// CPU time in user mode and in the kernel, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct CpuTime {
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
}

impl CpuTime {
    /// What the process has used until now; zero where the system does not say.
    pub(crate) fn of_process() -> Self {
        getrusage(UsageWho::RUSAGE_SELF).map_or_else(
            |_| Self::default(),
            |usage| Self {
                user_seconds: usage.user_time().num_microseconds() as f64 / 1e6,
                system_seconds: usage.system_time().num_microseconds() as f64 / 1e6,
            },
        )
    }
}

impl Sub for CpuTime {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            user_seconds: self.user_seconds - before.user_seconds,
            system_seconds: self.system_seconds - before.system_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_uses_cpu_time() {
        let before = CpuTime::of_process();
        let mut rounds = 0_u64;
        let used = loop {
            rounds = std::hint::black_box(rounds + 1);
            let used = CpuTime::of_process() - before;
            if used.user_seconds + used.system_seconds > 0.001 || rounds == 10_000_000 {
                break used;
            }
        };
        assert!(used.user_seconds + used.system_seconds > 0.001);
    }
}
