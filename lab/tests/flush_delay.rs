//! Delayed flushes: every flush of every condition takes longer, and nobody's are left out. In a
//! process of its own, since the delay is SQLite's default for the whole process.

use std::time::Duration;

use groupcommit_lab::Common;
use groupcommit_lab::condition::Condition;
use groupcommit_lab::report::text;
use groupcommit_lab::threads::{ThreadsOptions, run_threads};
use groupcommit_lab::write::{WriteOptions, run_write};

const DELAY: Duration = Duration::from_millis(3);
const DELAY_MS: f64 = 3.0;

/// Every row, also on a slow disk.
const NO_LIMIT: Duration = Duration::from_mins(10);

#[test]
fn no_durable_transaction_of_any_condition_is_faster_than_the_delay() {
    let folder = tempfile::tempdir().expect("a folder");
    let common = Common {
        repeats: 1,
        out: folder.path().to_owned(),
        flush_delays: vec![Duration::ZERO, DELAY],
        ..Common::default()
    };
    let write = WriteOptions {
        rows: 40,
        batches: vec![1],
        in_flight: vec![10],
        time_limit: NO_LIMIT,
        common: common.clone(),
        ..WriteOptions::default()
    };
    let threads = ThreadsOptions {
        threads: vec![3],
        rows: 40,
        time_limit: NO_LIMIT,
        common,
        ..ThreadsOptions::default()
    };
    let written = run_write(&write, |_| {}).expect("measures");
    let threaded = run_threads(&threads, |_| {}).expect("measures");
    assert_eq!(written.measurements.len(), 2 * Condition::ALL.len());
    assert_eq!(threaded.measurements.len(), 2 * Condition::THREADS.len());
    for measurement in written.measurements.iter().chain(&threaded.measurements) {
        let shortest_ms = measurement.latency_percentiles_ms[0].1;
        let condition = measurement.condition;
        assert_eq!(measurement.verified_rows, 40, "{condition}");
        assert_eq!(measurement.simulated, measurement.flush_delay_ms.is_some());
        if !measurement.durable {
            // Not a flush at a commit: the delay is of flushes and of nothing else.
            assert!(measurement.latency_ms.p50 < DELAY_MS, "{condition}");
        } else if measurement.simulated {
            assert_eq!(measurement.flush_delay_ms, Some(DELAY_MS));
            // The histogram keeps three digits.
            assert!(shortest_ms >= DELAY_MS * 0.999, "{condition}: {shortest_ms} ms");
        }
    }
    // A rollback journal flushes more than once a commit, and each of them takes longer.
    let default = written
        .measurements
        .iter()
        .find(|m| m.condition == Condition::Default && m.simulated)
        .expect("measured");
    assert!(default.latency_percentiles_ms[0].1 >= 2.0 * DELAY_MS * 0.999);
    assert!(text::run(&written).contains("Simulated disk: 3 ms"));
}
