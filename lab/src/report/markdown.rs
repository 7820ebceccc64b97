//! The report as Markdown, for documents.

use std::fmt::Write as _;

use crate::report::model::{Column, Item, Report, Run, Section, Table};

/// The whole report under the heading `title`, with `introduction` before the figures.
#[must_use]
pub fn report(report: &Report, title: &str, introduction: &str) -> String {
    let mut text = format!("# {title}\n");
    if !introduction.is_empty() {
        let _infallible = write!(text, "\n{introduction}\n");
    }
    // Of several runs, each part names its own.
    if let [run] = &report.runs[..] {
        add_run(&mut text, run);
    }
    for section in &report.sections {
        add_section(&mut text, report, section);
    }
    text
}

fn add_section(text: &mut String, report: &Report, section: &Section) {
    let _infallible = write!(text, "\n## {}\n\n{}\n\n", section.heading, section.question);
    for (name, meaning) in &section.conditions {
        let _infallible = writeln!(text, "- `{name}`: {meaning}");
    }
    for paragraph in section.how_to_read {
        let _infallible = write!(text, "\n{paragraph}\n");
    }
    for part in &section.parts {
        let _infallible = write!(text, "\n### {}: {}\n\n", section.heading, part.heading);
        for finding in &part.body.findings {
            let _infallible = writeln!(text, "- {finding}");
        }
        for item in part.body.shown.iter().chain(&part.body.more) {
            if let Item::Table(shown) = item {
                let _infallible = write!(text, "\n{}", table(shown));
            }
        }
        if report.runs.len() > 1 {
            add_run(text, &report.runs[part.run]);
        }
    }
}

/// Where it was measured, and reasons to doubt the figures.
fn add_run(text: &mut String, run: &Run) {
    let _infallible = write!(text, "\n{} {}", run.sentence, run.warnings.join(" "));
    text.truncate(text.trim_end().len());
    text.push('\n');
}

/// A table with its caption and notes.
#[must_use]
pub fn table(table: &Table) -> String {
    let head = |Column { name, unit }: &Column| {
        let name = name.replace('\u{ad}', "");
        if unit.is_empty() { name } else { format!("{name}, {unit}") }
    };
    let mut text = String::new();
    if !table.caption.is_empty() {
        let _infallible = write!(text, "{}\n\n", table.caption);
    }
    let heads: Vec<String> = table.columns.iter().map(head).collect();
    let _infallible = writeln!(text, "| {} |", heads.join(" | "));
    let _infallible = writeln!(text, "|---{}|", "|--:".repeat(heads.len().saturating_sub(1)));
    for row in &table.rows {
        let _infallible = writeln!(text, "| {} |", row.join(" | "));
    }
    if !table.notes.is_empty() {
        let notes: Vec<&str> =
            table.notes.iter().map(String::as_str).filter(|note| !note.is_empty()).collect();
        let _infallible = write!(text, "\n{}\n", notes.join(" "));
    }
    text
}
