//! The report as a whole, from records made up for the purpose.

use super::*;
use crate::condition::Condition;
use crate::engine::Engine;
use crate::measurement::{LargeFigures, tests::example};
use crate::report::model::{Plot, Table};
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

/// Every experiment on files, with figures as wide as they get.
fn everything() -> Vec<Measurement> {
    let mut records = Vec::new();
    for repeat in 1..=3 {
        for (power, batch) in [1, 10, 1_000].into_iter().enumerate() {
            for (place, condition) in Condition::ALL.into_iter().enumerate() {
                let rate = 80.0 * 9_f64.powi(i32::try_from(power + place).expect("small"));
                let mut record = made_up("write", condition, rate + 10.0 * repeat as f64);
                (record.batch, record.repeat) = (batch, repeat);
                if condition.is_async() {
                    let mut deeper = record.clone();
                    (record.in_flight, deeper.in_flight) = (100, 100_000);
                    (deeper.latency_ms.p50, deeper.latency_ms.p99) = (12_345.6, 12_345.6);
                    records.push(deeper);
                }
                records.push(record);
            }
        }
    }
    for (place, condition) in Condition::ALL.into_iter().enumerate() {
        let mut record = made_up("mixed", condition, 300.0 * (place + 1) as f64);
        record.operations = Some(2_000);
        records.push(record);
    }
    for threads in (0..=8).map(|power| 1 << power) {
        for condition in Condition::THREADS {
            let mut record = made_up("threads", condition, 100.0 + threads as f64);
            (record.threads, record.in_flight) = (threads, threads);
            records.push(record);
        }
    }
    for (place, setting) in ["adaptive", "group 4096", "delay 0.1 ms"].into_iter().enumerate() {
        let mut record = made_up("load", Condition::GroupcommitAsync, 1e6 / (1 + place) as f64);
        record.setting = Some(setting.to_owned());
        for in_flight in [1, 64, 4_096] {
            let (mut closed, arrivals) = (record.clone(), "closed".to_owned());
            (closed.arrivals, closed.in_flight) = (Some(arrivals), in_flight);
            records.push(closed);
        }
        for share in [0.1, 0.95] {
            let (mut open, arrivals) = (record.clone(), "open".to_owned());
            (open.arrivals, open.in_flight, open.unserved) = (Some(arrivals), 0, Some(123_456));
            (open.offered_share, open.offered_per_second) = (Some(share), Some(1e6 * share));
            records.push(open);
        }
    }
    for (place, (condition, batch)) in
        [(Condition::Wal, 1), (Condition::Wal, 1_000), (Condition::GroupcommitAsync, 1)]
            .into_iter()
            .enumerate()
    {
        let mut record = made_up("large", condition, 1e4 * (1 + place) as f64);
        (record.batch, record.setting) = (batch, Some("uniform".to_owned()));
        record.large = Some(LargeFigures {
            rows: 10_000_000,
            readers: 1,
            long_reader: false,
            index: false,
            log_bytes_max: 1_234_567_890,
            device_bytes_a_row: Some(12_345.6),
            reads_per_second: Some(123_456.7),
            opening_seconds: condition.is_async().then_some(1.23),
        });
        records.push(record);
    }
    for condition in Condition::of_web(Engine::Sqlite) {
        let mut record = made_up("web", *condition, 100.0);
        record.setting = Some("at once".to_owned());
        records.push(record);
    }
    records
}

fn simulated(mut records: Vec<Measurement>) -> Vec<Measurement> {
    for record in &mut records {
        (record.flush_delay_ms, record.simulated) = (Some(0.2), true);
    }
    records
}

fn runs(measurements: Vec<Measurement>) -> Vec<(String, Results)> {
    let environment = Environment::example();
    vec![("records".to_owned(), Results { title: None, environment, measurements })]
}

fn items(report: &Report) -> impl Iterator<Item = &Item> {
    let bodies = report.sections.iter().flat_map(|section| &section.parts).map(|part| &part.body);
    bodies.flat_map(|body| body.shown.iter().chain(&body.more))
}

/// Without line breaks, marks and the page's own elements.
fn words(text: &str) -> String {
    let text = text.replace("<code>", "").replace("</code>", "").replace('`', "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_three_renderers_say_the_same() {
    let report = Report::of(&runs(everything()));
    assert_eq!(report.sections.len(), 6);
    let shown = [
        words(&text::report(&report)),
        words(&markdown::report(&report, "Measured", "")),
        words(&html::page(&report)),
    ];
    for part in report.sections.iter().flat_map(|section| &section.parts) {
        assert!(!part.body.findings.is_empty(), "{}", part.heading);
        for finding in &part.body.findings {
            for text in &shown {
                assert!(text.contains(&words(finding)), "{finding}\nis not in\n{text}");
            }
        }
    }
}

#[test]
fn the_terminal_has_100_columns() {
    let text = text::report(&Report::of(&runs(everything())));
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
    }
}

#[test]
fn the_page_needs_nothing_else_and_says_each_doubt_once() {
    let page = html::page(&Report::of(&runs(everything())));
    for foreign in ["<script", "<link", "src=", "@import", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert_eq!(page.matches("a warning").count(), 1);
    assert_eq!(
        page,
        html::page(&Report::of(&runs(everything()))),
        "the same records, the same bytes"
    );
}

#[test]
fn every_text_of_a_chart_lies_inside_it() {
    let attribute = |text: &str, name: &str| -> f64 {
        let rest = text.split_once(&format!(" {name}=\"")).expect(name).1;
        rest.split('"').next().expect("quoted").parse().expect("a number")
    };
    let report = Report::of(&runs(everything()));
    assert!(report.charts().count() > 8);
    for chart in report.charts() {
        for width in [chart::WIDE, chart::NARROW] {
            let svg = chart::draw(chart, width, width == chart::WIDE);
            let (wide, high) = (f64::from(width), attribute(&svg, "height"));
            for text in svg.split("<text").skip(1) {
                let said =
                    text.split_once('>').expect("open").1.split('<').next().expect("text").trim();
                let length = 6.0 * said.chars().count() as f64;
                let (x, y) = (attribute(text, "x"), attribute(text, "y"));
                let left = match () {
                    () if text.contains("text-anchor=\"end\"") => x - length,
                    () if text.contains("text-anchor=\"middle\"") => x - length / 2.0,
                    () => x,
                };
                let fits = left >= -2.0 && left + length <= wide + 2.0 && (0.0..=high).contains(&y);
                assert!(fits, "{} at {width}: `{said}` at {left} {y}", chart.name);
            }
        }
    }
}

#[test]
fn a_simulated_disk_is_told_by_every_chart_and_table() {
    let mut records = everything();
    records.extend(simulated(everything()));
    let report = Report::of(&runs(records));
    let told = |text: &str| text.contains("Simulated disk: 0.2 ms added");
    let says = |item: &Item| match item {
        Item::Chart(chart) => told(&chart.note) && chart.name.ends_with("-simulated-0.2ms"),
        Item::Table(table) => table.notes.iter().any(|note| told(note)),
    };
    for part in report.sections.iter().flat_map(|section| &section.parts) {
        for item in part.body.shown.iter().chain(&part.body.more) {
            assert_eq!(says(item), part.simulated, "{item:?}");
        }
    }
    let mut names: Vec<&str> = report.charts().map(|chart| chart.name.as_str()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "no chart replaces another's file");
}

#[test]
fn one_point_makes_no_chart() {
    let mut records =
        vec![made_up("threads", Condition::Merged, 1e3), made_up("write", Condition::Wal, 1e3)];
    records.iter_mut().for_each(|record| record.latency_percentiles_ms.clear());
    let report = Report::of(&runs(records));
    assert_eq!(report.charts().count(), 0);
    assert!(items(&report).count() > 0);
}

#[test]
fn a_logarithmic_axis_is_for_points_and_lines_alone() {
    let report = Report::of(&runs(everything()));
    for chart in report.charts() {
        if let Plot::Points { rows, .. } = &chart.plot {
            let svg = svg(chart);
            let points = rows.iter().filter(|row| matches!(row, model::Row::Point { .. })).count();
            assert!(svg.matches("<circle").count() >= points, "{}", chart.name);
            assert_eq!(svg.matches("<rect").count(), 1, "{}: only the paper", chart.name);
        }
    }
}

#[test]
fn ratios_and_their_meaning_stand_in_one_table() {
    let report = Report::of(&runs(everything()));
    let tables: Vec<&Table> = items(&report)
        .filter_map(|item| if let Item::Table(table) = item { Some(table) } else { None })
        .collect();
    for table in tables {
        for column in table.columns.iter().filter(|column| column.name.contains('×')) {
            let explained = table.notes.iter().any(|note| note.contains('×'));
            assert!(explained, "{} in {:?}", column.name, table.notes);
        }
    }
}

#[test]
fn records_are_read_from_a_file_and_from_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, results) = runs(everything()).remove(0);
    results.save(folder.path()).expect("saves");
    let paths = [folder.path().to_owned(), folder.path().join(crate::measurement::RESULTS_FILE)];
    let read = load_all(&paths).expect("reads");
    assert!(read.iter().all(|(_, read)| *read == results));
    let page = write_page(&read[..1], folder.path()).expect("writes");
    assert!(page.exists() && folder.path().join("charts").exists());
    let error = load_all(&[folder.path().join("nowhere")]).expect_err("nothing there");
    assert!(error.to_string().contains("nowhere"), "{error}");
}
