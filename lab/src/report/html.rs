//! The report as one page that needs no network, no script and no other file.
//!
//! The first screen answers what a stranger asks: what was compared, what came out, on which machine,
//! and whether the figures can be trusted. Doubt stands above every finding, once.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::report::chart::{NARROW, WIDE, draw, style};
use crate::report::model::{Body, Chart, Column, Item, Part, Report, Run, Section, Table};

const PAGE_STYLE: &str = include_str!("page.css");

const DOUBTS_SHOWN: usize = 3;

const TITLE: &str = "groupcommit: durable transactions on this disk";

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (TITLE) }
                style { (PreEscaped(PAGE_STYLE)) (PreEscaped(style())) }
            }
            body {
                main {
                    h1 { (TITLE) }
                    p.lead {
                        "Each experiment runs the same transactions twice: on the database used directly, one commit \
                         and one flush each, and through groupcommit, where waiting transactions share a commit \
                         and a flush. Effective throughput is rows/s × (1 ms ÷ mean wait)."
                    }
                    (doubts(&report.runs))
                    (verdict(&report.sections))
                    (places(&report.runs))
                    @for section in &report.sections { (self::section(report, section)) }
                }
            }
        }
    };
    markup.into_string()
}

/// More reasons than fit a few lines are folded, so that the findings stay on the first screen.
fn doubts(runs: &[Run]) -> Markup {
    let count: usize = runs.iter().map(|run| run.warnings.len()).sum();
    html! {
        @if count > 0 {
            details.warning open[count <= DOUBTS_SHOWN] {
                summary {
                    @if count == 1 { "One reason" } @else { (count) " reasons" } " to doubt these figures"
                }
                ul {
                    @for run in runs {
                        @for warning in &run.warnings {
                            li { @if runs.len() > 1 { (run.name) ": " } (warning) }
                        }
                    }
                }
            }
        }
    }
}

/// The most important finding of each experiment.
fn verdict(sections: &[Section]) -> Markup {
    let first = |section: &Section| {
        let body = section.parts.first().map(|part| &part.body);
        body.and_then(|body| body.findings.first().cloned())
    };
    html! {
        section.verdict {
            ul {
                @for section in sections {
                    @if let Some(finding) = first(section) {
                        li { (prose(&finding)) " " a href={ "#" (section.name) } { "More" } }
                    }
                }
            }
        }
    }
}

fn places(runs: &[Run]) -> Markup {
    html! {
        details.run {
            summary { @if let [run] = runs { (run.sentence) } @else { "Where the " (runs.len()) " runs were measured" } }
            @for run in runs {
                @if runs.len() > 1 { h3 { (run.name) } }
                dl { @for (name, value) in &run.facts { div { dt { (name) } dd { (prose(value)) } } } }
            }
        }
    }
}

fn section(report: &Report, section: &Section) -> Markup {
    html! {
        section id=(section.name) {
            h2 { (section.heading) }
            p.question { (prose(section.question)) }
            @for part in &section.parts { (self::part(report, part)) }
            details {
                summary { "Conditions, and how to read the figures" }
                dl { @for (name, meaning) in &section.conditions { div { dt { code { (name) } } dd { (prose(meaning)) } } } }
                @for paragraph in section.how_to_read { p { (prose(paragraph)) } }
            }
        }
    }
}

fn part(report: &Report, part: &Part) -> Markup {
    let Body { findings, shown, more } = &part.body;
    html! {
        div.part.simulated[part.simulated] {
            h3 { (part.heading) }
            @if report.runs.len() > 1 { p.note { (report.runs[part.run].sentence) } }
            ul.findings { @for finding in findings { li { (prose(finding)) } } }
            @for item in shown { (self::item(item)) }
            @if !more.is_empty() {
                details { summary { "More figures" } @for item in more { (self::item(item)) } }
            }
        }
    }
}

fn item(item: &Item) -> Markup {
    match item {
        Item::Chart(chart) => figure(chart),
        Item::Table(table) => self::table(table),
    }
}

/// Both sizes, of which the style shows the one that fits.
fn figure(chart: &Chart) -> Markup {
    html! {
        figure {
            figcaption { strong { (chart.title) } " " span.note { (prose(&chart.note)) } }
            div.wide { (PreEscaped(draw(chart, WIDE, false))) }
            div.narrow { (PreEscaped(draw(chart, NARROW, false))) }
        }
    }
}

fn table(table: &Table) -> Markup {
    let head = |Column { name, unit }: &Column| {
        html! { th scope="col" { (name) @if !unit.is_empty() { br; span.unit { (unit) } } } }
    };
    html! {
        @if !table.caption.is_empty() { p.caption { (table.caption) } }
        p.hint { "Swipe the table sideways for more columns →" }
        div.scroll tabindex="0" {
            table {
                thead { tr { @for column in &table.columns { (head(column)) } } }
                tbody {
                    @for row in &table.rows { tr { @for cell in row { td { (cell) } } } }
                }
            }
        }
        @let notes: Vec<&str> = table.notes.iter().map(String::as_str).filter(|note| !note.is_empty()).collect();
        @if !notes.is_empty() { p.note { (prose(&notes.join(" "))) } }
    }
}

/// Text in which `names` are marked as in Markdown.
fn prose(text: &str) -> Markup {
    html! {
        @for (index, piece) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (piece) } } @else { (piece) }
        }
    }
}
