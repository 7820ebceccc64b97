//! The experiments on RocksDB: the cases of every key-value engine, and the price of the log.

mod keyed;

use groupcommit_lab::engine::Engine;
use groupcommit_lab::report::{load_all, text, write_page};
use groupcommit_lab::wal::WalOptions;
use groupcommit_lab::{parse, run};

keyed_cases!(Engine::Rocksdb);

#[test]
fn the_price_of_the_log_is_recorded_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let options: WalOptions = parse(&format!(
        "--rows 5000 --seconds-limit 0.3 --repeat 1 --out {}",
        folder.path().display()
    ))
    .expect("parses");
    let results = run(&[&options], |_| {}).expect("measures, and every entry is as it should be");
    assert_eq!(results.measurements.len(), 4 * 3);
    let of_reads =
        |m: &&groupcommit_lab::measurement::Measurement| m.setting.as_deref() == Some("readrandom");
    let first = results.measurements.iter().find(of_reads).expect("measured");
    let reads_among = first.wal.expect("counted").live_bytes / 116;
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
        if reads {
            // Also where the time limit kept entries out of what was filled.
            assert_eq!(wal.live_bytes, reads_among * 116, "{}", measurement.condition);
        }
        assert_eq!(wal.log_flush_seconds > 0.0, !reads && (of("wal-sync") || of("groupcommit")));
    }
    let text = text::run(&results);
    assert!(text.contains("no-wal") && text.contains("fillrandom"), "{text}");
    let out = tempfile::tempdir().expect("a folder");
    let runs = load_all(&[folder.path().to_owned()]).expect("reads");
    let page = write_page(&runs, out.path()).expect("draws");
    let page = std::fs::read_to_string(page).expect("reads");
    assert!(
        page.contains("180.22") && page.contains("groupcommit made"),
        "the figures are missing"
    );
    assert!(out.path().join("charts/wal-throughput-rocksdb.svg").exists());
}
