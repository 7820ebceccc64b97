//! The tables of a report: medians over the repeats, with the spread.

use crate::condition::Condition;
use crate::engine::Engine;
use crate::measurement::Measurement;
use crate::report::case::Case;
use crate::report::load::{Loop, setting};
use crate::report::mixed::wall_us;
use crate::report::section::{Disk, Table};
use crate::statistics::LatencyMs;
use crate::table::{grouped, short, significant};

/// What a star means.
pub(super) const NOT_DURABLE: &str = "* not durable: a power cut loses acknowledged transactions.";

/// Three digits; from 100 on whole, with commas.
pub(super) fn figure(value: f64) -> String {
    if value >= 100.0 { grouped(value) } else { significant(value) }
}

fn spread(case: &Case<'_>, of: impl Fn(&Measurement) -> f64) -> String {
    let spread = case.spread(of);
    format!("{} to {}", short(spread.min), short(spread.max))
}

fn notes(disk: Disk, cases: &[Case<'_>]) -> Vec<String> {
    let mut notes: Vec<String> = disk.remark().into_iter().collect();
    notes.push(format!("Medians over {}.", repeats(cases)));
    if cases.iter().any(|case| !case.first().durable) {
        notes.push(NOT_DURABLE.to_owned());
    }
    notes
}

fn repeats(cases: &[Case<'_>]) -> String {
    let counts = || cases.iter().map(|case| case.repeats().len());
    let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    match (least, most) {
        (1, 1) => "one repeat, so without a spread".to_owned(),
        _ if least == most => format!("{most} repeats"),
        _ => format!("{least} to {most} repeats"),
    }
}

/// Cases that ended before all rows were written.
fn cut_short(cases: &[Case<'_>]) -> Option<String> {
    let rows = |case: &Case<'_>| case.repeats().iter().map(|m| m.rows).min().unwrap_or_default();
    let most = cases.iter().flat_map(Case::repeats).map(|m| m.rows).max()?;
    let count = cases.iter().filter(|case| rows(case) < most).count();
    (count > 0).then(|| {
        format!(
            "Rows below {}: ended by the time limit; rates count what was written by then.",
            grouped(most as f64)
        )
    })
}

/// What ratios of pure write and of the mixed task refer to.
fn against(disk: Disk) -> &'static str {
    match disk.engine {
        None | Some(Engine::Sqlite) => "against wal",
        Some(Engine::Lmdb | Engine::Rocksdb) => "against sync",
        Some(Engine::Postgres | Engine::Mysql) => "against connections",
    }
}

/// Pure write. Ratios refer to the engine's reference with the same rows a transaction, on the same disk.
pub(super) fn write(disk: Disk, cases: &[Case<'_>]) -> Table {
    let rate = |m: &Measurement| m.rows_per_second;
    let row = |case: &Case<'_>| {
        let first = case.first();
        let star = if first.durable { "" } else { " *" };
        let wal = cases.iter().find(|other| {
            other.first().condition.is_reference() && other.first().batch == first.batch
        });
        let ratio = wal.map(|wal| wal.median(rate)).filter(|&rate| rate > 0.0).map_or_else(
            || "–".to_owned(),
            |wal| format!("{}×", significant(case.median(rate) / wal)),
        );
        vec![
            format!("{}{star}", first.condition),
            grouped(first.batch as f64),
            grouped(first.in_flight as f64),
            grouped(case.median(|m| m.rows as f64)),
            grouped(case.median(rate)),
            spread(case, rate),
            ratio,
            figure(case.median(|m| m.latency_ms.mean)),
            figure(case.median(|m| m.latency_ms.p50)),
            figure(case.median(|m| m.latency_ms.p99)),
            figure(case.median(|m| m.completion_interval_ms)),
            figure(case.median(|m| m.effective_throughput_1ms)),
            figure(case.median(|m| m.group_transactions_mean)),
        ]
    };
    let mut notes = notes(disk, cases);
    notes.extend(cut_short(cases));
    let mut sorted: Vec<&Case<'_>> = cases.iter().collect();
    sorted.sort_by_key(|case| case.first().batch);
    Table {
        caption: format!("Pure write. {}", disk.heading()),
        columns: vec![
            "condition",
            "rows a transaction",
            "in flight",
            "rows",
            "rows/s",
            "least to most",
            against(disk),
            "mean wait, ms",
            "p50 wait, ms",
            "p99 wait, ms",
            "completion interval, ms",
            "effective rows/s at 1 ms",
            "transactions a group",
        ],
        rows: sorted.into_iter().map(row).collect(),
        notes,
    }
}

/// The mixed task.
pub(super) fn mixed(disk: Disk, cases: &[Case<'_>]) -> Table {
    let wal = cases.iter().find(|case| case.first().condition.is_reference());
    let reference = wal.map(|wal| wal.median(wall_us)).filter(|&us| us > 0.0);
    let row = |case: &Case<'_>| {
        let reads = |of: fn(&LatencyMs) -> f64| {
            let all = case.first().read_latency_ms.is_some();
            let median = || case.median(|m| m.read_latency_ms.as_ref().map_or(0.0, of));
            if all { figure(median()) } else { "–".to_owned() }
        };
        let wall = case.median(wall_us);
        vec![
            case.name(cases),
            grouped(case.first().in_flight as f64),
            grouped(case.median(|m| m.operations.unwrap_or(m.rows) as f64)),
            figure(case.median(|m| m.seconds)),
            figure(case.median(|m| m.cpu_user_seconds)),
            figure(case.median(|m| m.cpu_system_seconds)),
            figure(wall),
            spread(case, wall_us),
            reference.map_or_else(|| "–".to_owned(), |us| format!("{}×", significant(wall / us))),
            figure(case.median(|m| m.latency_ms.p50)),
            figure(case.median(|m| m.latency_ms.p99)),
            reads(|latency| latency.p50),
            reads(|latency| latency.p99),
        ]
    };
    Table {
        caption: format!("Reads and writes mixed. {}", disk.heading()),
        columns: vec![
            "condition",
            "in flight",
            "operations",
            "wall, s",
            "CPU user, s",
            "CPU system, s",
            "wall an operation, µs",
            "least to most",
            against(disk),
            "p50 of writes, ms",
            "p99 of writes, ms",
            "p50 of reads, ms",
            "p99 of reads, ms",
        ],
        rows: cases.iter().map(row).collect(),
        notes: notes(disk, cases),
    }
}

/// What the conditions of experiment 2 are called.
pub(super) fn threads_name(condition: Condition) -> &'static str {
    match condition {
        Condition::Shared => "one commit each, a shared connection",
        Condition::Connections => "one commit each, a connection a thread",
        Condition::Merged => "merged",
        Condition::SyncThreads => "one synced commit each",
        other => other.name(),
    }
}

/// Threads with a document each. Ratios refer to the engine's reference with as many threads.
pub(super) fn threads(disk: Disk, cases: &[Case<'_>]) -> Table {
    let rate = |m: &Measurement| m.rows_per_second;
    let row = |case: &Case<'_>| {
        let first = case.first();
        let shared = cases.iter().find(|other| {
            other.first().is_reference_of_threads() && other.first().threads == first.threads
        });
        let ratio =
            shared.map(|shared| shared.median(rate)).filter(|&rate| rate > 0.0).map_or_else(
                || "–".to_owned(),
                |shared| format!("{}×", significant(case.median(rate) / shared)),
            );
        vec![
            threads_name(first.condition).to_owned(),
            grouped(first.threads as f64),
            grouped(case.median(rate)),
            spread(case, rate),
            ratio,
            figure(case.median(|m| m.latency_ms.p50)),
            figure(case.median(|m| m.latency_ms.p99)),
            figure(case.median(|m| m.group_transactions_mean)),
        ]
    };
    let mut sorted: Vec<&Case<'_>> = cases.iter().collect();
    sorted.sort_by_key(|case| case.first().threads);
    Table {
        caption: format!("Many threads, one document each. {}", disk.heading()),
        columns: vec![
            "condition",
            "threads",
            "documents/s",
            "least to most",
            match disk.engine {
                None | Some(Engine::Sqlite) => "against a shared connection",
                Some(Engine::Lmdb | Engine::Rocksdb) => "against synced commits",
                Some(Engine::Postgres | Engine::Mysql) => "against a connection a thread",
            },
            "p50 wait, ms",
            "p99 wait, ms",
            "transactions a group",
        ],
        rows: sorted.into_iter().map(row).collect(),
        notes: notes(disk, cases),
    }
}

/// Growing load.
pub(super) fn load(disk: Disk, arrivals: Loop, cases: &[Case<'_>]) -> Table {
    let mut sorted: Vec<&Case<'_>> = cases.iter().collect();
    sorted.sort_by(|one, other| arrivals.load(one).total_cmp(&arrivals.load(other)));
    let overloaded = |case: &Case<'_>| case.repeats().iter().any(|m| m.unserved.unwrap_or(0) > 0);
    let row = |case: &Case<'_>| {
        let mark = if overloaded(case) { " †" } else { "" };
        let load = match arrivals {
            Loop::Closed => grouped(case.first().in_flight as f64),
            Loop::Open => grouped(case.median(|m| m.offered_per_second.unwrap_or_default())),
        };
        vec![
            format!("{}{mark}", setting(case.first())),
            load,
            grouped(case.median(|m| m.rows_per_second)),
            spread(case, |m| m.rows_per_second),
            figure(case.median(|m| m.latency_ms.mean)),
            figure(case.median(|m| m.latency_ms.p50)),
            figure(case.median(|m| m.latency_ms.p99)),
            figure(case.median(|m| m.latency_ms.p999)),
            figure(case.median(|m| m.group_transactions_mean)),
        ]
    };
    let mut notes = notes(disk, cases);
    if cases.iter().any(overloaded) {
        notes.push("† more arrived than could be served: its waits are lower bounds.".to_owned());
    }
    let (name, unit) = match arrivals {
        Loop::Closed => ("closed loop", "in flight"),
        Loop::Open => ("open loop", "arrivals/s"),
    };
    Table {
        caption: format!("As load grows, {name}. {}", disk.heading()),
        columns: vec![
            "setting",
            unit,
            "rows/s",
            "least to most",
            "mean wait, ms",
            "p50 wait, ms",
            "p99 wait, ms",
            "p99.9 wait, ms",
            "transactions a group",
        ],
        rows: sorted.into_iter().map(row).collect(),
        notes,
    }
}
