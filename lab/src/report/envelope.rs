//! The adaptive setting beside the best fixed one, load by load.

use crate::measurement::Measurement;
use crate::quality::paired_ratio;
use crate::report::case::Case;
use crate::report::load::{ADAPTIVE, setting};
use crate::report::section::{Disk, Table};
use crate::table::{grouped, significant};

/// What the claim "nothing to tune" asks for, as shares of the best fixed setting.
const THROUGHPUT_LEAST: f64 = 0.95;
const WAIT_MOST: f64 = 1.1;

/// One load of a closed loop.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AtLoad {
    in_flight: usize,
    best: String,
    best_rows_per_second: f64,
    rows_per_second: f64,
    best_p99_ms: f64,
    p99_ms: f64,
    /// The adaptive setting's as a share of the other's, round by round, the median.
    throughput_share: f64,
    wait_share: f64,
}

impl AtLoad {
    fn holds(&self) -> bool {
        self.throughput_share >= THROUGHPUT_LEAST && self.wait_share <= WAIT_MOST
    }
}

/// Every load at which the adaptive setting and a fixed one were measured, from small to large.
pub(super) fn against_best_fixed(cases: &[Case<'_>]) -> Vec<AtLoad> {
    let rate = |case: &Case<'_>| case.median(|m| m.rows_per_second);
    let wait = |case: &Case<'_>| case.median(|m| m.latency_ms.p99);
    let mut loads: Vec<AtLoad> = cases
        .iter()
        .filter(|case| setting(case.first()) == ADAPTIVE)
        .filter_map(|adaptive| {
            let in_flight = adaptive.first().in_flight;
            let fixed = cases.iter().filter(|case| {
                case.first().in_flight == in_flight && setting(case.first()) != ADAPTIVE
            });
            let best = fixed
                .max_by(|one, other| rate(one).total_cmp(&rate(other)))
                .filter(|best| rate(best) > 0.0 && wait(best) > 0.0)?;
            let share = |figure: fn(&Measurement) -> f64| {
                paired_ratio(adaptive.repeats(), best.repeats(), figure)
            };
            Some(AtLoad {
                throughput_share: share(|m| m.rows_per_second)?,
                wait_share: share(|m| m.latency_ms.p99)?,
                in_flight,
                best: setting(best.first()).to_owned(),
                best_rows_per_second: rate(best),
                rows_per_second: rate(adaptive),
                best_p99_ms: wait(best),
                p99_ms: wait(adaptive),
            })
        })
        .collect();
    loads.sort_by_key(|load| load.in_flight);
    loads
}

/// At how many loads the claim holds.
pub(super) fn finding(loads: &[AtLoad]) -> Option<String> {
    let held = loads.iter().filter(|load| load.holds()).count();
    (!loads.is_empty()).then(|| {
        format!(
            "At {held} of {} loads the adaptive setting reached at least {THROUGHPUT_LEAST} of the best fixed \
             setting's throughput at no more than {WAIT_MOST} of its p99 wait.",
            loads.len()
        )
    })
}

/// Load by load.
pub(super) fn table(disk: Disk, loads: &[AtLoad]) -> Option<Table> {
    let row = |load: &AtLoad| {
        vec![
            grouped(load.in_flight as f64),
            load.best.clone(),
            grouped(load.best_rows_per_second),
            grouped(load.rows_per_second),
            format!("{:.2}", load.throughput_share),
            significant(load.best_p99_ms),
            significant(load.p99_ms),
            format!("{:.2}", load.wait_share),
            if load.holds() { "yes" } else { "no" }.to_owned(),
        ]
    };
    (!loads.is_empty()).then(|| Table {
        caption: format!("Adaptive beside the best fixed setting. {}", disk.heading()),
        columns: vec![
            "in flight",
            "best fixed setting",
            "its rows/s",
            "adaptive rows/s",
            "share of rows/s",
            "its p99 wait, ms",
            "adaptive p99 wait, ms",
            "share of wait",
            "holds",
        ],
        rows: loads.iter().map(row).collect(),
        notes: disk.remark().into_iter().collect(),
    })
}
