//! An open loop: transactions arrive when they arrive, whether the answers keep up or not.
//!
//! 1. Arrivals are a Poisson process, generated ahead from a seed: the same for every setting.
//! 2. A latency counts from the *intended* arrival. When the callers are held up, by the lab or by
//!    a full admission, the wait is part of it: coordinated omission cannot hide anything.
//! 3. Two threads: one submits at the intended times, the other takes the answers in order, so that
//!    neither waits for the other.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::cpu_time::CpuMeter;
use crate::driver::{Completion, Driven};

/// Beyond the time of the last arrival, how much longer a run may submit what is late, as a share of
/// the whole.
const GRACE: f64 = 0.25;

/// Intended arrivals, in nanoseconds since the start, for `per_second` arrivals a second over
/// `span`, and `most` at most.
pub(crate) fn poisson_arrivals(
    per_second: f64,
    span: Duration,
    most: usize,
    seed: u64,
) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(seed.wrapping_add(3));
    let mut arrivals_ns = Vec::new();
    let (mut at_seconds, end_seconds) = (0.0, span.as_secs_f64());
    while arrivals_ns.len() < most {
        // The gaps of a Poisson process are distributed exponentially.
        at_seconds -= (1.0 - random.f64()).ln() / per_second;
        if at_seconds >= end_seconds {
            break;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "below the span, which is a duration"
        )]
        arrivals_ns.push((at_seconds * 1e9) as u64);
    }
    arrivals_ns
}

/// Submits the transaction of each arrival, by its number, when it is due, and awaits the tickets.
pub(crate) fn drive_open<T: Send, E: Send>(
    arrivals_ns: &[u64],
    span: Duration,
    submit: impl Fn(usize) -> T + Sync,
    wait: impl Fn(T) -> Result<(), E> + Sync,
) -> Result<Driven, E> {
    let deadline = span.mul_f64(1.0 + GRACE);
    let mut completions = Vec::with_capacity(arrivals_ns.len());
    let (tickets, submitted) = mpsc::channel::<(T, u64)>();
    let meter = CpuMeter::start();
    let start = Instant::now();
    let (outcome, unserved) = thread::scope(|scope| {
        let submitting = scope.spawn(|| {
            sleep_precisely();
            let tickets = tickets; // closed when this thread ends
            for (number, &arrival_ns) in arrivals_ns.iter().enumerate() {
                let now = sleep_until(start, Duration::from_nanos(arrival_ns));
                if now >= deadline || tickets.send((submit(number), arrival_ns)).is_err() {
                    return arrivals_ns.len() - number;
                }
            }
            0
        });
        let mut outcome = Ok(());
        for (ticket, arrival_ns) in submitted {
            outcome = wait(ticket);
            if outcome.is_err() {
                break; // and the thread that submits finds nobody to send to
            }
            let at_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let latency_ns = at_ns.saturating_sub(arrival_ns);
            completions.push(Completion { at_ns, latency_ns, rows: 1 });
        }
        let unserved = submitting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (outcome, unserved)
    });
    let cpu = meter.stop();
    outcome?;
    let elapsed_ns = completions.last().map_or(0, |last| last.at_ns);
    let unserved = Some(unserved as u64);
    Ok(Driven { completions, reads_ns: Vec::new(), elapsed_ns, unserved, cpu })
}

/// Sleeps until `at` since `start`, if that is yet to come; returns the time since `start`.
fn sleep_until(start: Instant, at: Duration) -> Duration {
    let now = start.elapsed();
    match at.checked_sub(now) {
        Some(left) if !left.is_zero() => {
            thread::sleep(left);
            start.elapsed()
        }
        _ => now,
    }
}

/// Asks the kernel not to gather this thread's timers, by which a sleep would last 50 µs longer.
/// Where it cannot, arrivals are later than intended, and the latencies say so.
fn sleep_precisely() {
    #[cfg(target_os = "linux")]
    let _refused = nix::sys::prctl::set_timerslack(1);
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const SPAN: Duration = Duration::from_millis(200);

    #[test]
    fn arrivals_are_a_poisson_process_of_the_rate_and_repeatable() {
        let (rate, span) = (10_000.0, Duration::from_secs(10));
        let arrivals_ns = poisson_arrivals(rate, span, usize::MAX, 1);
        assert_eq!(arrivals_ns, poisson_arrivals(rate, span, usize::MAX, 1));
        assert_ne!(arrivals_ns, poisson_arrivals(rate, span, usize::MAX, 2));
        assert!(arrivals_ns.is_sorted());
        // 100,000 expected, with a standard deviation of 316.
        assert!(arrivals_ns.len().abs_diff(100_000) < 1_600, "{}", arrivals_ns.len());
        // A share of 1/e of the gaps is longer than the mean.
        let long = arrivals_ns.windows(2).filter(|pair| pair[1] - pair[0] > 100_000).count();
        let share = long as f64 / arrivals_ns.len() as f64;
        assert!((share - (-1.0_f64).exp()).abs() < 0.01, "{share}");
        assert_eq!(poisson_arrivals(rate, span, 7, 1), arrivals_ns[..7]);
    }

    #[test]
    fn every_arrival_is_submitted_once_in_order_and_not_before_its_time() {
        let arrivals_ns = [0, 1_000_000, 1_000_000, 5_000_000];
        let start = Instant::now();
        let seen = Mutex::new(Vec::new());
        let submit = |number: usize| {
            assert!(start.elapsed() >= Duration::from_nanos(arrivals_ns[number]));
            seen.lock().expect("not poisoned").push(number);
        };
        let driven = drive_open(&arrivals_ns, Duration::from_mins(1), submit, |()| Ok::<_, ()>(()))
            .expect("no failure");
        assert_eq!(seen.into_inner().expect("not poisoned"), [0, 1, 2, 3]);
        assert_eq!((driven.completions.len(), driven.unserved), (4, Some(0)));
    }

    #[test]
    fn an_answer_that_comes_late_counts_from_the_intended_arrival() {
        // All are due at once, and each takes a millisecond to submit.
        let arrivals_ns = [0; 20];
        let submit = |_| thread::sleep(Duration::from_millis(1));
        let driven = drive_open(&arrivals_ns, Duration::from_mins(1), submit, |()| Ok::<_, ()>(()))
            .expect("no failure");
        let last = driven.completions.last().expect("answered");
        assert!(last.latency_ns >= 20_000_000, "{} ns", last.latency_ns);
    }

    #[test]
    fn what_cannot_be_submitted_in_time_is_counted_as_unserved() {
        // Submitting takes a tenth of the time there is; a sleep that is longer only lets fewer in.
        let arrivals_ns = [0; 1_000];
        let submit = |_| thread::sleep(SPAN / 10);
        let driven = drive_open(&arrivals_ns, SPAN, submit, |()| Ok::<_, ()>(())).expect("runs");
        let answered = driven.completions.len();
        assert!((1..=13).contains(&answered), "{answered}");
        assert_eq!(driven.unserved, Some(1_000 - answered as u64));
    }

    #[test]
    fn a_failure_ends_the_run_and_is_returned() {
        let arrivals_ns = vec![0; 100_000];
        let wait = |number| if number == 3 { Err("disk full") } else { Ok(()) };
        let error = drive_open(&arrivals_ns, SPAN, |number| number, wait).expect_err("fails");
        assert_eq!(error, "disk full");
    }
}
