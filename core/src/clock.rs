//! Time comes in through a door, so that tests and simulations can hold it.

use std::{fmt, time::Instant};

/// A monotonic clock.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Nanoseconds since an origin of the clock's own choice; never decreases.
    fn now_ns(&self) -> u64;
}

/// The machine's monotonic clock.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose origin is now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
