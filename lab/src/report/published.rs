//! The figures of the publications beside ours. They were measured on other machines, so no ratio
//! is made of them and ours.

use crate::condition::Condition;
use crate::measurement::Measurement;
use crate::report::case::{Case, cases};
use crate::report::mixed::{system_us, user_us, wall_us};
use crate::report::section::{Disk, Table};
use crate::report::tables::figure as figure_of;
use crate::table::grouped;

/// Threads and documents a second that `RavenDB` gave, merged, where both were published.
pub(super) const MERGED_THREADS: usize = 25;
/// See [`MERGED_THREADS`].
pub(super) const MERGED_PER_SECOND: f64 = 1_100.0;

/// A figure that was not measured here.
const NOT_MEASURED: &str = "–";

fn table(caption: &str, rows: &[[&str; 3]], notes: &[&str]) -> Table {
    Table {
        caption: caption.to_owned(),
        columns: vec!["figure", "published", "here"],
        rows: rows.iter().map(|row| row.map(str::to_owned).into()).collect(),
        notes: [OTHER_MACHINE].iter().chain(notes).map(|&note| note.to_owned()).collect(),
    }
}

const OTHER_MACHINE: &str = "Another machine, another disk: so no ratio.";

/// The cases measured on the disk as it is.
fn real<'a>(measurements: &[&'a Measurement]) -> Vec<Case<'a>> {
    let real = |m: &&Measurement| Disk::of(m).flush_delay_ms.is_none();
    cases(measurements.iter().copied().filter(real))
}

/// Datalevin, February 2025: pure write.
pub(super) fn write(measurements: &[&Measurement]) -> Table {
    let cases = real(measurements);
    let here = |condition, batch, figure: fn(&Measurement) -> f64| {
        let own = cases
            .iter()
            .find(|case| case.first().condition == condition && case.first().batch == batch);
        own.map_or_else(|| NOT_MEASURED.to_owned(), |case| figure_of(case.median(figure)))
    };
    let million = |m: &Measurement| 1e6 / m.rows_per_second;
    let ours = Condition::GroupcommitAsync;
    table(
        "Beside the publication (Datalevin, February 2025; 6 cores of 2016, SATA SSD)",
        &[
            [
                "async, 1 row a transaction: rows/s",
                "16,829.2",
                &here(ours, 1, |m| m.rows_per_second),
            ],
            [
                "its completion interval, published as latency: ms",
                "0.1",
                &here(ours, 1, |m| m.completion_interval_ms),
            ],
            [
                "what its callers wait: ms",
                "about 59 (Little's law)",
                &here(ours, 1, |m| m.latency_ms.mean),
            ],
            [
                "one commit a call, 1 row a transaction: rows/s",
                "a few hundred",
                &here(Condition::GroupcommitBlocking, 1, |m| m.rows_per_second),
            ],
            [
                "SQLite WAL NORMAL *, 1 row a transaction: rows/s",
                "18,353",
                &here(Condition::WalNormal, 1, |m| m.rows_per_second),
            ],
            ["SQLite WAL OFF *, 1 row a transaction: rows/s", "24,987", NOT_MEASURED],
            [
                "SQLite WAL FULL, 1,000 rows a transaction: seconds a million rows",
                "6.7",
                &here(Condition::Wal, 1_000, million),
            ],
            ["bulk loading: seconds a million rows", "5.3", NOT_MEASURED],
        ],
        &["* not durable.", "There SQLite overtakes at 100 and 1,000 rows a transaction."],
    )
}

/// Datalevin, February 2025: the mixed task.
pub(super) fn mixed(measurements: &[&Measurement]) -> Table {
    let cases = real(measurements);
    let ours = cases.iter().find(|case| case.first().condition == Condition::GroupcommitAsync);
    let here = |figure: fn(&Measurement) -> f64| {
        ours.map_or_else(|| NOT_MEASURED.to_owned(), |case| figure_of(case.median(figure)))
    };
    table(
        "Beside the publication (Datalevin, February 2025; 6 cores of 2016, SATA SSD)",
        &[
            ["async: wall clock, µs an operation", "55.5 (111.04 s for 2,000,000)", &here(wall_us)],
            [
                "async: CPU, µs an operation",
                "114 (227.89 s for 2,000,000)",
                &here(|m| user_us(m) + system_us(m)),
            ],
        ],
        &["There it was the only condition whose CPU time exceeded its wall time."],
    )
}

/// `RavenDB`: transaction merging.
pub(super) fn threads(measurements: &[&Measurement]) -> Table {
    let cases = real(measurements);
    let here = |condition| {
        let own = cases.iter().filter(|case| case.first().condition == condition);
        let nearest = own.min_by_key(|case| case.first().threads.abs_diff(MERGED_THREADS));
        nearest.map_or_else(
            || NOT_MEASURED.to_owned(),
            |case| {
                let rate = grouped(case.median(|m| m.rows_per_second));
                format!("{rate} ({} threads)", case.first().threads)
            },
        )
    };
    table(
        "Beside the publication (RavenDB)",
        &[
            ["the user's complaint: documents/s", "100 to 200", NOT_MEASURED],
            ["one commit each: documents/s", "400", &here(Condition::Shared)],
            ["merged: documents/s", "over 1,100 (25 threads)", &here(Condition::Merged)],
        ],
        &["Ours: the number of threads nearest to the published one."],
    )
}
