//! Experiment 1, the mixed task, as part of a report.

use crate::condition::Condition;
use crate::measurement::Measurement;
use crate::report::axis::Axis;
use crate::report::case::{Case, cases};
use crate::report::distribution::{box_plot, percentile_curves};
use crate::report::head::{Head, Key, KeyMark};
use crate::report::published;
use crate::report::rows::{Mark, Row, RowChart, RowGroup};
use crate::report::scale::Scale;
use crate::report::section::{Chart, Disk, Figure, Part, Section, parts};
use crate::report::tables::{self, NOT_DURABLE};
use crate::table::{grouped, significant};

/// The section, `None` without records.
pub(super) fn section(measurements: &[Measurement]) -> Option<Section> {
    let own: Vec<_> = measurements.iter().filter(|m| m.experiment == "mixed").collect();
    (!own.is_empty()).then(|| Section {
        name: "mixed",
        heading: "Reads and writes mixed",
        question: "What do single reads and writes of random rows, alternating, take of the clock and of \
                   the processors?",
        parts: parts(&own, part),
        how_to_read: how_to_read(),
        published: Some(published::mixed(&own)),
    })
}

/// Operations of a measurement; of records that do not say, the writes.
fn operations(measurement: &Measurement) -> f64 {
    measurement.operations.unwrap_or(measurement.rows).max(1) as f64
}

/// Wall-clock microseconds an operation.
pub(super) fn wall_us(measurement: &Measurement) -> f64 {
    measurement.seconds * 1e6 / operations(measurement)
}

/// User-mode CPU microseconds an operation.
pub(super) fn user_us(measurement: &Measurement) -> f64 {
    measurement.cpu_user_seconds * 1e6 / operations(measurement)
}

/// Kernel CPU microseconds an operation.
pub(super) fn system_us(measurement: &Measurement) -> f64 {
    measurement.cpu_system_seconds * 1e6 / operations(measurement)
}

fn part(disk: Disk, measurements: &[&Measurement]) -> Part {
    let cases = cases(measurements.iter().copied());
    let file = |name: &str| format!("mixed-{name}{}", disk.suffix());
    let group = [(String::new(), cases.clone())];
    let title = "How long the writes of the mixed task waited: half of them lie in the box";
    let curves = "Waits of the writes of the mixed task, by percentile".to_owned();
    Part {
        disk,
        findings: finding(&cases).into_iter().collect(),
        charts: vec![
            Figure {
                file: file("wall-and-cpu"),
                chart: Chart::Rows(wall_and_cpu(disk, &cases)),
                half: false,
            },
            Figure {
                file: file("latency-boxes"),
                chart: Chart::Rows(box_plot(disk, title, &group)),
                half: false,
            },
            Figure {
                file: file("latency-percentiles"),
                chart: Chart::Lines(percentile_curves(disk, curves, &cases)),
                half: false,
            },
        ],
        tables: vec![tables::mixed(disk, &cases)],
    }
}

fn finding(cases: &[Case<'_>]) -> Option<String> {
    let of = |condition| cases.iter().find(|case| case.first().condition == condition);
    let ours = of(Condition::GroupcommitAsync)?;
    let reference = cases.iter().find(|case| case.first().condition.is_reference())?;
    let (wal, ours_us) = (reference.median(wall_us), ours.median(wall_us));
    (wal > 0.0).then(|| {
        format!(
            "groupcommit-async with {} in flight took {} µs of wall-clock time an operation, {} of {}'s {} µs.",
            grouped(ours.first().in_flight as f64),
            tables::figure(ours_us),
            significant(ours_us / wal),
            reference.first().condition,
            tables::figure(wal),
        )
    })
}

fn wall_and_cpu(disk: Disk, cases: &[Case<'_>]) -> RowChart {
    let key = |class: &str, name: &str| Key {
        mark: KeyMark::Area,
        class: class.to_owned(),
        name: name.to_owned(),
    };
    let values = cases
        .iter()
        .flat_map(|case| [case.spread(wall_us).max, case.median(user_us) + case.median(system_us)]);
    let group = |case: &Case<'_>| {
        let wall = case.spread(wall_us);
        let (user, system) = (case.median(user_us), case.median(system_us));
        RowGroup {
            heading: case.name(cases),
            rows: vec![
                Row {
                    name: "wall clock".to_owned(),
                    class: case.class().to_owned(),
                    mark: Mark::Bar {
                        parts: vec![(wall.median, "")],
                        spread: (case.repeats().len() > 1).then_some((wall.min, wall.max)),
                    },
                    figure: format!("{} µs", tables::figure(wall.median)),
                },
                Row {
                    name: "CPU, user + system".to_owned(),
                    class: case.class().to_owned(),
                    mark: Mark::Bar {
                        parts: vec![(user, "shade"), (system, "light")],
                        spread: None,
                    },
                    figure: format!("{} + {} µs", tables::figure(user), tables::figure(system)),
                },
            ],
        }
    };
    RowChart {
        head: Head {
            title: "Wall-clock and CPU time of one operation of the mixed task".to_owned(),
            remark: format!("Medians; whiskers: the repeats' least and most. {NOT_DURABLE}"),
            simulated: disk.remark(),
            key: vec![
                key("fixed", "wall clock"),
                key("fixed shade", "CPU, user"),
                key("fixed light", "CPU, system"),
            ],
        },
        axis: Axis::new("µs an operation", Scale::linear(values)),
        groups: cases.iter().map(group).collect(),
    }
}

fn how_to_read() -> Vec<String> {
    [
        "Both bars are time divided by operations, so that runs ended by a time limit compare with \
         complete ones. The upper bar is what the clock showed, the lower one what the processors worked, \
         in the program (user) and in the kernel for it (system).",
        "A lower bar much shorter than the upper one means waiting for the disk. A longer one means that \
         more than one processor was at work. The CPU time includes the lab's own.",
    ]
    .map(str::to_owned)
    .into()
}
