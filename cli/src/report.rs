//! `groupcommit report`: a page with charts and tables from records that `groupcommit bench` left.
//!
//! The path of the page goes to standard output, the rest to standard error.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use groupcommit_lab::report::write_report;

use crate::exit::{Exit, Problem, explain};

/// Draw the records of `bench` as a page with charts and tables
///
/// Writes report.html, which needs no network, no script and no other file; the findings and first
/// tables also as summary.md, the charts as charts/*.svg and the records as csv/*.csv. Nothing is measured, so a report can be drawn again at
/// any time. Of several folders each becomes a chapter, and nothing is compared between them.
///
/// Exit codes: 0 written; 2 usage, no records, or a folder that cannot be written.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Folders with results.json, as given to `bench` by --out
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,

    /// Folder for the report [default: the first DIR]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Draws the report.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    let out = options.out.as_ref().unwrap_or(&options.folders[0]);
    let report = write_report(&options.folders, out)
        .map_err(|error| Problem::environment(explain(&error)))?;
    // A closed pipe does not undo what is written.
    drop(writeln!(std::io::stdout(), "{}", report.page.display()));
    drop(writeln!(
        std::io::stderr(),
        "with {} charts in {} and {} tables in {}",
        report.charts,
        out.join("charts").display(),
        report.tables,
        out.join("csv").display()
    ));
    Ok(Exit::Durable)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn a_folder_is_needed() {
        Program::try_parse_from(["report"]).expect_err("no folder");
    }

    #[test]
    fn a_folder_without_records_is_named_in_the_sentence() {
        let program = Program::try_parse_from(["report", "nowhere/at-all"]).expect("parses");
        let problem = run(&program.options).expect_err("no records");
        assert_eq!(problem.exit, Exit::Environment);
        assert!(problem.to_string().contains("nowhere/at-all"), "{problem}");
    }
}
