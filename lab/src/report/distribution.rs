//! Distributions of latency: box plots and percentile curves.

use crate::report::axis::Axis;
use crate::report::case::{Case, value_at};
use crate::report::head::Head;
use crate::report::lines::{LineChart, Series, Stroke};
use crate::report::rows::{Mark, Row, RowChart, RowGroup};
use crate::report::scale::Scale;
use crate::report::section::Disk;
use crate::report::tables::figure;

/// One row a case: quartiles as a box, from the shortest to the 99th percentile as a whisker, the
/// longest as a point. Records without quartiles get a box from the median to the 90th percentile.
pub(super) fn box_plot(disk: Disk, title: &str, groups: &[(String, Vec<Case<'_>>)]) -> RowChart {
    let all: Vec<_> = groups.iter().flat_map(|(_, cases)| cases).map(Case::percentiles).collect();
    let quartiles = all.iter().all(|percentiles| value_at(percentiles, 0.25).is_some());
    let remark = if quartiles {
        "Box: middle half, line: median, whiskers: shortest to 99th percentile, point: longest. At the right: median."
    } else {
        "Box: median to 90th percentile, whisker: to the 99th, point: longest. At the right: median."
    };
    let values = all.iter().flatten().map(|&(_, ms)| ms);
    let row = |case: &Case<'_>, cases: &[Case<'_>]| {
        let percentiles = case.percentiles();
        let at = |quantile| value_at(&percentiles, quantile);
        let middle = at(0.5).unwrap_or_default();
        Row {
            name: case.name(cases),
            class: case.full_class(),
            mark: Mark::Box {
                low: at(0.0).unwrap_or(middle),
                quarter: at(0.25).unwrap_or(middle),
                middle,
                three_quarters: at(0.75).or(at(0.9)).unwrap_or(middle),
                high: at(0.99).unwrap_or(middle),
                most: at(1.0).unwrap_or(middle),
            },
            figure: format!("{} ms", figure(middle)),
        }
    };
    RowChart {
        head: Head {
            title: title.to_owned(),
            remark: remark.to_owned(),
            simulated: disk.remark(),
            key: Vec::new(),
        },
        axis: Axis::new("latency: what a caller waits, ms", Scale::logarithmic(values)),
        groups: groups
            .iter()
            .map(|(heading, cases)| RowGroup {
                heading: heading.clone(),
                rows: cases.iter().map(|case| row(case, cases)).collect(),
            })
            .collect(),
    }
}

/// One curve a case, over the share of transactions that waited no longer.
pub(super) fn percentile_curves(disk: Disk, title: String, cases: &[Case<'_>]) -> LineChart {
    let curves: Vec<_> = cases.iter().map(Case::percentiles).collect();
    let values = curves.iter().flatten().map(|&(_, ms)| ms);
    LineChart {
        head: Head {
            title,
            remark: "Medians over the repeats.".to_owned(),
            simulated: disk.remark(),
            key: Vec::new(),
        },
        across: Axis::new("percentile of transactions", Scale::percentiles()),
        upward: Axis::new("latency: what a caller waits, ms", Scale::logarithmic(values)),
        series: cases
            .iter()
            .zip(&curves)
            .map(|(case, curve)| Series {
                name: case.name(cases),
                class: case.full_class(),
                stroke: Stroke::Marked(case.marker()),
                points: curve.clone(),
            })
            .collect(),
    }
}
