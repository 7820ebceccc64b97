//! The tables that the documentation makes of the records of the servers.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use groupcommit_lab::condition::Condition;

use crate::{
    measured::{Bound, Place, Spread3, Table, grouped, grouped_f, significant},
    on_servers::{
        Target,
        records::{Records as _, WebOn, WebRecords, WebSetting, WriteOn, WriteRecords},
    },
};

/// As published: condition, ours, load; minimum, median, mean and maximum in milliseconds.
const PUBLISHED: [(&str, Condition, &str, [&str; 4]); 6] = [
    ("blocking", Condition::Blocking, "normal", ["36", "47", "66.26", "222"]),
    ("blocking, with a pool", Condition::BlockingPool, "normal", ["17", "30", "41.37", "156"]),
    ("asynchronous", Condition::Groupcommit, "normal", ["20", "32", "41.25", "155"]),
    ("bridge", Condition::Bridge, "normal", ["40", "72", "85.35", "197"]),
    ("blocking, high load", Condition::Blocking, "high", ["41", "142", "160.22", "604"]),
    ("asynchronous, high load", Condition::Groupcommit, "high", ["20", "59.5", "77.43", "298"]),
];

const NOT_MEASURED: &str = "–";

/// The ratio of each repeat of one to the same repeat of the other, which were measured one after the
/// other: the median, the least and the most.
fn paired(of: &[f64], to: &[f64]) -> Result<Spread3> {
    let pairs = of.iter().zip(to).filter(|(_, to)| **to > 0.0);
    Spread3::of(pairs.map(|(of, to)| of / to))
}

fn median(repeats: &[f64]) -> Result<f64> {
    Ok(Spread3::of(repeats.iter().copied())?.median)
}

/// A row with a ratio, its spread, and whether the median reaches the aim.
fn ratio(table: &mut Table, what: &str, bound: Bound, ratio: Spread3, detail: &str) {
    let Spread3 { min, max, .. } = ratio;
    let detail = format!("{}–{}; {detail}", significant(min), significant(max));
    table.ratio(what, bound, ratio.median, &detail);
}

/// Each server's aims: what pure write through groupcommit is set against, and the least ratio.
fn aims(on: Target) -> &'static [(Condition, f64)] {
    use Condition::{Connections, OneConnection};
    match on {
        Target::Postgres => &[(Connections, 2.5), (OneConnection, 8.0)],
        Target::Replicas => &[(Connections, 3.0)],
        Target::Mariadb => &[(Connections, 1.0)],
        Target::Galera => &[(Connections, 3.0), (OneConnection, 8.0)],
        Target::Sqlite => &[],
    }
}

fn name_of(condition: Condition) -> String {
    match condition {
        Condition::Connections => {
            format!("{} connections, one commit a call each", Condition::SERVER_CONNECTIONS)
        }
        Condition::OneConnection => "one connection, one commit a call".to_owned(),
        Condition::GroupcommitAsync => "groupcommit".to_owned(),
        other => other.to_string(),
    }
}

fn write_rows(table: &mut Table, on: &WriteOn) -> Result<()> {
    let ours = on.rates(Condition::GroupcommitAsync)?;
    let name = on.on.title();
    for &(condition, least) in aims(on.on) {
        let theirs = on.rates(condition)?;
        let (of, to) = (grouped_f(median(ours)?), grouped_f(median(theirs)?));
        ratio(
            table,
            &format!("{name}, 1,000 in flight, against {}", name_of(condition)),
            Bound::AtLeast(least),
            paired(ours, theirs)?,
            &format!("{of} against {to} rows/s"),
        );
    }
    Ok(())
}

fn rejected_row(table: &mut Table, on: &WriteOn) {
    let rejected = &on.rejected;
    table.row(
        &format!("{}, one failing among {} at once", on.on.title(), grouped(rejected.transactions)),
        &format!("{} committed", grouped(rejected.transactions - 1)),
        &format!(
            "{} committed, {} rejected, {} rows found; commits, with the one that held them up: {}, {} without a failure",
            grouped(rejected.committed),
            rejected.failed,
            grouped(rejected.rows),
            rejected.commits,
            rejected.commits_without,
        ),
        rejected.committed == rejected.transactions - 1
            && rejected.failed == 1
            && rejected.rows == rejected.committed,
    );
}

/// The database, and what its queries do where that is not work.
fn web_name(on: &WebOn) -> String {
    let queries = if on.queries == "wait" { ", queries that wait in the server" } else { "" };
    format!("{}{queries}", on.on.title())
}

fn web_rows(table: &mut Table, on: &WebOn) -> Result<()> {
    let name = web_name(on);
    for (load, condition, most) in [
        ("normal", Condition::Blocking, 0.6),
        ("normal", Condition::BlockingPool, 1.0),
        ("high", Condition::Blocking, 0.42),
    ] {
        let found = on.find(Condition::Groupcommit, load).zip(on.find(condition, load));
        let (ours, theirs) =
            found.with_context(|| format!("{name} has no record of {condition}, {load} load"))?;
        let (ours, theirs) = (&ours.done_ms_p50[..], &theirs.done_ms_p50[..]);
        ratio(
            table,
            &format!("web, {name}, {load} load: median against `{condition}`"),
            Bound::AtMost(most),
            paired(ours, theirs)?,
            &format!("{} against {} ms", significant(median(ours)?), significant(median(theirs)?)),
        );
    }
    let at_once: Vec<&WebSetting> =
        on.settings.iter().filter(|setting| setting.load == "at once").collect();
    let Some(requests) = at_once.iter().map(|setting| setting.requests).min() else {
        return Ok(());
    };
    let peak = at_once.iter().map(|setting| setting.connections_peak).max().unwrap_or_default();
    table.row(
        &format!("web, {name}, {} requests at once", grouped(requests)),
        &format!("every one answered, at most {} connections", on.connections_max),
        &format!("every one answered, at most {peak} connections"),
        // A run in which one is not answered leaves no record.
        requests >= 10_000 && peak <= on.connections_max as u64,
    );
    Ok(())
}

/// Everything that servers are asked to show, side by side with what was measured.
pub(crate) fn ratios() -> Result<String> {
    let (write, web) = (WriteRecords::load()?, WebRecords::load()?);
    let mut table = Table::new();
    write.servers.iter().try_for_each(|on| write_rows(&mut table, on))?;
    write.servers.iter().for_each(|on| rejected_row(&mut table, on));
    web.databases.iter().try_for_each(|on| web_rows(&mut table, on))?;
    Ok(table.into_text())
}

/// Pure write on every server, in rows a second.
pub(crate) fn rates() -> Result<String> {
    let mut text = String::from(
        "| server | condition | in flight | rows/s (least–most) | wait p50, ms | wait p99, ms | \
         transactions a commit |\n|---|---|---|---|---|---|---|\n",
    );
    for on in WriteRecords::load()?.servers {
        for setting in &on.settings {
            let Spread3 { median, min, max } =
                Spread3::of(setting.rows_per_second.iter().copied())?;
            writeln!(
                text,
                "| {} | {} | {} | {} ({}–{}) | {} | {} | {} |",
                on.on.title(),
                name_of(setting.condition),
                grouped(setting.in_flight as u64),
                grouped_f(median),
                grouped_f(min),
                grouped_f(max),
                significant(setting.latency_ms_p50.median),
                significant(setting.latency_ms_p99.median),
                significant(setting.group_transactions_mean),
            )?;
        }
    }
    Ok(text)
}

/// Where and when, a sentence for each that differs.
fn places<'a>(environments: impl Iterator<Item = (Target, &'a Place)>) -> Result<String> {
    let mut text = String::new();
    let mut told: Vec<&String> = Vec::new();
    let mut warnings = String::new();
    let mut sentences: Vec<(String, Vec<String>)> = Vec::new();
    for (on, place) in environments {
        let name = place.server().unwrap_or_else(|| on.title()).to_owned();
        let sentence = place.sentence_without_engine();
        match sentences.iter_mut().find(|(known, _)| *known == sentence) {
            Some((_, names)) => names.push(name),
            None => sentences.push((sentence, vec![name])),
        }
        for warning in place.warnings() {
            if !told.contains(&warning) {
                told.push(warning);
                writeln!(warnings, "\n**{warning}**")?;
            }
        }
    }
    for (sentence, names) in sentences {
        write!(text, "{}: {sentence}", names.join("; "))?;
    }
    Ok(text + &warnings)
}

/// Where and when the servers were measured.
pub(crate) fn place() -> Result<String> {
    let (write, web) = (WriteRecords::load()?, WebRecords::load()?);
    let repeats = |counts: &mut dyn Iterator<Item = usize>| counts.min().unwrap_or_default();
    let mut of_write =
        write.servers.iter().flat_map(|on| &on.settings).map(|it| it.rows_per_second.len());
    let mut of_web =
        web.databases.iter().flat_map(|on| &on.settings).map(|it| it.done_ms_p50.len());
    let mut text = format!(
        "Ratios are of repeats measured one after the other: the median of {} (web: {}), with the least \
         and the most. Servers and clients share the machine, so there is no network between them.\n\n\
         Writing: ",
        repeats(&mut of_write),
        repeats(&mut of_web),
    );
    text += &places(write.servers.iter().map(|on| (on.on, &on.environment)))?;
    text += "\nWeb: ";
    text += &places(web.databases.iter().map(|on| (on.on, &on.environment)))?;
    Ok(text)
}

/// The requests of a web application under every condition and load, and beside the publication.
pub(crate) fn web() -> Result<String> {
    let WebRecords { databases } = WebRecords::load()?;
    let mut text = String::new();
    for on in &databases {
        writeln!(
            text,
            "{}, at most {} connections where there is a bound:\n\n\
             | load | condition | requests | min, ms | median, ms (least–most) | mean, ms | p99, ms | max, ms | \
             median against `blocking` | important part, median, ms | most connections |\n\
             |---|---|---|---|---|---|---|---|---|---|---|",
            web_name(on),
            on.connections_max,
        )?;
        for setting in &on.settings {
            web_line(&mut text, on, setting)?;
        }
        text.push('\n');
    }
    let working: Vec<&WebOn> = databases.iter().filter(|on| on.queries != "wait").collect();
    text += &published(&working)?;
    text.push('\n');
    text += &places(databases.iter().map(|on| (on.on, &on.environment)))?;
    Ok(text)
}

fn web_line(text: &mut String, on: &WebOn, setting: &WebSetting) -> Result<()> {
    let Spread3 { median, min, max } = Spread3::of(setting.done_ms_p50.iter().copied())?;
    let against = match on.find(Condition::Blocking, &setting.load) {
        Some(blocking) => {
            let ratio = paired(&setting.done_ms_p50, &blocking.done_ms_p50)?;
            format!("{} ×", significant(ratio.median))
        }
        None => NOT_MEASURED.to_owned(),
    };
    writeln!(
        text,
        "| {} | {} | {} | {} | {} ({}–{}) | {} | {} | {} | {against} | {} | {} |",
        setting.load,
        setting.condition,
        grouped(setting.requests),
        significant(setting.done_ms_min),
        significant(median),
        significant(min),
        significant(max),
        significant(setting.done_ms_mean),
        significant(setting.done_ms_p99),
        significant(setting.done_ms_max),
        significant(setting.first_ms_p50),
        setting.connections_peak,
    )?;
    Ok(())
}

/// The publication's figures, with ours on every database.
fn published(databases: &[&WebOn]) -> Result<String> {
    let mut text = String::from(
        "As published (MySQL, another machine, other queries: so no ratio is made of those figures and \
         ours), in milliseconds; asynchronous is groupcommit here. Under high load the published bridge \
         opened far too many connections and crashed.\n\n| condition | published: min | median | mean | max |",
    );
    for on in databases {
        write!(text, " {}: min | median | mean | max |", on.on.title())?;
    }
    text += "\n|---|---|---|---|---|";
    text += &"---|---|---|---|".repeat(databases.len());
    for (name, condition, load, figures) in PUBLISHED {
        write!(text, "\n| {name} | {} |", figures.join(" | "))?;
        for on in databases {
            let setting = on.find(condition, load);
            let figures = match setting {
                Some(it) => {
                    let median = median(&it.done_ms_p50)?;
                    [it.done_ms_min, median, it.done_ms_mean, it.done_ms_max].map(significant)
                }
                None => [(); 4].map(|()| NOT_MEASURED.to_owned()),
            };
            write!(text, " {} |", figures.join(" | "))?;
        }
    }
    text.push('\n');
    Ok(text)
}

/// In short: what pure write reaches on each server, for the README.
pub(crate) fn summary() -> Result<String> {
    let mut text = String::from(
        "| server | groupcommit, 1,000 in flight, rows/s | 25 connections, rows/s | ratio | one connection, rows/s | \
         ratio |\n|---|---|---|---|---|---|\n",
    );
    let records = WriteRecords::load()?;
    for on in &records.servers {
        let rates = |condition| on.rates(condition);
        let ours = rates(Condition::GroupcommitAsync)?;
        write!(text, "| {} | {} |", on.on.title(), grouped_f(median(ours)?))?;
        for condition in [Condition::Connections, Condition::OneConnection] {
            let theirs = rates(condition)?;
            let ratio = paired(ours, theirs)?.median;
            write!(text, " {} | {} × |", grouped_f(median(theirs)?), significant(ratio))?;
        }
        text.push('\n');
    }
    let first = records.servers.first().context("no server has been measured")?;
    write!(
        text,
        "\nSingle-row transactions, each durable when answered. {}",
        first.environment.sentence_without_engine()
    )?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::on_servers::records::{Rejected, WriteSetting};

    /// Records of a server as a file holds them.
    fn written(rates: [(&str, [f64; 3]); 3], rejected: Rejected) -> WriteOn {
        let flat = Spread3 { median: 1.0, min: 1.0, max: 1.0 };
        let settings = rates.map(|(condition, rows_per_second)| WriteSetting {
            condition: condition.parse().expect("a condition"),
            in_flight: 1,
            rows_per_second: rows_per_second.to_vec(),
            latency_ms_p50: flat,
            latency_ms_p99: flat,
            group_transactions_mean: 1.0,
        });
        WriteOn { on: Target::Postgres, environment: place(), settings: settings.into(), rejected }
    }

    fn place() -> Place {
        serde_json::from_value(serde_json::json!({
            "date": "2026-01-31T12:00:00Z", "cpu_model": "A Processor", "cpu_cores": 2,
            "memory_bytes": 1, "kernel": "A Kernel", "os": "An OS", "load_average_1_minute": 0.0,
            "file_system": "ext4", "flush_us_p50": 80.0, "flush_extending_us_p50": 120.0,
            "groupcommit": "0.1.0", "sqlite": "3", "rusqlite": "0", "rustc": "1",
            "server": "PostgreSQL 15.1", "git_commit": "abc", "git_dirty": null,
            "build_profile": "release", "warnings": []
        }))
        .expect("a place")
    }

    fn rejected(committed: u64, rows: u64) -> Rejected {
        let (transactions, commits, commits_without) = (1_000, 3, 1);
        Rejected { transactions, committed, failed: 1, rows, commits, commits_without }
    }

    #[test]
    fn ratios_are_of_repeats_side_by_side_and_their_median_decides() {
        // The second round was slow for both: a ratio of medians would be 30 to 10.
        let rates = [
            ("groupcommit-async", [30.0, 10.0, 31.0]),
            ("connections", [10.0, 5.0, 10.0]),
            ("one-connection", [5.0, 1.0, 5.0]),
        ];
        let mut table = Table::new();
        let on = written(rates, rejected(999, 999));
        write_rows(&mut table, &on).expect("rows");
        let text = table.into_text();
        let row = |against: &str| text.lines().find(|line| line.contains(against)).expect("a row");
        let many = row("25 connections");
        assert!(
            many.contains("at least 2.5 × | 3.00 × (2.00–3.10; 30 against 10 rows/s) | yes"),
            "{many}"
        );
        let one = row("one connection");
        assert!(
            one.contains("at least 8 × | 6.20 × (6.00–10.0;") && one.ends_with("| no |"),
            "{one}"
        );
        let text = places([(on.on, &on.environment)].into_iter()).expect("places");
        assert!(text.starts_with("PostgreSQL 15.1: A Processor, 2 cores"), "{text}");
    }

    #[test]
    fn a_row_that_was_committed_and_is_not_found_is_told() {
        let flat = [
            ("groupcommit-async", [1.0; 3]),
            ("connections", [1.0; 3]),
            ("one-connection", [1.0; 3]),
        ];
        for (rejected, met) in
            [(rejected(999, 999), "yes"), (rejected(999, 998), "no"), (rejected(998, 998), "no")]
        {
            let mut table = Table::new();
            rejected_row(&mut table, &written(flat, rejected));
            let text = table.into_text();
            assert!(text.ends_with(&format!("| {met} |\n")), "{text}");
        }
    }

    #[test]
    fn requests_of_the_web_are_set_against_their_aims_and_their_bound() {
        let setting = |condition: &str, load: &str, done: f64, peak| WebSetting {
            condition: condition.parse().expect("a condition"),
            load: load.to_owned(),
            requests: 10_000,
            done_ms_min: 1.0,
            done_ms_mean: 2.0,
            done_ms_p99: 3.0,
            done_ms_max: 4.0,
            done_ms_p50: vec![done; 3],
            first_ms_p50: 0.5,
            connections_peak: peak,
        };
        let on = WebOn {
            on: Target::Mariadb,
            queries: "wait".to_owned(),
            environment: place(),
            connections_max: 10,
            settings: vec![
                setting("blocking", "normal", 10.0, 30),
                setting("blocking-pool", "normal", 4.0, 10),
                setting("groupcommit", "normal", 5.0, 10),
                setting("blocking", "high", 20.0, 30),
                setting("groupcommit", "high", 8.0, 10),
                setting("groupcommit", "at once", 100.0, 11),
            ],
        };
        let mut table = Table::new();
        web_rows(&mut table, &on).expect("rows");
        let text = table.into_text();
        let rows: Vec<&str> = text.lines().skip(2).collect();
        for (row, says) in rows.iter().zip([
            "at most 0.6 × | 0.500 × (0.500–0.500; 5.00 against 10.0 ms) | yes |",
            "at most 1 × | 1.25 × (1.25–1.25; 5.00 against 4.00 ms) | no |",
            "at most 0.42 × | 0.400 × (0.400–0.400; 8.00 against 20.0 ms) | yes |",
            "| every one answered, at most 11 connections | no |",
        ]) {
            assert!(row.contains(says) && row.contains("queries that wait in the server"), "{row}");
        }
        assert_eq!(rows.len(), 4);
        let published = published(&[&on]).expect("a table");
        assert!(
            published
                .contains("| asynchronous | 20 | 32 | 41.25 | 155 | 1.00 | 5.00 | 2.00 | 4.00 |"),
            "{published}"
        );
        assert!(
            published.contains("| bridge | 40 | 72 | 85.35 | 197 | – | – | – | – |"),
            "{published}"
        );
    }
}
