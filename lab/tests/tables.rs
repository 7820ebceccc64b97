//! The mixed task, the threads experiment and the large table as a program runs them, with their records checked.

use groupcommit_lab::condition::Condition;
use groupcommit_lab::large::LargeOptions;
use groupcommit_lab::measurement::Results;
use groupcommit_lab::mixed::MixedOptions;
use groupcommit_lab::report::text;
use groupcommit_lab::threads::ThreadsOptions;
use groupcommit_lab::{parse, run};

#[test]
fn every_condition_carries_out_the_same_operations() {
    let folder = tempfile::tempdir().expect("a folder");
    let options: MixedOptions = parse(&format!(
        "--rows 500 --operations 1001 --in-flight 20 --seconds-limit 600 --repeat 1 --out {}",
        folder.path().display()
    ))
    .expect("parses");
    let results = run(&[&options], |_| {}).expect("measures and verifies");
    assert_eq!(results.measurements.len(), Condition::ALL.len());
    for measurement in &results.measurements {
        let condition = measurement.condition;
        assert_eq!(measurement.experiment, "mixed");
        assert_eq!((measurement.rows, measurement.operations), (500, Some(1_001)), "{condition}");
        let reads = measurement.read_latency_ms.expect("reads");
        assert!(reads.p50 > 0.0 && measurement.latency_ms.p50 > 0.0, "{condition}");
        let operations_per_second = measurement.operations_per_second.expect("operations");
        assert!((operations_per_second * measurement.seconds / 1_001.0 - 1.0).abs() < 1e-9);
        assert!(!measurement.simulated);
        // The same writes upon the same rows leave equally many, whoever committed them.
        assert_eq!(measurement.verified_rows, results.measurements[0].verified_rows);
        assert!(measurement.verified_rows > 500);
    }
    assert_eq!(results, Results::load(folder.path()).expect("loads"));
    assert!(text::run(&results).contains("groupcommit-async"));
}

#[test]
fn threads_insert_every_document_once_under_each_condition() {
    let folder = tempfile::tempdir().expect("a folder");
    let options: ThreadsOptions = parse(&format!(
        "--threads 1,6 --rows 600 --seconds-limit 600 --repeat 1 --out {}",
        folder.path().display()
    ))
    .expect("parses");
    let results = run(&[&options], |_| {}).expect("measures and verifies");
    assert_eq!(results.measurements.len(), 2 * Condition::THREADS.len());
    for measurement in &results.measurements {
        assert_eq!((measurement.rows, measurement.verified_rows), (600, 600));
        assert_eq!(measurement.threads, measurement.in_flight);
        assert_eq!(measurement.flushes.is_some(), measurement.condition == Condition::Merged);
        assert!(measurement.durable);
    }
    let text = text::run(&results);
    assert!(Condition::THREADS.iter().all(|condition| text.contains(condition.name())), "{text}");
}

#[test]
fn a_large_table_is_written_read_and_checked_under_each_condition() {
    let folder = tempfile::tempdir().expect("a folder");
    let options: LargeOptions = parse(&format!(
        "--rows 5000 --batch 50 --in-flight 20 --readers 1 --long-reader --index --seconds-limit 0.3 --repeat 1 \
         --value-bytes 100 --out {}",
        folder.path().display()
    ))
    .expect("parses");
    let results = run(&[&options], |_| {}).expect("measures and verifies");
    assert_eq!(results.measurements.len(), 2 * 3);
    for measurement in &results.measurements {
        let large = measurement.large.as_ref().expect("figures");
        assert_eq!((large.rows, large.long_reader, large.index), (5_000, true, true));
        assert!(measurement.rows > 0 && large.log_bytes_max > 0);
        assert!(large.reads_per_second.is_some_and(|reads| reads > 0.0));
        let is_grouped = measurement.condition.is_grouped();
        assert_eq!(large.opening_seconds.is_some(), is_grouped);
    }
    assert!(text::run(&results).contains("Uniform keys, 5,000 rows in the table"));
}
