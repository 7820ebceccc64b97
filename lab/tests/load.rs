//! The load experiment as a program runs it: both loops, each grouping, with the records checked.

use groupcommit_lab::load::LoadOptions;
use groupcommit_lab::measurement::Results;
use groupcommit_lab::report::text;
use groupcommit_lab::{parse, run};

#[test]
fn every_grouping_is_measured_in_both_loops() {
    let folder = tempfile::tempdir().expect("a folder");
    // The rows are the limit.
    let options: LoadOptions = parse(&format!(
        "--in-flight 1,50 --share 0.5 --group-size 1,20 --group-delay 0,2 --rows 300 \
         --seconds-limit 600 --repeat 2 --out {}",
        folder.path().display()
    ))
    .expect("parses");
    let results = run(&[&options], |_| {}).expect("measures and verifies");
    let groupings = ["adaptive", "group 1", "group 20", "delay 0 ms", "delay 2 ms"];
    assert_eq!(results.measurements.len(), (2 + 1) * 2 * groupings.len());
    for measurement in &results.measurements {
        let setting = measurement.setting.as_deref().expect("a grouping");
        assert!(groupings.contains(&setting), "{setting}");
        assert_eq!((measurement.rows, measurement.verified_rows), (300, 300), "{setting}");
        let group = measurement.group_transactions_mean;
        let shortest_ms = measurement.latency_percentiles_ms[0].1;
        match setting {
            "group 1" => assert!((group - 1.0).abs() < 1e-9, "{group}"),
            // Full, unless the machine stalls for longer than the group's patience.
            "group 20" if measurement.in_flight == 50 => {
                assert!(group > 1.0 && group <= 20.0, "{group}");
            }
            // Nobody joins: it goes when patience ends.
            "group 20" if measurement.in_flight == 1 => assert!(shortest_ms >= 10.0 * 0.999),
            "delay 2 ms" if measurement.in_flight == 1 => assert!(shortest_ms >= 2.0 * 0.999),
            _ => {}
        }
        match measurement.arrivals.as_deref() {
            Some("closed") => assert!(measurement.offered_share.is_none()),
            Some("open") => {
                assert_eq!((measurement.offered_share, measurement.in_flight), (Some(0.5), 0));
                assert_eq!(measurement.unserved, Some(0));
                assert!(measurement.offered_per_second.expect("a rate") > 0.0);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(results, Results::load(folder.path()).expect("loads"));
    let text = text::run(&results);
    assert!(text.contains("Closed loop") && text.contains("Open loop"), "{text}");
}
