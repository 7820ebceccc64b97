//! Trying again, with pauses that grow.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use crate::{Error, Protocol, Purpose};

/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long to wait before the attempt after `attempts` failed ones, so that a server that is down or
/// busy is not asked without pause.
fn pause_after(attempts: u32) -> Duration {
    Duration::from_millis(5 << attempts.min(10)).min(PAUSE_MAX)
}

/// Waits before the attempt after `attempts` failed ones. Nothing else of the database could be done
/// meanwhile; other databases can, for a thread of the pool that waits so counts as none.
pub fn pause(attempts: u32) {
    groupcommit_core::sleep(pause_after(attempts));
}

/// Makes an attempt again and again, with pauses that grow, until it breaks off or nothing is left of
/// the time: at least once. It is told how much of the time is left, and continues with the reason
/// why it should be made again.
///
/// # Errors
///
/// The last reason, once the time is over.
pub fn insist<T, R>(
    within: Duration,
    mut attempt: impl FnMut(Duration) -> ControlFlow<T, R>,
) -> Result<T, R> {
    let began = Instant::now();
    let mut attempts = 0;
    loop {
        let reason = match attempt(within.saturating_sub(began.elapsed())) {
            ControlFlow::Break(end) => return Ok(end),
            ControlFlow::Continue(reason) => reason,
        };
        if began.elapsed() >= within {
            return Err(reason);
        }
        pause(attempts);
        attempts += 1;
    }
}

/// Connects, again and again, but no longer than `within`.
pub(crate) fn reconnect<P: Protocol>(
    protocol: &P,
    purpose: Purpose,
    within: Duration,
) -> Result<P::Session, Error<P>> {
    let connected = insist(within, |_| match protocol.connect(purpose) {
        // A replica may be about to be promoted.
        Err(error @ (Error::Connect { .. } | Error::ReadOnly(_))) => {
            tracing::debug!(%error, "no server can be reached that takes writes");
            ControlFlow::Continue(error)
        }
        other => ControlFlow::Break(other),
    });
    connected.unwrap_or_else(Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_second() {
        let pauses: Vec<Duration> = (0..40).map(pause_after).collect();
        assert_eq!(pauses[..3], [5, 10, 20].map(Duration::from_millis));
        assert!(pauses.is_sorted() && pauses[39] == PAUSE_MAX);
    }

    #[test]
    fn it_is_tried_once_without_time_and_until_it_breaks_off_with_it() {
        let mut count = 0;
        let mut third = |_| {
            count += 1;
            if count == 3 { ControlFlow::Break("done") } else { ControlFlow::Continue(count) }
        };
        assert_eq!(insist(Duration::ZERO, &mut third), Err(1));
        assert_eq!(insist(Duration::MAX, &mut third), Ok("done"));
    }
}
