//! The report in short, as Markdown: what came out of each experiment, and its first table.

use std::fmt::Write as _;

use crate::report::Run;
use crate::report::section::{Part, Section, Table};

/// All `runs`, of which there is one at least.
pub(super) fn summary(runs: &[Run]) -> String {
    let mut text = String::from("# What groupcommit does on this disk\n");
    for (index, run) in runs.iter().enumerate() {
        if runs.len() > 1 {
            line(&mut text, &format!("\n## Run {}", index + 1));
        }
        let environment = &run.results.environment;
        line(
            &mut text,
            &format!(
                "\n{}, {} cores, {} on {}, flush {:.0} µs at the median; groupcommit {} ({}), {}; {}.",
                environment.cpu_model,
                environment.cpu_cores,
                environment.os,
                environment.file_system.kind,
                environment.flush.overwrite_us.p50,
                environment.versions.groupcommit,
                environment.git_commit.get(..12).unwrap_or(&environment.git_commit),
                environment.versions.database(),
                environment.date,
            ),
        );
        for warning in run.warnings() {
            line(&mut text, &format!("\n**Warning.** {warning}"));
        }
        for section in &run.sections {
            add_section(&mut text, section);
        }
    }
    text
}

fn add_section(text: &mut String, section: &Section) {
    line(text, &format!("\n### {}\n\n{}", section.heading, section.question));
    for part in &section.parts {
        add_part(text, part);
    }
}

fn add_part(text: &mut String, part: &Part) {
    line(text, &format!("\n#### {}", part.disk.heading()));
    if !part.findings.is_empty() {
        line(text, "");
    }
    for finding in &part.findings {
        line(text, &format!("- {finding}"));
    }
    if let Some(table) = part.tables.first() {
        add_table(text, table);
    }
}

fn add_table(text: &mut String, table: &Table) {
    line(text, &format!("\n{}\n\n| {} |", table.caption, table.columns.join(" | ")));
    line(text, &format!("|{}", "---|".repeat(table.columns.len())));
    for row in &table.rows {
        line(text, &format!("| {} |", row.join(" | ")));
    }
    for note in &table.notes {
        line(text, &format!("\n{note}"));
    }
}

fn line(text: &mut String, content: &str) {
    // Writing to a string cannot fail.
    let _infallible = writeln!(text, "{content}");
}
