//! The experiments on a key-value engine, the same for each: every condition writes what it
//! acknowledges, and the records, tables and report name the engine.
#![expect(unreachable_pub, reason = "each test file is a crate that includes it")]

use std::time::Duration;

use groupcommit_lab::Common;
use groupcommit_lab::condition::Condition;
use groupcommit_lab::engine::Engine;
use groupcommit_lab::load::{LoadOptions, run_load};
use groupcommit_lab::mixed::{MixedOptions, run_mixed};
use groupcommit_lab::report::{load_all, text, write_page};
use groupcommit_lab::threads::{ThreadsOptions, run_threads};
use groupcommit_lab::write::{WriteOptions, run_write};
use tempfile::TempDir;

pub fn common(engine: Engine, folder: &TempDir) -> Common {
    Common {
        engine,
        value_bytes: 100,
        repeats: 1,
        out: folder.path().to_owned(),
        ..Common::default()
    }
}

pub fn every_condition_writes_and_the_report_names_the_engine(engine: Engine) {
    let folder = tempfile::tempdir().expect("a folder");
    let options = WriteOptions {
        rows: 3_000,
        batches: vec![1],
        in_flight: vec![200],
        conditions: Condition::of_write(engine).to_vec(),
        time_limit: Duration::from_millis(200),
        common: common(engine, &folder),
        ..WriteOptions::default()
    };
    let results = run_write(&options, |_| {}).expect("measures");
    assert_eq!(results.measurements.len(), Condition::of_write(engine).len());
    for measurement in &results.measurements {
        assert_eq!(measurement.engine, engine.name());
        assert_eq!(measurement.durable, measurement.condition.is_durable());
        assert!(measurement.rows > 0);
        assert_eq!(measurement.rows, measurement.verified_rows);
        assert_eq!(measurement.flushes.is_some(), measurement.condition.is_grouped());
    }
    let find = |condition: Condition| {
        results.measurements.iter().find(|m| m.condition == condition).expect("measured")
    };
    assert_eq!(find(Condition::SyncThreads).threads, Condition::SYNC_THREADS);
    assert_eq!(find(Condition::Batched).batch, Condition::BATCHED_ROWS);
    let text = text::run(&results);
    assert!(text.contains(engine.title()) && text.contains("× sync:"), "{text}");
    let out = tempfile::tempdir().expect("a folder");
    let runs = load_all(&[folder.path().to_owned()]).expect("reads");
    let page = write_page(&runs, out.path()).expect("draws");
    let page = std::fs::read_to_string(page).expect("reads");
    assert!(page.contains(&format!("plain {}", engine.title())), "the engine is not named");
    let chart = format!("charts/write-effective-throughput-1-{engine}.svg");
    assert!(out.path().join(chart).exists());
}

pub fn mixed_threads_and_load_run(engine: Engine) {
    let folder = tempfile::tempdir().expect("a folder");
    let time_limit = Duration::from_millis(100);
    let mixed = MixedOptions {
        rows: 500,
        operations: 1_000,
        in_flight: vec![100],
        conditions: Condition::of_mixed(engine).to_vec(),
        time_limit,
        common: common(engine, &folder),
    };
    let results = run_mixed(&mixed, |_| {}).expect("measures, and every row is as it should be");
    assert_eq!(results.measurements.len(), 3);
    let threads = ThreadsOptions {
        threads: vec![1, 8],
        rows: 5_000,
        time_limit,
        conditions: Condition::of_threads(engine).to_vec(),
        common: common(engine, &folder),
    };
    assert_eq!(run_threads(&threads, |_| {}).expect("measures").measurements.len(), 4);
    let load = LoadOptions {
        in_flight: vec![1, 64],
        shares: vec![0.5],
        sizes: vec![8],
        delays: vec![],
        rows: 5_000,
        time_limit,
        common: common(engine, &folder),
    };
    let results = run_load(&load, |_| {}).expect("measures");
    assert_eq!(results.measurements.len(), 4 + 2);
    assert!(results.measurements.iter().all(|m| m.engine == engine.name()));
}

pub fn conditions_of_another_engine_and_delays_that_cannot_be_are_refused(engine: Engine) {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |change: fn(&mut WriteOptions)| {
        let mut options = WriteOptions {
            conditions: Condition::of_write(engine).to_vec(),
            common: common(engine, &folder),
            ..WriteOptions::default()
        };
        change(&mut options);
        run_write(&options, |_| {}).expect_err("refused").to_string()
    };
    let error = refused(|options| options.conditions = vec![Condition::Wal]);
    assert!(error.contains("wal is not a condition") && error.contains("sync-threads"), "{error}");
    let error = refused(|options| options.common.flush_delays = vec![Duration::from_millis(1)]);
    assert!(error.contains(engine.title()), "{error}");
}

/// Turns every case into a test of the engine.
#[macro_export]
macro_rules! keyed_cases {
    ($engine:expr) => {
        $crate::keyed_cases!(@ $engine;
            every_condition_writes_and_the_report_names_the_engine,
            mixed_threads_and_load_run,
            conditions_of_another_engine_and_delays_that_cannot_be_are_refused,
        );
    };
    (@ $engine:expr; $($case:ident),+ $(,)?) => {
        $(
            #[test]
            fn $case() {
                $crate::keyed::$case($engine);
            }
        )+
    };
}
