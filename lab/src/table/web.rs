//! The terminal's table of the asynchronous client.

use comfy_table::Table;

use super::{Row, add_row, new_table, none, ratio, significant};
use crate::condition::Condition;
use crate::measurement::Measurement;

pub(super) const HOW_TO_READ: &str = "done: from the intended arrival of a request until all of it is answered. x blocking: against a\n\
     connection a request under the same load. first: until the important part is answered.\n\
     connections: the most seen at once.";

/// The shortest latency that was recorded.
pub(crate) fn least_ms(measurement: &Measurement) -> f64 {
    measurement.latency_percentiles_ms.first().map_or(0.0, |&(_, ms)| ms)
}

pub(super) fn table(rows: &[Row<'_>]) -> Table {
    let mut table = new_table([
        "condition",
        "load",
        "requests",
        "done min\nms",
        "median\nms",
        "mean\nms",
        "p99\nms",
        "max\nms",
        "x blocking",
        "first\nms",
        "connections",
    ]);
    for row in rows {
        let first = row.first();
        let blocking = rows
            .iter()
            .find(|row| {
                row.first().condition == Condition::Blocking && row.first().setting == first.setting
            })
            .map(|row| row.median(|m| m.latency_ms.p50));
        let median = row.median(|m| m.latency_ms.p50);
        add_row(
            &mut table,
            [
                row.name(),
                first.setting.clone().unwrap_or_default(),
                super::grouped(row.median(|m| m.rows as f64)),
                significant(row.median(least_ms)),
                significant(median),
                significant(row.median(|m| m.latency_ms.mean)),
                significant(row.median(|m| m.latency_ms.p99)),
                significant(row.median(|m| m.latency_ms.max)),
                ratio(median, blocking),
                significant(row.median(|m| m.read_latency_ms.map_or(0.0, |first| first.p50))),
                match first.connections_peak {
                    Some(_) => super::grouped(
                        row.repeats
                            .iter()
                            .filter_map(|m| m.connections_peak)
                            .max()
                            .unwrap_or_default() as f64,
                    ),
                    None => none(),
                },
            ],
        );
    }
    table
}
