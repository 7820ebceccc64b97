//! Time comes in through a door, so that tests and simulations can hold it.

use std::{
    fmt,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// A monotonic clock.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Nanoseconds since an origin of the clock's own choice; never decreases.
    fn now_ns(&self) -> u64;

    /// Seconds since 1970, for what outlives the process.
    fn unix_s(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
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
