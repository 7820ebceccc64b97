//! The asynchronous client's experiment from end to end on SQLite, shortened.

use groupcommit_lab::Common;
use groupcommit_lab::condition::Condition;
use groupcommit_lab::engine::Engine;
use groupcommit_lab::report::{load_all, text, write_page};
use groupcommit_lab::setting::Queries;
use groupcommit_lab::web::{WebOptions, run_web};

#[test]
fn every_request_is_answered_within_the_bound_of_connections() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = WebOptions {
        requests: 10,
        per_second: 200.0,
        at_once: 200,
        connections: 5,
        queries: Queries::of(Engine::Sqlite).to_vec(),
        conditions: Condition::of_web(Engine::Sqlite).to_vec(),
        common: Common { repeats: 1, out: folder.path().to_owned(), ..Common::default() },
    };
    let results = run_web(&options, |_| {}).expect("runs");
    assert_eq!(results.measurements.len(), 4 + 4 + 3);
    for measurement in &results.measurements {
        let condition = measurement.condition;
        let setting = measurement.setting.as_deref().expect("a load");
        let requests = if setting == "at once" { 200 } else { 10 };
        assert_eq!(measurement.rows, requests, "{condition} {setting}");
        let first = measurement.read_latency_ms.expect("noted");
        assert!(first.mean > 0.0 && first.mean <= measurement.latency_ms.mean, "{condition}");
        assert_eq!(measurement.latency_percentiles_ms.len(), 14);
        let peak = measurement.connections_peak.expect("counted");
        if condition != Condition::Blocking {
            // groupcommit has the file open for checkpoints besides.
            assert!(peak <= 5 + 2, "{condition} {setting}: {peak}");
        }
    }
    let text = text::run(&results);
    assert!(text.contains("Requests of a web application") && text.contains("at once"), "{text}");
    let runs = load_all(&[folder.path().to_owned()]).expect("reads");
    let page = write_page(&runs, folder.path()).expect("draws");
    let page = std::fs::read_to_string(page).expect("reads");
    assert!(page.contains("Requests of a web application") && page.contains("59.5"));
    assert!(folder.path().join("charts/web-done.svg").exists());
}
