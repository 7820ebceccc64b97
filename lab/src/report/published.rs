//! The published figures beside ours.

use crate::condition::Condition;
use crate::measurement::Measurement;
use crate::report::case::Case;
use crate::report::model::{Column, Table};
use crate::report::number::{grouped, optional};

/// Threads with which `RavenDB` published its merged figure.
const MERGED_THREADS: usize = 25;

/// Why the two columns are not divided.
const OTHER_MACHINE: &str = "Published figures are from another machine and another database, so no ratio is made. The table shows \
     whether the experiment has the same shape here.";

/// A published figure: what it is, as published, and ours.
type Figure = (&'static str, &'static str, Option<f64>);

fn table(source: &str, figures: Vec<Figure>) -> Table {
    Table::of(
        figures,
        &[
            ("figure", "", &|(what, _, _)| (*what).to_owned()),
            ("published", "", &|(_, published, _)| (*published).to_owned()),
            ("here", "", &|(_, _, here)| optional(*here)),
        ],
    )
    .with_caption(format!("Beside the publication ({source})"))
    .with_note(OTHER_MACHINE)
}

/// Four published figures of a condition, and ours.
pub(super) struct Beside {
    pub(super) condition: Condition,
    pub(super) setting: &'static str,
    pub(super) published: [&'static str; 4],
    pub(super) here: [Option<f64>; 4],
}

/// A table of published figures, each with ours behind it: the heads of the setting and of the figures.
pub(super) fn beside(heads: [&str; 5], units: [&'static str; 4], rows: &[Beside]) -> Table {
    let mut table = Table::of(
        rows,
        &[
            ("condition", "", &|row| row.condition.to_string()),
            (heads[0], "", &|row| row.setting.to_owned()),
        ],
    );
    for (index, (head, unit)) in heads[1..].iter().zip(units).enumerate() {
        let published = Column { name: format!("published {head}"), unit };
        table.columns.extend([published, Column { name: "here".to_owned(), unit }]);
        for (cells, row) in table.rows.iter_mut().zip(rows) {
            cells.extend([row.published[index].to_owned(), optional(row.here[index])]);
        }
    }
    table.with_note(OTHER_MACHINE)
}

const DATALEVIN: &str = "Datalevin, February 2025; 6 cores of 2016, SATA SSD";

pub(super) fn write(cases: &[Case<'_>]) -> Table {
    let here = |condition, batch, figure: fn(&Measurement) -> f64| {
        let own = |case: &&Case<'_>| case.condition() == condition && case.first().batch == batch;
        let most = cases.iter().filter(own).max_by_key(|case| case.first().in_flight);
        most.map(|case| case.median(figure))
    };
    let rate: fn(&Measurement) -> f64 = |m| m.rows_per_second;
    let ours = Condition::GroupcommitAsync;
    let wal = here(Condition::Wal, 1_000, |m| 1e6 / m.rows_per_second);
    table(
        DATALEVIN,
        vec![
            ("async, 1 row per transaction, rows/s", "16,829", here(ours, 1, rate)),
            ("its completion interval, ms", "0.1", here(ours, 1, |m| m.completion_interval_ms)),
            (
                "its mean wait, ms",
                "about 59, by Little's law",
                here(ours, 1, |m| m.latency_ms.mean),
            ),
            ("WAL NORMAL *, 1 row, rows/s", "18,353", here(Condition::WalNormal, 1, rate)),
            ("WAL FULL, 1,000 rows, seconds per million rows", "6.7", wal),
        ],
    )
}

pub(super) fn mixed(cases: &[Case<'_>]) -> Table {
    let ours = cases.iter().find(|case| case.condition() == Condition::GroupcommitAsync);
    let here = |figure: fn(&Measurement) -> f64| ours.map(|case| case.median(figure));
    table(
        DATALEVIN,
        vec![
            (
                "async, wall clock, µs per operation",
                "55.5 (111.04 s for 2,000,000)",
                here(Measurement::wall_us),
            ),
            (
                "async, CPU, µs per operation",
                "114 (227.89 s for 2,000,000)",
                here(Measurement::cpu_us),
            ),
        ],
    )
}

pub(super) fn threads(cases: &[Case<'_>]) -> Table {
    let here = |condition| {
        let own = cases.iter().filter(|case| case.condition() == condition);
        own.min_by_key(|case| case.first().threads.abs_diff(MERGED_THREADS)).map(Case::rate)
    };
    let nearest = cases
        .iter()
        .map(|case| case.first().threads)
        .min_by_key(|threads| threads.abs_diff(MERGED_THREADS));
    table(
        "RavenDB",
        vec![
            ("one commit each, documents/s", "400", here(Condition::Shared)),
            ("merged, documents/s", "over 1,100 with 25 threads", here(Condition::Merged)),
        ],
    )
    .with_note(format!("Here: {} threads.", grouped(nearest.unwrap_or_default() as f64)))
}
