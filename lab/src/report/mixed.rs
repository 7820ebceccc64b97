//! Experiment 1, the mixed task, as part of a report.

use crate::condition::Condition;
use crate::engine::Engine;
use crate::measurement::Measurement;
use crate::report::Spec;
use crate::report::case::{Case, Setup, notes};
use crate::report::model::{Axis, Body, Chart, Item, Plot, Row, Scale, Table};
use crate::report::number::{grouped, ratio, significant};
use crate::report::published;
use crate::report::write::{against, baseline, percentiles};

pub(super) const SPEC: Spec = Spec {
    experiment: "mixed",
    heading: "Reads and writes mixed",
    question: "How much time and CPU time do single reads and writes of random rows take, one after the other?",
    how_to_read: &[
        "A read of a random row and a write of one alternate. Wall is what the clock showed. User and system are \
         what the processors worked in the program and in the kernel, the lab's own work included.",
    ],
    body,
};

fn rate(m: &Measurement) -> f64 {
    m.operations() / m.seconds
}

fn body(setup: Setup, cases: &[Case<'_>]) -> Body {
    let shown = vec![Item::Chart(chart(cases)), Item::Table(table(cases))];
    let mut more = vec![Item::Chart(percentiles("mixed", cases))];
    if setup.engine == Some(Engine::Sqlite) && setup.flush_delay_ms.is_none() {
        more.push(Item::Table(published::mixed(cases)));
    }
    Body { findings: finding(setup, cases).into_iter().collect(), shown, more }
}

fn finding(setup: Setup, cases: &[Case<'_>]) -> Option<String> {
    let ours = cases.iter().find(|case| case.condition() == Condition::GroupcommitAsync)?;
    let plain = baseline(cases)?;
    Some(format!(
        "Reads and writes in turn: groupcommit with {} in flight made {} operations/s, {} × the {} of {}.",
        grouped(ours.first().in_flight as f64),
        grouped(ours.median(rate)),
        ratio(ours.median(rate), Some(plain.median(rate))),
        grouped(plain.median(rate)),
        setup.plain(plain.condition()),
    ))
}

fn table(cases: &[Case<'_>]) -> Table {
    let plain = baseline(cases);
    let reference = plain.map(|case| case.median(rate));
    let (against, meaning) = against(plain, "operations/s");
    let user_us = |m: &Measurement| m.cpu_user_seconds * 1e6 / m.operations();
    let system_us = |m: &Measurement| m.cpu_system_seconds * 1e6 / m.operations();
    Table::of(
        cases,
        &[
            ("condition", "", &|case| case.name(cases)),
            ("in flight", "", &|case| grouped(case.first().in_flight as f64)),
            ("opera\u{ad}tions/s", "", &|case| grouped(case.median(rate))),
            ("range", "", &|case| case.range(rate)),
            (&against, "", &|case| ratio(case.median(rate), reference)),
            ("wall", "µs", &|case| significant(case.median(Measurement::wall_us))),
            ("user", "µs", &|case| significant(case.median(user_us))),
            ("system", "µs", &|case| significant(case.median(system_us))),
            ("write p50", "ms", &|case| significant(case.median(|m| m.latency_ms.p50))),
            ("write p99", "ms", &|case| significant(case.median(|m| m.latency_ms.p99))),
        ],
    )
    .with_notes(notes(cases))
    .with_note(meaning)
    .with_note("wall, user, system: time per operation. write: what a caller waits for a write.")
}

fn chart(cases: &[Case<'_>]) -> Chart {
    let mut rows = Vec::new();
    for (heading, figure) in [
        ("wall clock", Measurement::wall_us as fn(&Measurement) -> f64),
        ("CPU, user and system", Measurement::cpu_us),
    ] {
        rows.push(Row::Heading(heading.to_owned()));
        rows.extend(cases.iter().map(|case| case.row(cases, figure)));
    }
    Chart {
        name: "mixed-time".to_owned(),
        title: "Time of one operation".to_owned(),
        note: "Point: median; line: range of the repeats; hollow: not durable. Further left is better."
            .to_owned(),
        plot: Plot::Points {
            axis: Axis { label: "µs per operation", scale: Scale::Log },
            rows,
        },
    }
}
