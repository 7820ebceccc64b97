//! The experiments on a key-value engine, the same for each: every condition writes what it
//! acknowledges, and the records, tables and report name the engine.
#![expect(unreachable_pub, reason = "each test file is a crate that includes it")]

use groupcommit_lab::condition::Condition;
use groupcommit_lab::engine::Engine;
use groupcommit_lab::load::LoadOptions;
use groupcommit_lab::mixed::MixedOptions;
use groupcommit_lab::report::{load_all, text, write_page};
use groupcommit_lab::threads::ThreadsOptions;
use groupcommit_lab::write::WriteOptions;
use groupcommit_lab::{parse, run};
use tempfile::TempDir;

fn common(engine: Engine, folder: &TempDir) -> String {
    format!("--engine {engine} --value-bytes 100 --repeat 1 --out {}", folder.path().display())
}

pub fn every_condition_writes_and_the_report_names_the_engine(engine: Engine) {
    let folder = tempfile::tempdir().expect("a folder");
    let common = common(engine, &folder);
    let options: WriteOptions =
        parse(&format!("--rows 3000 --in-flight 200 --seconds-limit 0.2 {common}"))
            .expect("parses");
    let results = run(&[&options], |_| {}).expect("measures");
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
    let common = format!("--seconds-limit 0.1 {}", common(engine, &folder));
    let mixed: MixedOptions =
        parse(&format!("--rows 500 --operations 1000 --in-flight 100 {common}")).expect("parses");
    let results = run(&[&mixed], |_| {}).expect("measures, and every row is as it should be");
    assert_eq!(results.measurements.len(), 3);
    let threads: ThreadsOptions =
        parse(&format!("--threads 1,8 --rows 5000 {common}")).expect("parses");
    assert_eq!(run(&[&threads], |_| {}).expect("measures").measurements.len(), 4);
    let load: LoadOptions = parse(&format!(
        "--in-flight 1,64 --share 0.5 --group-size 8 --group-delay 1 --rows 5000 {common}"
    ))
    .expect("parses");
    let results = run(&[&load], |_| {}).expect("measures");
    assert_eq!(results.measurements.len(), 2 * 3 + 3);
    assert!(results.measurements.iter().all(|m| m.engine == engine.name()));
}

pub fn conditions_of_another_engine_and_delays_that_cannot_be_are_refused(engine: Engine) {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |line: &str| {
        let line = format!("{line} {}", common(engine, &folder));
        let options: WriteOptions = parse(&line).expect("parses");
        run(&[&options], |_| {}).expect_err("refused").to_string()
    };
    let error = refused("--conditions wal");
    assert!(error.contains("wal is not a condition") && error.contains("sync-threads"), "{error}");
    let error = refused("--flush-delay 1");
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
