//! The terminal's table of the price of the log.

use comfy_table::Table;

use super::{Row, add_row, grouped, median_of, new_table, none, ratio, significant};
use crate::condition::Condition;
use crate::measurement::{Measurement, WalFigures};

pub(super) const HOW_TO_READ: &str = "MB/s: keys and values, in units of 1,048,576 bytes. x no-wal: against the same benchmark without a\n\
     log. wait: what a caller waits, mean. space: table files by what can be read. written: log and\n\
     tables by what was given. log write, flush: seconds, in which other work may go on.";

/// The figure of a row, where there is one.
pub(crate) fn figure(
    measurement: &Measurement,
    figure: impl Fn(&WalFigures) -> Option<f64>,
) -> Option<f64> {
    measurement.wal.as_ref().and_then(figure)
}

pub(super) fn table(rows: &[Row<'_>]) -> Table {
    let mut table = new_table([
        "condition",
        "benchmark",
        "MB/s",
        "operations/s",
        "x no-wal",
        "wait\nms",
        "space",
        "written",
        "log write\ns",
        "log flush\ns",
    ]);
    for row in rows {
        let first = row.first();
        let without =
            median_of(rows, |m| m.condition == Condition::NoWal && m.setting == first.setting);
        let of = |wanted: fn(&WalFigures) -> Option<f64>| {
            if figure(first, wanted).is_none() {
                return none();
            }
            significant(row.median(|m| figure(m, wanted).unwrap_or_default()))
        };
        let rate = row.rows_per_second().median;
        add_row(
            &mut table,
            [
                row.name(),
                first.setting.clone().unwrap_or_default(),
                of(|wal| Some(wal.megabytes_per_second)),
                grouped(rate),
                ratio(rate, without),
                significant(row.median(|m| m.latency_ms.mean)),
                of(|wal| wal.space_amplification),
                of(|wal| wal.write_amplification),
                of(|wal| Some(wal.log_write_seconds)),
                of(|wal| Some(wal.log_flush_seconds)),
            ],
        );
    }
    table
}
