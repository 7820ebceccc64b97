//! Delayed flushes: every flush of every condition takes longer, and nobody's are left out. In a
//! process of its own, since the delay is SQLite's default for the whole process.

use groupcommit_lab::condition::Condition;
use groupcommit_lab::report::text;
use groupcommit_lab::threads::ThreadsOptions;
use groupcommit_lab::write::WriteOptions;
use groupcommit_lab::{parse, run};

const DELAY_MS: f64 = 3.0;

#[test]
fn no_durable_transaction_of_any_condition_is_faster_than_the_delay() {
    let folder = tempfile::tempdir().expect("a folder");
    // Every row, also on a slow disk.
    let common = format!(
        "--rows 40 --repeat 1 --flush-delay 0,3 --seconds-limit 600 --out {}",
        folder.path().display()
    );
    let write: WriteOptions = parse(&format!("--batch 1 --in-flight 10 {common}")).expect("parses");
    let threads: ThreadsOptions = parse(&format!("--threads 3 {common}")).expect("parses");
    let written = run(&[&write], |_| {}).expect("measures");
    let threaded = run(&[&threads], |_| {}).expect("measures");
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
