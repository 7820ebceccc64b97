//! The write experiment as a program runs it: all conditions, a small workload, records checked.

use std::path::Path;

use groupcommit_lab::condition::Condition;
use groupcommit_lab::measurement::{Measurement, Results};
use groupcommit_lab::report::text;
use groupcommit_lab::write::WriteOptions;
use groupcommit_lab::{Event, parse, run};

const ROWS: usize = 2_000;

/// Every row, also on a slow disk.
fn options(out: &Path, others: &str) -> WriteOptions {
    let line = format!("--rows {ROWS} --batch 1,30 --in-flight 50 --seconds-limit 600 {others}");
    parse(&format!("{line} --out {}", out.display())).expect("parses")
}

fn check(measurement: &Measurement) {
    let condition = measurement.condition;
    assert_eq!((measurement.experiment.as_str(), measurement.engine.as_str()), ("write", "sqlite"));
    assert_eq!(measurement.rows, ROWS as u64, "{condition}");
    assert_eq!(measurement.verified_rows, ROWS as u64, "{condition}");
    assert_eq!(measurement.durable, condition != Condition::WalNormal);
    assert!(measurement.seconds > 0.0);
    let rows_per_second = measurement.rows as f64 / measurement.seconds;
    assert!((measurement.rows_per_second / rows_per_second - 1.0).abs() < 1e-9);
    let latency = measurement.latency_ms;
    let rising = [latency.p50, latency.p90, latency.p99, latency.p999, latency.max];
    assert!(rising.is_sorted() && rising[0] > 0.0, "{condition}: {rising:?}");
    assert!(latency.mean > 0.0 && latency.mean <= latency.max);
    let effective = measurement.rows_per_second / latency.mean;
    assert!((measurement.effective_throughput_1ms / effective - 1.0).abs() < 1e-9);
    let transactions = ROWS.div_ceil(measurement.batch) as f64;
    let interval = measurement.seconds * 1e3 / transactions;
    assert!((measurement.completion_interval_ms / interval - 1.0).abs() < 1e-9);
    assert!(measurement.cpu_user_seconds >= 0.0 && measurement.cpu_system_seconds >= 0.0);
    assert_eq!(measurement.progress.last().expect("a last point").rows, ROWS as u64);
    match condition {
        Condition::Default | Condition::Wal | Condition::WalNormal => {
            assert_eq!(measurement.flushes, None);
            assert!((measurement.group_transactions_mean - 1.0).abs() < f64::EPSILON);
        }
        _ => {
            let flushes = measurement.flushes.expect("counted");
            assert!(flushes > 0 && flushes as f64 <= transactions, "{flushes} flushes");
            assert!(measurement.group_transactions_mean >= 1.0);
        }
    }
}

#[test]
fn all_conditions_write_verify_and_record_every_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(folder.path(), "--repeat 2");
    let mut finished = 0;
    let results = run(&[&options], |event| {
        finished += usize::from(matches!(event, Event::Finished(_)));
    })
    .expect("measures");

    assert_eq!(results.measurements.len(), Condition::ALL.len() * 2 * 2);
    assert_eq!(finished, results.measurements.len());
    results.measurements.iter().for_each(check);

    // Repeats are interleaved: the second round repeats the settings of the first in the same
    // order.
    let setting = |m: &Measurement| (m.condition, m.batch, m.in_flight, m.threads);
    let (first, second) = results.measurements.split_at(results.measurements.len() / 2);
    assert!(first.iter().map(setting).eq(second.iter().map(setting)));
    assert!(first.iter().all(|m| m.repeat == 1) && second.iter().all(|m| m.repeat == 2));

    // Only the records stay, and the table can be made from them.
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("lists").count(),
        1,
        "the databases are removed"
    );
    let loaded = Results::load(folder.path()).expect("loads");
    assert!(loaded == results, "the records differ from what was measured");
    let table = text::run(&loaded);
    for condition in Condition::ALL {
        assert!(table.contains(condition.name()), "{table}");
    }
}

#[test]
fn several_threads_write_every_row_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(folder.path(), "--repeat 1 --threads 5");
    let results = run(&[&options], |_| {}).expect("measures");
    for measurement in &results.measurements {
        assert_eq!(measurement.threads, 5);
        assert_eq!(measurement.in_flight, if measurement.condition.is_async() { 50 } else { 5 });
        check(measurement);
    }
}

#[test]
fn databases_go_to_the_folder_named_for_them() {
    let (out, databases) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let others = "--repeat 1 --conditions wal-normal --dir";
    let options = options(out.path(), &format!("{others} {}", databases.path().display()));
    let mut folder = None;
    run(&[&options], |event| {
        if let Event::Prepared(environment, path) = event {
            assert!(path.is_dir());
            assert_eq!(environment.file_system.folder, path.canonicalize().expect("exists"));
            folder = Some(path.to_owned());
        }
    })
    .expect("measures");
    let folder = folder.expect("prepared");
    assert!(folder.starts_with(databases.path()));
    assert!(!folder.exists());
}
