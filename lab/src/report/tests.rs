//! The report as a whole, from records made up for the purpose.

use std::fs;

use super::drawing::TextStyle;
use super::legible::assert_legible;
use super::section::{Chart, Figure};
use super::*;
use crate::condition::Condition;
use crate::environment::Environment;
use crate::measurement::tests::example;
use crate::statistics::QUANTILES;

/// A record of a made-up figure, with all that a report draws.
fn made_up(experiment: &str, condition: Condition, rows_per_second: f64) -> Measurement {
    let mut record = example(condition, 1, rows_per_second);
    experiment.clone_into(&mut record.experiment);
    let wait_ms = 1e3 / rows_per_second;
    record.latency_percentiles_ms =
        QUANTILES.iter().map(|&quantile| (quantile, wait_ms * (1.0 + 9.0 * quantile))).collect();
    record
}

fn written() -> Vec<Measurement> {
    let mut records = Vec::new();
    for repeat in 1..=3 {
        for (power, batch) in [1, 10, 100, 1_000].into_iter().enumerate() {
            for (place, condition) in Condition::ALL.into_iter().enumerate() {
                let rate = 80.0 * 9_f64.powi(i32::try_from(power + place).expect("small"));
                let mut record = made_up("write", condition, rate + 10.0 * repeat as f64);
                (record.batch, record.repeat) = (batch, repeat);
                if condition.is_async() {
                    let mut deeper = record.clone();
                    (record.in_flight, deeper.in_flight) = (100, 100_000);
                    records.push(deeper);
                }
                records.push(record);
            }
        }
    }
    records
}

/// Every experiment, each setting once.
fn everything() -> Vec<Measurement> {
    let mut records = written();
    for (place, condition) in Condition::ALL.into_iter().enumerate() {
        let mut record = made_up("mixed", condition, 300.0 * (place + 1) as f64);
        record.operations = Some(2_000);
        record.read_latency_ms = Some(record.latency_ms);
        records.push(record);
    }
    for threads in (0..=8).map(|power| 1 << power) {
        for condition in Condition::THREADS {
            let mut record = made_up("threads", condition, 100.0 + threads as f64);
            (record.threads, record.in_flight) = (threads, threads);
            records.push(record);
        }
    }
    let settings = [
        "adaptive",
        "group 1",
        "group 8",
        "group 64",
        "group 512",
        "group 4096",
        "delay 0 ms",
        "delay 0.1 ms",
        "delay 1 ms",
        "delay 10 ms",
    ];
    for (place, setting) in settings.into_iter().enumerate() {
        let record = |rate: f64| {
            let mut record = made_up("load", Condition::GroupcommitAsync, rate);
            record.setting = Some(setting.to_owned());
            record
        };
        for in_flight in (0..=12).map(|power| 1 << power) {
            let mut closed = record(1e3 * in_flight as f64 / (1.0 + 0.01 * place as f64));
            closed.arrivals = Some("closed".to_owned());
            closed.in_flight = in_flight;
            records.push(closed);
        }
        for share in [0.1, 0.25, 0.5, 0.75, 0.9, 0.95] {
            let mut open = record(1e5 * share);
            open.arrivals = Some("open".to_owned());
            (open.offered_share, open.offered_per_second) = (Some(share), Some(1e5 * share));
            (open.in_flight, open.unserved) = (0, Some(1));
            records.push(open);
        }
    }
    records
}

/// `records`, as they are and once more on a disk simulated to be slower.
fn with_simulated(records: Vec<Measurement>) -> Vec<Measurement> {
    let mut simulated = records.clone();
    for record in &mut simulated {
        (record.flush_delay_ms, record.simulated) = (Some(0.2), true);
    }
    records.into_iter().chain(simulated).collect()
}

#[test]
fn the_summary_has_the_findings_and_the_first_table_of_every_part() {
    let (folder, _) = report(with_simulated(written()));
    let summary = std::fs::read_to_string(folder.path().join(SUMMARY_FILE)).expect("written");
    let page = std::fs::read_to_string(folder.path().join(REPORT_FILE)).expect("written");
    let findings: Vec<&str> = summary.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    assert!(!findings.is_empty(), "{summary}");
    for finding in findings {
        assert!(page.contains(finding), "only the summary says: {finding}");
    }
    assert_eq!(summary.matches("#### Simulated: 0.2 ms more").count(), 1);
    let tables = summary.lines().filter(|line| line.starts_with("|---|")).count();
    assert_eq!(tables, 2, "{summary}");
}

fn figures(sections: &[Section]) -> impl Iterator<Item = &Figure> {
    sections.iter().flat_map(|section| &section.parts).flat_map(|part| &part.charts)
}

fn report(measurements: Vec<Measurement>) -> (tempfile::TempDir, Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let results = Results { environment: Environment::example(), measurements };
    results.save(folder.path()).expect("saves");
    let report = write_report(&[folder.path().to_owned()], folder.path()).expect("draws");
    (folder, report)
}

#[test]
fn no_text_covers_another_or_leaves_its_chart_at_either_width() {
    let sections = sections(&with_simulated(everything()));
    assert_eq!(sections.len(), 4);
    for figure in figures(&sections) {
        assert_legible(&figure.wide());
        assert_legible(&figure.narrow());
    }
}

#[test]
fn every_chart_has_a_title_and_every_axis_a_unit() {
    let units = ["/s", "ms", "µs", "seconds", "percentile", "threads", "transactions", "%"];
    let has_unit = |name: &str| units.iter().any(|unit| name.contains(unit));
    for figure in figures(&sections(&everything())) {
        let (title, axes) = match &figure.chart {
            Chart::Rows(chart) => (&chart.head.title, vec![&chart.axis]),
            Chart::Lines(chart) => (&chart.head.title, vec![&chart.across, &chart.upward]),
        };
        assert!(title.split(' ').count() >= 4, "`{title}` says little");
        let drawing = figure.wide();
        let of = |style| {
            let texts = drawing.texts().iter().filter(move |text| text.style == style);
            texts.map(|text| text.letters.as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(&of(TextStyle::Title), title);
        for axis in axes {
            assert!(has_unit(&axis.name), "`{}` of `{title}` has no unit", axis.name);
            assert!(of(TextStyle::Muted).contains(&axis.full_name()), "{title}");
            assert!(axis.scale.ticks().len() >= 2, "`{}` of `{title}` names too little", axis.name);
        }
    }
}

#[test]
fn files_of_charts_have_names_of_their_own() {
    let sections = sections(&with_simulated(everything()));
    let mut names: Vec<&str> = figures(&sections).map(|figure| figure.file.as_str()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn simulated_figures_say_so_wherever_they_stand() {
    let all = with_simulated(everything());
    for section in sections(&all) {
        assert_eq!(section.parts.len(), 2, "{}", section.name);
        for part in &section.parts {
            let simulated = part.disk.flush_delay_ms.is_some();
            for figure in &part.charts {
                let file = figure.wide().file();
                assert_eq!(file.contains("Simulated disk: 0.2 ms"), simulated, "{}", figure.file);
                assert_eq!(figure.file.contains("simulated"), simulated);
            }
            for table in &part.tables {
                let marked = table.notes.iter().any(|note| note.starts_with("Simulated disk"));
                assert_eq!(marked, simulated, "{}", table.caption);
            }
        }
    }
}

#[test]
fn the_same_records_give_the_same_bytes() {
    let [(one, first), (other, second)] = [report(everything()), report(everything())];
    let same = |path: &Path| path.strip_prefix(other.path()).map(|rest| one.path().join(rest));
    assert_eq!(
        fs::read(&first.page).expect("reads"),
        fs::read(&second.page).expect("reads"),
        "the page"
    );
    for folder in ["charts", "csv"] {
        for entry in fs::read_dir(other.path().join(folder)).expect("lists") {
            let path = entry.expect("an entry").path();
            let counterpart = same(&path).expect("inside");
            assert_eq!(fs::read(&path).expect("reads"), fs::read(counterpart).expect("reads"));
        }
    }
}

#[test]
fn the_page_refers_to_nothing_outside_and_runs_nothing() {
    let (_folder, report) = report(with_simulated(everything()));
    let page = fs::read_to_string(report.page).expect("reads");
    for outside in ["http:", "https:", "src=", "<script", "<link", "url(", "@import", "<iframe"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for link in page.split("href=\"").skip(1) {
        let (target, _) = link.split_once('"').expect("a quote");
        let id = target.strip_prefix('#').expect("a place on the page");
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
    assert!(page.contains("Read these figures with care") && page.contains("a warning"));
}

#[test]
fn experiments_without_records_are_left_out() {
    let (folder, report) = report(written());
    let page = fs::read_to_string(&report.page).expect("reads");
    assert!(page.contains("Pure write") && !page.contains("Reads and writes mixed"));
    let csv = fs::read_dir(folder.path().join("csv")).expect("lists");
    assert_eq!(csv.count(), report.tables);
    let charts = fs::read_dir(folder.path().join("charts")).expect("lists");
    assert_eq!(charts.count(), report.charts);
}

#[test]
fn the_series_has_the_columns_that_experiment_1_prints() {
    let (folder, _) = report(written());
    let text = fs::read_to_string(folder.path().join("csv/write-progress.csv")).expect("reads");
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some(
            "condition,batch,in_flight,threads,flush_delay_ms,repeat,\
             rows,seconds,rows_per_second,call_latency_ms,commit_latency_ms"
        )
    );
    assert_eq!(lines.next(), Some("default,1,1,1,0,1,1000,11.11111111111111,90,0.5,0.5"));
    assert_eq!(lines.count() + 1, written().len());
    let text = fs::read_to_string(folder.path().join("csv/write.csv")).expect("reads");
    let header = text.lines().next().expect("a header");
    for column in ["latency_ms_p99", "completion_interval_ms", "effective_throughput_1ms"] {
        assert!(header.split(',').any(|found| found == column), "{column} in {header}");
    }
    assert_eq!(text.lines().count() - 1, written().len());
}

#[test]
fn ratios_stay_on_one_disk() {
    let mut slow = made_up("write", Condition::Wal, 10.0);
    (slow.flush_delay_ms, slow.simulated) = (Some(5.0), true);
    let records =
        [slow, made_up("write", Condition::Wal, 100.0), made_up("write", Condition::Default, 50.0)];
    let section = write::section(&records).expect("records");
    let against_wal = |part: &section::Part| -> Vec<String> {
        part.tables[0].rows.iter().map(|row| row[6].clone()).collect()
    };
    assert_eq!(against_wal(&section.parts[0]), ["1.00×", "0.500×"]);
    assert_eq!(against_wal(&section.parts[1]), ["1.00×"]);
}

#[test]
fn several_folders_are_chapters_with_files_of_their_own() {
    let [(one, single), (other, _)] = [report(written()), report(everything())];
    let out = tempfile::tempdir().expect("a folder");
    let folders = [one.path().to_owned(), other.path().to_owned()];
    let report = write_report(&folders, out.path()).expect("draws");
    let page = fs::read_to_string(&report.page).expect("reads");
    assert!(page.contains("Run 1") && page.contains("Nothing is compared between them"));
    assert!(report.charts > single.charts);
    assert!(out.path().join("charts/2-mixed-wall-and-cpu.svg").exists());
}

#[test]
fn a_folder_without_measurements_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let results = Results { environment: Environment::example(), measurements: Vec::new() };
    results.save(folder.path()).expect("saves");
    let error = write_report(&[folder.path().to_owned()], folder.path()).expect_err("nothing");
    assert!(error.to_string().contains("hold no measurement"), "{error}");
}

#[test]
fn records_that_hold_nothing_but_zeros_are_still_drawn() {
    let mut record = made_up("write", Condition::Wal, 1.0);
    (record.rows_per_second, record.effective_throughput_1ms) = (0.0, 0.0);
    record.completion_interval_ms = 0.0;
    record.latency_percentiles_ms.clear();
    record.progress.clear();
    for figure in figures(&sections(&[record])) {
        assert_legible(&figure.wide());
        let file = figure.wide().file();
        assert!(!file.contains("NaN") && !file.contains("inf "), "{file}");
    }
}
