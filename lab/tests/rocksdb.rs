//! The experiments on RocksDB: every condition writes what it acknowledges, and the records, tables and
//! report name the engine.

use std::time::Duration;

use groupcommit_lab::Common;
use groupcommit_lab::condition::Condition;
use groupcommit_lab::engine::Engine;
use groupcommit_lab::load::{LoadOptions, run_load};
use groupcommit_lab::mixed::{MixedOptions, run_mixed};
use groupcommit_lab::report::write_report;
use groupcommit_lab::table::tables;
use groupcommit_lab::threads::{ThreadsOptions, run_threads};
use groupcommit_lab::wal::{WalOptions, run_wal};
use groupcommit_lab::write::{WriteOptions, run_write};
use tempfile::TempDir;

fn common(folder: &TempDir) -> Common {
    Common {
        engine: Engine::Rocksdb,
        value_bytes: 100,
        repeats: 1,
        out: folder.path().to_owned(),
        ..Common::default()
    }
}

#[test]
fn every_condition_writes_and_the_report_names_the_engine() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = WriteOptions {
        rows: 3_000,
        batches: vec![1],
        in_flight: vec![200],
        conditions: Condition::of_write(Engine::Rocksdb).to_vec(),
        time_limit: Duration::from_millis(200),
        common: common(&folder),
        ..WriteOptions::default()
    };
    let results = run_write(&options, |_| {}).expect("measures");
    assert_eq!(results.measurements.len(), 7);
    for measurement in &results.measurements {
        assert_eq!(measurement.engine, "rocksdb");
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
    let text = tables(&results);
    assert!(text.contains("(rocksdb)") && text.contains("x sync"), "{text}");
    let out = tempfile::tempdir().expect("a folder");
    let report = write_report(&[folder.path().to_owned()], out.path()).expect("draws");
    let page = std::fs::read_to_string(report.page).expect("reads");
    assert!(page.contains("RocksDB on the disk as it is"), "the engine is not named");
    assert!(out.path().join("charts/write-over-time-1-rocksdb.svg").exists());
}

#[test]
fn mixed_threads_and_load_run_on_rocksdb() {
    let folder = tempfile::tempdir().expect("a folder");
    let time_limit = Duration::from_millis(100);
    let mixed = MixedOptions {
        rows: 500,
        operations: 1_000,
        in_flight: vec![100],
        conditions: Condition::of_mixed(Engine::Rocksdb).to_vec(),
        time_limit,
        common: common(&folder),
    };
    let results = run_mixed(&mixed, |_| {}).expect("measures, and every row is as it should be");
    assert_eq!(results.measurements.len(), 3);
    let threads = ThreadsOptions {
        threads: vec![1, 8],
        rows: 5_000,
        time_limit,
        conditions: Condition::of_threads(Engine::Rocksdb).to_vec(),
        common: common(&folder),
    };
    assert_eq!(run_threads(&threads, |_| {}).expect("measures").measurements.len(), 4);
    let load = LoadOptions {
        in_flight: vec![1, 64],
        shares: vec![0.5],
        sizes: vec![8],
        delays: vec![],
        rows: 5_000,
        time_limit,
        common: common(&folder),
    };
    let results = run_load(&load, |_| {}).expect("measures");
    assert_eq!(results.measurements.len(), 4 + 2);
    assert!(results.measurements.iter().all(|m| m.engine == "rocksdb"));
}

#[test]
fn conditions_of_another_engine_and_delays_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |change: fn(&mut WriteOptions)| {
        let mut options = WriteOptions {
            conditions: Condition::of_write(Engine::Rocksdb).to_vec(),
            common: common(&folder),
            ..WriteOptions::default()
        };
        change(&mut options);
        run_write(&options, |_| {}).expect_err("refused").to_string()
    };
    let error = refused(|options| options.conditions = vec![Condition::Wal]);
    assert!(error.contains("wal is not a condition") && error.contains("sync-threads"), "{error}");
    let error = refused(|options| options.common.flush_delays = vec![Duration::from_millis(1)]);
    assert!(error.contains("RocksDB"), "{error}");
}

#[test]
fn the_price_of_the_log_is_recorded_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = WalOptions {
        rows: 5_000,
        time_limit: Duration::from_millis(300),
        common: common(&folder),
        ..WalOptions::default()
    };
    let results = run_wal(&options, |_| {}).expect("measures, and every entry is as it should be");
    assert_eq!(results.measurements.len(), 4 * 3);
    for measurement in &results.measurements {
        let wal = measurement.wal.expect("counted");
        let of = |name: &str| measurement.condition.name() == name;
        let reads = measurement.setting.as_deref() == Some("readrandom");
        assert_eq!(wal.user_bytes, measurement.rows * 116);
        assert_eq!(wal.space_amplification.is_none(), reads);
        assert_eq!(wal.log_bytes > 0, !reads && !of("no-wal"), "{}", measurement.condition);
        if !reads {
            assert!(wal.flush_bytes > 0 && wal.table_file_bytes > 0 && wal.live_bytes > 0);
            let log = wal.write_amplification > wal.table_write_amplification;
            assert_eq!(log, !of("no-wal"));
        }
        assert_eq!(wal.log_flush_seconds > 0.0, !reads && (of("wal-sync") || of("groupcommit")));
    }
    let text = tables(&results);
    assert!(text.contains("x no-wal") && text.contains("fillrandom"), "{text}");
    let out = tempfile::tempdir().expect("a folder");
    let report = write_report(&[folder.path().to_owned()], out.path()).expect("draws");
    let page = std::fs::read_to_string(report.page).expect("reads");
    assert!(
        page.contains("180.22") && page.contains("groupcommit made"),
        "the figures are missing"
    );
    assert!(out.path().join("charts/wal-throughput-rocksdb.svg").exists());
}
