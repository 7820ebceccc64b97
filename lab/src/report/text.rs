//! The report for a terminal of 100 columns: findings and tables. Charts are left to the page.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, TableStyle};

use crate::environment::Environment;
use crate::measurement::Results;
use crate::report::model::{Column, Item, Report, Table};
use crate::report::sentence;

/// The columns of a terminal.
const WIDTH: usize = 100;

/// Where the name of a column is broken, at a blank or a soft hyphen.
const COLUMN_WIDTH: usize = 7;

/// Lines above, below and under the header; the columns are apart by blanks.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// Machine, disk and versions in a sentence.
#[must_use]
pub fn describe(environment: &Environment) -> String {
    wrap(&sentence(environment))
}

/// The report of one run.
#[must_use]
pub fn run(results: &Results) -> String {
    report(&Report::of(&[(String::new(), results.clone())]))
}

/// The whole report.
#[must_use]
pub fn report(report: &Report) -> String {
    let mut text = String::new();
    for run in &report.runs {
        line(&mut text, &wrap(&run.sentence));
    }
    for section in &report.sections {
        line(&mut text, &format!("\n{}\n{}", section.heading, wrap(section.question)));
        for part in &section.parts {
            line(&mut text, &format!("\n{}", part.heading));
            for finding in &part.body.findings {
                line(&mut text, &wrap(&format!("- {finding}")));
            }
            for item in &part.body.shown {
                if let Item::Table(shown) = item {
                    line(&mut text, &table(shown));
                }
            }
        }
        for (name, meaning) in &section.conditions {
            line(&mut text, &wrap(&format!("{name}: {meaning}.")));
        }
        for paragraph in section.how_to_read {
            line(&mut text, &wrap(paragraph));
        }
    }
    for run in &report.runs {
        for warning in &run.warnings {
            line(&mut text, &wrap(&format!("warning: {warning}")));
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// A table with its caption and notes.
#[must_use]
pub fn table(table: &Table) -> String {
    let mut drawn = comfy_table::Table::new();
    drawn.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
    drawn.set_header(table.columns.iter().map(head));
    for row in &table.rows {
        drawn.add_row(row);
    }
    for (index, column) in drawn.column_iter_mut().enumerate() {
        column.set_padding((0, 0));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = String::new();
    if !table.caption.is_empty() {
        line(&mut text, &wrap(&table.caption));
    }
    line(&mut text, &drawn.to_string());
    for note in &table.notes {
        line(&mut text, &wrap(note));
    }
    text.truncate(text.trim_end().len());
    text
}

fn head(column: &Column) -> String {
    let lines = fill(&column.name, COLUMN_WIDTH);
    let mut text = lines.replace("\u{ad}\n", "-\n").replace('\u{ad}', "");
    if !column.unit.is_empty() {
        text.push('\n');
        text.push_str(column.unit);
    }
    text
}

fn wrap(text: &str) -> String {
    fill(text, WIDTH)
}

/// Breaks lines at blanks and soft hyphens.
fn fill(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_inclusive([' ', '\u{ad}']) {
        let length = |text: &str| text.trim_end().chars().filter(|&c| c != '\u{ad}').count();
        if let Some(last) = lines.last_mut()
            && (last.is_empty() || length(&format!("{last}{word}")) <= width)
        {
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

fn line(text: &mut String, content: &str) {
    let _infallible = writeln!(text, "{content}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_blanks_and_hyphens() {
        assert_eq!(fill("one two three", 7), "one two\nthree");
        let column = Column { name: "opera\u{ad}tions/s".to_owned(), unit: "ms" };
        assert_eq!(head(&column), "opera-\ntions/s\nms");
    }
}
