//! The asynchronous client's experiment from end to end on SQLite, shortened.

use groupcommit_lab::condition::Condition;
use groupcommit_lab::report::{load_all, text, write_page};
use groupcommit_lab::web::WebOptions;
use groupcommit_lab::{parse, run};

#[test]
fn every_request_is_answered_within_the_bound_of_connections() {
    let folder = tempfile::tempdir().expect("a folder");
    let options: WebOptions = parse(&format!(
        "--requests 10 --per-second 200 --at-once 200 --connections 5 --repeat 1 --out {}",
        folder.path().display()
    ))
    .expect("parses");
    let results = run(&[&options], |_| {}).expect("runs");
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
