//! Experiment 3, the asynchronous client, as part of a report.

use std::fmt::Write as _;

use crate::condition::Condition;
use crate::measurement::Measurement;
use crate::report::case::{Case, cases};
use crate::report::distribution::box_plot;
use crate::report::section::{Chart, Disk, Figure, Part, Section, Table, parts};
use crate::report::tables::figure as figure_of;
use crate::setting::WebLoad;
use crate::table::web::least_ms;
use crate::table::{grouped, significant};

const LOADS: [WebLoad; 3] = [WebLoad::Normal, WebLoad::High, WebLoad::AtOnce];

const NOT_MEASURED: &str = "–";

/// A condition as published, and ours: load, minimum, median, mean and maximum in milliseconds.
const PUBLISHED: [(&str, Condition, WebLoad, [&str; 4]); 6] = [
    ("blocking", Condition::Blocking, WebLoad::Normal, ["36", "47", "66.26", "222"]),
    ("blocking, pool", Condition::BlockingPool, WebLoad::Normal, ["17", "30", "41.37", "156"]),
    ("asynchronous", Condition::Groupcommit, WebLoad::Normal, ["20", "32", "41.25", "155"]),
    ("bridge", Condition::Bridge, WebLoad::Normal, ["40", "72", "85.35", "197"]),
    ("blocking, high load", Condition::Blocking, WebLoad::High, ["41", "142", "160.22", "604"]),
    (
        "asynchronous, high load",
        Condition::Groupcommit,
        WebLoad::High,
        ["20", "59.5", "77.43", "298"],
    ),
];

/// The section, `None` without records.
pub(super) fn section(measurements: &[Measurement]) -> Option<Section> {
    let own: Vec<_> = measurements.iter().filter(|m| m.experiment == "web").collect();
    (!own.is_empty()).then(|| Section {
        name: "web",
        heading: "Requests of a web application",
        question: "How long does a request take that asks for important and less important data at once, \
                   and updates some of it when the important part is answered?",
        parts: parts(&own, part),
        how_to_read: how_to_read(),
        published: Some(published(&own)),
    })
}

fn is_under(case: &Case<'_>, load: WebLoad) -> bool {
    case.first().setting.as_deref() == Some(load.name())
}

fn heading(load: WebLoad, cases: &[Case<'_>]) -> String {
    match load {
        WebLoad::Normal => "normal load".to_owned(),
        WebLoad::High => "high load: the processors are kept busy besides".to_owned(),
        WebLoad::AtOnce => {
            let requests = cases.first().map_or(0.0, |case| case.median(|m| m.rows as f64));
            format!("{} requests at once, of shorter queries", grouped(requests))
        }
    }
}

fn part(disk: Disk, measurements: &[&Measurement]) -> Part {
    let all = cases(measurements.iter().copied());
    let under = |load| -> Vec<Case<'_>> {
        all.iter().filter(|case| is_under(case, load)).cloned().collect()
    };
    let groups = |loads: &[WebLoad]| -> Vec<(String, Vec<Case<'_>>)> {
        let group = |&load: &WebLoad| {
            let own = under(load);
            (heading(load, &own), own)
        };
        loads.iter().map(group).filter(|(_, cases)| !cases.is_empty()).collect()
    };
    let figure = |name: &str, title: &str, loads: &[WebLoad]| {
        let groups = groups(loads);
        (!groups.is_empty()).then(|| Figure {
            file: format!("web-{name}{}", disk.suffix()),
            chart: Chart::Rows(box_plot(disk, title, &groups)),
            half: false,
        })
    };
    Part {
        disk,
        findings: findings(&all),
        charts: [
            figure("done", "How long a request took until all of it was answered", &LOADS[..2]),
            figure("at-once", "How long a request took when all came at once", &LOADS[2..]),
        ]
        .into_iter()
        .flatten()
        .collect(),
        tables: vec![table(disk, &all)],
    }
}

fn find<'a, 'b>(
    cases: &'a [Case<'b>],
    condition: Condition,
    load: WebLoad,
) -> Option<&'a Case<'b>> {
    cases.iter().find(|case| case.first().condition == condition && is_under(case, load))
}

fn median(case: &Case<'_>) -> f64 {
    case.median(|m| m.latency_ms.p50)
}

fn findings(cases: &[Case<'_>]) -> Vec<String> {
    let against = |load: WebLoad| {
        let ours = find(cases, Condition::Groupcommit, load)?;
        let mut text = format!(
            "{}, half of the requests were done within {} ms through groupcommit",
            match load {
                WebLoad::Normal => "Under normal load",
                WebLoad::High => "Under high load",
                WebLoad::AtOnce => "When all came at once",
            },
            figure_of(median(ours))
        );
        for (condition, what) in [
            (Condition::Blocking, "with a connection a request"),
            (Condition::BlockingPool, "with a pool of connections"),
        ] {
            let Some(other) = find(cases, condition, load) else { continue };
            let ratio = median(ours) / median(other).max(f64::MIN_POSITIVE);
            let _infallible = write!(
                text,
                ", {} times the {} ms {what}",
                significant(ratio),
                figure_of(median(other))
            );
        }
        text.push('.');
        Some(text)
    };
    LOADS.into_iter().filter_map(against).collect()
}

fn table(disk: Disk, cases: &[Case<'_>]) -> Table {
    let row = |case: &Case<'_>| {
        let first = case.first();
        let peak = case.repeats().iter().filter_map(|m| m.connections_peak).max();
        let of = |figure: &dyn Fn(&Measurement) -> f64| figure_of(case.median(figure));
        vec![
            first.condition.to_string(),
            first.setting.clone().unwrap_or_default(),
            grouped(case.median(|m| m.rows as f64)),
            of(&least_ms),
            of(&|m| m.latency_ms.p50),
            of(&|m| m.latency_ms.mean),
            of(&|m| m.latency_ms.p99),
            of(&|m| m.latency_ms.max),
            of(&|m| m.read_latency_ms.map_or(0.0, |first| first.p50)),
            peak.map_or_else(|| NOT_MEASURED.to_owned(), |peak| grouped(peak as f64)),
        ]
    };
    Table {
        caption: format!("Requests of a web application. {}", disk.heading()),
        columns: vec![
            "condition",
            "load",
            "requests",
            "min, ms",
            "median, ms",
            "mean, ms",
            "p99, ms",
            "max, ms",
            "median until the important part, ms",
            "most connections at once",
        ],
        rows: cases.iter().map(row).collect(),
        notes: disk.remark().into_iter().chain(["Medians over the repeats.".to_owned()]).collect(),
    }
}

/// The publication's figures beside ours, on the engine that was measured first.
fn published(measurements: &[&Measurement]) -> Table {
    let first = measurements.first().map(|m| m.engine.clone()).unwrap_or_default();
    let cases = cases(measurements.iter().copied().filter(|m| m.engine == first));
    let rows = PUBLISHED.map(|(name, condition, load, published)| {
        let case = find(&cases, condition, load);
        let here = |figure: fn(&Measurement) -> f64| {
            case.map_or_else(|| NOT_MEASURED.to_owned(), |case| figure_of(case.median(figure)))
        };
        let mut row = vec![name.to_owned()];
        row.extend(published.map(str::to_owned));
        row.extend([
            here(least_ms),
            here(|m| m.latency_ms.p50),
            here(|m| m.latency_ms.mean),
            here(|m| m.latency_ms.max),
        ]);
        row
    });
    Table {
        caption: "Beside the publication (Akka Async SQL over ADBCJ, MySQL), in milliseconds".to_owned(),
        columns: vec![
            "condition",
            "published: min",
            "median",
            "mean",
            "max",
            "here: min",
            "median",
            "mean",
            "max",
        ],
        rows: rows.into(),
        notes: vec![
            "Another machine, another database, other queries: so no ratio.".to_owned(),
            "Asynchronous is groupcommit here. Under high load the published bridge opened far too many \
             connections and crashed; ours is bounded."
                .to_owned(),
        ],
    }
}

fn how_to_read() -> Vec<String> {
    [
        "A request asks for important data and for three pieces of less important data, each of which \
         keeps a processor of the database busy for 0.2 to 6 ms on an idle machine; when the important \
         part is there it is answered, and an update goes out. The request is done when everything is \
         answered. A blocking client does one after the other; an asynchronous one asks at once for all \
         that depends on nothing, so more than one processor can work for it.",
        "Requests arrive when they arrive, at the same moments for every condition, and each latency \
         counts from there. Under high load as many threads as there are processors compute without rest \
         beside the database. When thousands come at once their queries are all of the shortest kind; the \
         table shows how many connections were seen at once.",
    ]
    .map(str::to_owned)
    .into()
}
