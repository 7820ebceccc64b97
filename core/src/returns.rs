//! Whether the next flush waits for those whose tickets the last one resolved. Pure: time comes in
//! as arguments.
//!
//! Callers in a closed loop submit again as soon as they are answered. If the device is taken the
//! moment it is free, the few who are back first, or a group that was committed meanwhile, take it,
//! and all the others wait for that flush before their own begins: the callers stay split into two
//! halves, each of which waits for two flushes instead of one. So where most of those answered
//! were seen to come back within a small part of the time that a flush takes, the next flush lets
//! them in first. It waits for nobody else, and never longer than [`Returns::window_ns`] twice, so
//! a flush begins late by half of its own length at most.
//!
//! Nothing has to be set: both the length of a flush and the share of those who come back are
//! measured. Callers who do not come back (arrivals that depend on nobody's answer) keep the share
//! low, and a device whose flush is about as short as waking a thread has no window; for both the
//! device is taken the moment it is free. Waiting for others who are about to commit is old: see
//! `commit_delay` and `commit_siblings` in PostgreSQL, where both are set by hand.

use std::time::Duration;

/// A shorter window is not worth the wait: a thread that sleeps may be woken later than that.
const WINDOW_NS_MIN: u64 = 50_000;

/// The part of a flush within which those answered are expected back.
const WINDOWS_PER_FLUSH: u64 = 4;

/// Once this share of those expected is back, the flush waits for others only as long as they come
/// one upon the other.
const ENOUGH: f64 = 7.0 / 8.0;

/// The part of the window after which nobody comes one upon the other any more.
const GAPS_PER_WINDOW: u64 = 8;

/// What is known of those who come back.
#[derive(Debug, Default)]
pub(crate) struct Returns {
    /// What a flush takes: a moving average.
    flush_ns: u64,
    /// How many of those resolved by a flush, per one, submit again within the window: a moving
    /// average.
    share: f64,
    /// When the last flush resolved its tickets.
    resolved_ns: u64,
    /// How many it resolved.
    resolved: u64,
    /// How many were submitted within the window since.
    returned: u64,
    /// When the last of them was.
    returned_ns: u64,
}

impl Returns {
    /// How long after the resolution those resolved are expected back.
    fn window_ns(&self) -> u64 {
        self.flush_ns / WINDOWS_PER_FLUSH
    }

    /// A transaction was submitted.
    pub(crate) fn submitted(&mut self, at_ns: u64) {
        if at_ns.saturating_sub(self.resolved_ns) <= self.window_ns() {
            self.returned += 1;
            self.returned_ns = at_ns;
        }
    }

    /// A flush that took `flush_ns`, if there was one, has resolved so many transactions.
    pub(crate) fn resolved(&mut self, at_ns: u64, transactions: u64, flush_ns: Option<u64>) {
        if self.resolved > 0 {
            let share = (self.returned as f64 / self.resolved as f64).min(1.0);
            self.share += (share - self.share) / 4.0;
        }
        if let Some(flush_ns) = flush_ns {
            self.flush_ns = if self.flush_ns == 0 {
                flush_ns
            } else {
                self.flush_ns - self.flush_ns / 8 + flush_ns / 8
            };
        }
        self.resolved_ns = at_ns;
        self.resolved = transactions;
        self.returned = 0;
    }

    /// How much longer the next flush waits at most; `executing` says that submitted transactions
    /// are on their way to their commit.
    pub(crate) fn wait(&self, now_ns: u64, executing: bool, executed_ns: u64) -> Option<Duration> {
        let window_ns = self.window_ns();
        if window_ns < WINDOW_NS_MIN || self.share < 0.5 || executed_ns > 2 * window_ns {
            return None;
        }
        let enough = self.returned as f64 >= ENOUGH * self.share * self.resolved as f64;
        let until_ns = if executing {
            self.resolved_ns + 2 * window_ns
        } else if self.returned >= self.resolved {
            return None;
        } else if enough {
            let gap_ns = window_ns / GAPS_PER_WINDOW;
            (self.returned_ns + gap_ns).min(self.resolved_ns + window_ns)
        } else {
            self.resolved_ns + window_ns
        };
        until_ns.checked_sub(now_ns).filter(|&left_ns| left_ns > 0).map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLUSH_NS: u64 = 1_000_000;
    const WINDOW_NS: u64 = FLUSH_NS / WINDOWS_PER_FLUSH;

    /// After many flushes, each of which resolved 100, of whom so many were back `after_ns` later.
    fn after(back: u64, after_ns: u64, flush_ns: u64) -> (Returns, u64) {
        let mut returns = Returns::default();
        let mut now_ns = 0;
        for _ in 0..50 {
            now_ns += flush_ns;
            returns.resolved(now_ns, 100, Some(flush_ns));
            (0..back).for_each(|_| returns.submitted(now_ns + after_ns));
        }
        returns.resolved(now_ns + flush_ns, 100, Some(flush_ns));
        (returns, now_ns + flush_ns)
    }

    #[test]
    fn those_who_always_come_back_are_waited_for_until_they_are_there() {
        let (mut returns, now_ns) = after(100, 1_000, FLUSH_NS);
        let left = returns.wait(now_ns, false, 0).expect("nobody is back yet");
        assert_eq!(left, Duration::from_nanos(returns.window_ns()));
        assert!(left.as_nanos() <= u128::from(WINDOW_NS));
        (0..86).for_each(|_| returns.submitted(now_ns + 1_000));
        assert!(returns.wait(now_ns + 2_000, true, 0).is_some(), "not enough are back");
        assert!(returns.wait(now_ns + 2_000, false, 0).is_some(), "not enough are back");
        (0..13).for_each(|_| returns.submitted(now_ns + 3_000));
        let left = returns.wait(now_ns + 4_000, false, 0).expect("the last may be on its way");
        assert!(u128::from(WINDOW_NS / GAPS_PER_WINDOW) >= left.as_nanos(), "{left:?}");
        assert_eq!(returns.wait(now_ns + 3_000 + WINDOW_NS / GAPS_PER_WINDOW, false, 0), None);
        returns.submitted(now_ns + 5_000);
        assert!(returns.wait(now_ns + 6_000, true, 0).is_some(), "all, but not yet committed");
        assert_eq!(returns.wait(now_ns + 6_000, false, 0), None);
    }

    #[test]
    fn a_flush_begins_late_by_half_of_its_length_at_most() {
        let (returns, now_ns) = after(100, 1_000, FLUSH_NS);
        assert_eq!(returns.wait(now_ns + WINDOW_NS, false, 0), None);
        assert!(returns.wait(now_ns + WINDOW_NS, true, 0).is_some());
        assert_eq!(returns.wait(now_ns + FLUSH_NS / 2, true, 0), None);
    }

    #[test]
    fn nobody_waits_for_callers_who_do_not_come_back() {
        let (returns, now_ns) = after(100, WINDOW_NS + 1_000, FLUSH_NS);
        assert_eq!(returns.wait(now_ns, true, 0), None, "they come back too late");
        let (returns, now_ns) = after(49, 1_000, FLUSH_NS);
        assert_eq!(returns.wait(now_ns, true, 0), None, "most do not come back");
        assert_eq!(Returns::default().wait(0, true, 0), None, "nothing is known yet");
    }

    #[test]
    fn a_fast_device_is_not_kept_waiting() {
        let (returns, now_ns) = after(100, 1_000, WINDOW_NS_MIN * WINDOWS_PER_FLUSH / 2);
        assert_eq!(returns.wait(now_ns, true, 0), None);
    }

    #[test]
    fn where_execution_is_what_takes_time_the_device_is_not_kept_waiting() {
        let (returns, now_ns) = after(100, 1_000, FLUSH_NS);
        assert!(returns.wait(now_ns, true, FLUSH_NS / 3).is_some());
        assert_eq!(returns.wait(now_ns, true, FLUSH_NS * 2 / 3), None);
    }

    #[test]
    fn what_was_learnt_is_forgotten_when_the_callers_change() {
        let (mut returns, mut now_ns) = after(100, 1_000, FLUSH_NS);
        for _ in 0..4 {
            now_ns += FLUSH_NS;
            returns.resolved(now_ns, 100, Some(FLUSH_NS));
        }
        assert_eq!(returns.wait(now_ns, true, 0), None);
    }
}
