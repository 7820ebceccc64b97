//! The page.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::environment::Environment;
use crate::report::Run;
use crate::report::drawing::chart_style;
use crate::report::section::{Figure, Part, Section, Table};
use crate::table::{grouped, significant};

const PAGE_STYLE: &str = include_str!("page.css");

/// The whole page for `runs`, of which there is one at least.
pub(super) fn page(runs: &[Run]) -> String {
    let several = runs.len() > 1;
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "groupcommit: what it does on this disk" }
                style { (PreEscaped(PAGE_STYLE)) (PreEscaped(chart_style())) }
            }
            body {
                main {
                    h1 { "groupcommit: what it does on this disk" }
                    p.lead {
                        "Durable transactions by who commits them: a database used directly, and the same database \
                         through groupcommit, where whatever waits at the same moment shares one flush. Drawn \
                         from the records alone."
                    }
                    @if several {
                        p { "Each chapter is a run of its own. Nothing is compared between them." }
                    }
                    @for (index, run) in runs.iter().enumerate() {
                        @if several {
                            h2.run { "Run " (index + 1) ": " (run.name) }
                        }
                        (environment(&run.results.environment, &run.warnings()))
                        (contents(index, run))
                        @for section in &run.sections {
                            (self::section(index, section))
                        }
                    }
                    footer {
                        p { "Colours are those of Okabe and Ito; shapes differ along with them." }
                    }
                }
            }
        }
    };
    markup.into_string()
}

fn contents(run: usize, of: &Run) -> Markup {
    html! {
        @if of.sections.len() > 1 {
            nav {
                @for section in &of.sections {
                    a href={ "#" (id(run, section)) } { (section.heading) }
                }
            }
        }
    }
}

fn id(run: usize, section: &Section) -> String {
    format!("{}-{}", section.name, run + 1)
}

fn environment(environment: &Environment, warnings: &[String]) -> Markup {
    let disk = &environment.file_system;
    let flush = &environment.flush;
    let dirty = if environment.git_dirty == Some(true) { ", with local changes" } else { "" };
    let commit = environment.git_commit.get(..12).unwrap_or(&environment.git_commit);
    let load = environment.load_average.map(|load| format!("{load:.2}")).join(", ");
    let facts = [
        ("Processor", format!("{}, {} cores", environment.cpu_model, environment.cpu_cores)),
        ("Memory", format!("{:.1} GiB", environment.memory_bytes as f64 / f64::from(1 << 30))),
        ("System", format!("{}, {}", environment.os, environment.kernel)),
        ("Disk", format!("{} on {} ({})", disk.kind, disk.device, disk.mount_point.display())),
        (
            "A flush takes",
            format!(
                "{} µs (p50), {} µs (p99); of a growing file {} µs, {} µs",
                significant(flush.overwrite_us.p50),
                significant(flush.overwrite_us.p99),
                significant(flush.extend_us.p50),
                significant(flush.extend_us.p99)
            ),
        ),
        (
            "Versions",
            format!(
                "groupcommit {} ({commit}{dirty}), {}, rusqlite {}, {}, {} build",
                environment.versions.groupcommit,
                environment.versions.database(),
                environment.versions.rusqlite,
                environment.versions.rustc.split(" (").next().unwrap_or_default(),
                environment.build_profile
            ),
        ),
        ("Load at the start", format!("{load} (1, 5 and 15 minutes)")),
        (
            "The lab's own cost",
            format!("{} ns a transaction", grouped(environment.lab_cost_ns_per_transaction)),
        ),
        ("Measured", format!("{}, by: {}", environment.date, environment.command_line)),
    ];
    html! {
        section.environment {
            @if !warnings.is_empty() {
                div.warning role="note" {
                    strong { "Read these figures with care." }
                    ul { @for warning in warnings { li { (warning) } } }
                }
            }
            dl { @for (name, value) in &facts { div { dt { (name) } dd { (value) } } } }
        }
    }
}

fn section(run: usize, section: &Section) -> Markup {
    html! {
        section id=(id(run, section)) {
            h2 { (section.heading) }
            p.question { (section.question) }
            @for part in &section.parts { (self::part(part, section.parts.len() > 1)) }
            @if let Some(published) = &section.published { (table(published)) }
            h3 { "How to read it" }
            @for paragraph in &section.how_to_read { p { (paragraph) } }
        }
    }
}

fn part(part: &Part, several: bool) -> Markup {
    let simulated = part.disk.flush_delay_ms.is_some();
    html! {
        div.simulated[simulated] {
            @if several || simulated || part.disk.engine.is_some() { h3 { (part.disk.heading()) } }
            @for finding in &part.findings {
                p.finding { @if simulated { "Simulated. " } (finding) }
            }
            div.figures { @for chart in &part.charts { (figure(chart)) } }
            @for table in &part.tables { (self::table(table)) }
        }
    }
}

/// Both sizes, of which the style shows the one that fits.
fn figure(figure: &Figure) -> Markup {
    html! {
        figure.half[figure.half] {
            div.wide { (figure.wide().markup()) }
            div.narrow { (figure.narrow().markup()) }
        }
    }
}

fn table(table: &Table) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(table.caption) {
            table.many[table.columns.len() > 4].dense[table.columns.len() > 10] {
                caption { span { (table.caption) } }
                thead { tr { @for column in &table.columns { th scope="col" { (column) } } } }
                tbody {
                    @for row in &table.rows {
                        tr { @for cell in row { td { (cell) } } }
                    }
                }
            }
        }
        @for note in &table.notes { p.note { (note) } }
    }
}
