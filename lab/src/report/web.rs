//! Experiment 3, the asynchronous client, as part of a report.

use std::fmt::Write as _;

use crate::condition::Condition;
use crate::measurement::Measurement;
use crate::report::case::{Case, cases};
use crate::report::distribution::box_plot;
use crate::report::section::{Chart, Disk, Figure, Part, Section, Table, parts};
use crate::report::tables::figure as figure_of;
use crate::setting::{Queries, WebLoad};
use crate::table::web::least_ms;
use crate::table::{grouped, significant};

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

fn is_under(case: &Case<'_>, load: WebLoad, queries: Queries) -> bool {
    case.first().setting.as_deref() == Some(load.label(queries).as_str())
}

/// Every kind of queries under each of the loads.
fn each(loads: &[WebLoad]) -> impl Iterator<Item = (Queries, WebLoad)> {
    Queries::ALL.into_iter().flat_map(|queries| loads.iter().map(move |&load| (queries, load)))
}

fn heading(load: WebLoad, queries: Queries, cases: &[Case<'_>]) -> String {
    let load = match load {
        WebLoad::Normal => "normal load".to_owned(),
        WebLoad::High => "high load: the processors are kept busy besides".to_owned(),
        WebLoad::AtOnce => {
            let requests = cases.first().map_or(0.0, |case| case.median(|m| m.rows as f64));
            format!("{} requests at once, of shorter queries", grouped(requests))
        }
    };
    match queries {
        Queries::Work => load,
        Queries::Wait => format!("{load}; queries that wait in the server"),
    }
}

fn part(disk: Disk, measurements: &[&Measurement]) -> Part {
    let all = cases(measurements.iter().copied());
    let groups = |loads: &[WebLoad]| -> Vec<(String, Vec<Case<'_>>)> {
        let group = |(queries, load): (Queries, WebLoad)| {
            let under = |case: &&Case<'_>| is_under(case, load, queries);
            let own: Vec<Case<'_>> = all.iter().filter(under).cloned().collect();
            (heading(load, queries, &own), own)
        };
        each(loads).map(group).filter(|(_, cases)| !cases.is_empty()).collect()
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
            figure(
                "done",
                "How long a request took until all of it was answered",
                &WebLoad::ALL[..2],
            ),
            figure("at-once", "How long a request took when all came at once", &WebLoad::ALL[2..]),
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
    queries: Queries,
) -> Option<&'a Case<'b>> {
    cases.iter().find(|case| case.first().condition == condition && is_under(case, load, queries))
}

fn median(case: &Case<'_>) -> f64 {
    case.median(|m| m.latency_ms.p50)
}

fn findings(cases: &[Case<'_>]) -> Vec<String> {
    let against = |(queries, load): (Queries, WebLoad)| {
        let ours = find(cases, Condition::Groupcommit, load, queries)?;
        let mut text = format!(
            "{}{}, half of the requests were done within {} ms through groupcommit",
            match load {
                WebLoad::Normal => "Under normal load",
                WebLoad::High => "Under high load",
                WebLoad::AtOnce => "When all came at once",
            },
            match queries {
                Queries::Work => "",
                Queries::Wait => ", with queries that wait in the server",
            },
            figure_of(median(ours))
        );
        for (condition, what) in [
            (Condition::Blocking, "with a connection a request"),
            (Condition::BlockingPool, "with a pool of connections"),
        ] {
            let Some(other) = find(cases, condition, load, queries) else { continue };
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
    each(&WebLoad::ALL).filter_map(against).collect()
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
        let case = find(&cases, condition, load, Queries::Work)
            .or_else(|| find(&cases, condition, load, Queries::Wait));
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
         takes 0.2 to 6 ms on an idle machine, for which it keeps a processor of the database busy or, \
         where that is said, waits in the server; when the important \
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
