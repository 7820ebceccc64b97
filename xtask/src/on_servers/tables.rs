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
            "{} committed, {} rejected, {} rows found; {} commits, {} without a failure",
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

/// What the queries do, as the records mark it at the end of a load's name.
const QUERIES: [(&str, &str); 2] = [("", ""), (", wait", ", queries that wait in the server")];

fn web_rows(table: &mut Table, on: &WebOn) -> Result<()> {
    let name = on.on.title();
    for (mark, queries) in QUERIES {
        for (load, condition, most) in [
            ("normal", Condition::Blocking, 0.6),
            ("normal", Condition::BlockingPool, 1.0),
            ("high", Condition::Blocking, 0.42),
        ] {
            let label = format!("{load}{mark}");
            let found = on.find(Condition::Groupcommit, &label).zip(on.find(condition, &label));
            let Some((ours, theirs)) = found else { continue };
            let (ours, theirs) = (&ours.done_ms_p50[..], &theirs.done_ms_p50[..]);
            ratio(
                table,
                &format!("web, {name}, {load} load{queries}: median against `{condition}`"),
                Bound::AtMost(most),
                paired(ours, theirs)?,
                &format!("{} against {} ms", significant(median(ours)?), significant(median(theirs)?)),
            );
        }
    }
    let at_once: Vec<&WebSetting> =
        on.settings.iter().filter(|setting| setting.load.starts_with("at once")).collect();
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
            let Spread3 { median, min, max } = Spread3::of(setting.rows_per_second.iter().copied())?;
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
    let mut of_web = web.databases.iter().flat_map(|on| &on.settings).map(|it| it.done_ms_p50.len());
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
            on.environment.server().unwrap_or_else(|| on.on.title()),
            on.connections_max,
        )?;
        for setting in &on.settings {
            web_line(&mut text, on, setting)?;
        }
        text.push('\n');
    }
    text += &published(&databases)?;
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
fn published(databases: &[WebOn]) -> Result<String> {
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
    write!(text, "\nSingle-row transactions, each durable when answered. {}", first.environment.sentence_without_engine())?;
    Ok(text)
}
