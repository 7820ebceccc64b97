//! The report: one page with charts and tables, drawn from records alone.
//!
//! ```text
//! results.json ──► case ──► section (charts, tables) ──► page     ──► report.html
//!                (repeats)   one module an experiment ──► drawing  ──► charts/*.svg
//!       └───────────────────────────────────────────────► export   ──► csv/*.csv
//! ```
//!
//! 1. Nothing is measured, looked up or dated here: the same records give the same bytes.
//! 2. The page needs no network, no script and no other file.
//! 3. Ratios are made within one run only, so never between machines, and only between figures of
//!    the same disk, so never between a real and a simulated one.
//! 4. Whatever comes from a simulated disk says so where it stands.
//! 5. Experiments without records are left out.

mod axis;
mod case;
mod distribution;
mod drawing;
mod envelope;
mod export;
mod head;
#[cfg(test)]
mod legible;
mod lines;
mod load;
mod mixed;
mod page;
mod published;
mod rows;
mod scale;
mod section;
mod summary;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod threads;
mod wal;
mod web;
mod write;

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::measurement::{Measurement, Results};
use crate::quality;
use crate::report::section::Section;

/// The name of the page in the folder.
pub const REPORT_FILE: &str = "report.html";

/// The name of the report in short, beside the page.
pub const SUMMARY_FILE: &str = "summary.md";

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The page.
    pub page: PathBuf,
    /// How many charts, as files in `charts`.
    pub charts: usize,
    /// How many tables of records, as files in `csv`.
    pub tables: usize,
}

/// The records of one folder, by experiment.
struct Run {
    /// Names the folder where there are several.
    name: String,
    results: Results,
    sections: Vec<Section>,
}

/// Draws the records in `folders` and writes [`REPORT_FILE`], [`SUMMARY_FILE`], `charts/*.svg` and
/// `csv/*.csv` to the folder `out`. Each folder is a chapter of its own, and nothing is compared between chapters.
///
/// # Errors
/// When a folder has no records, the records hold no measurement, or `out` cannot be written.
pub fn write_report(folders: &[PathBuf], out: &Path) -> Result<Report, LabError> {
    let runs = folders.iter().map(|folder| load(folder)).collect::<Result<Vec<_>, _>>()?;
    let mut charts = Vec::new();
    let mut tables = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        // Of several runs, each has files of its own.
        let prefix = if runs.len() > 1 { format!("{}-", index + 1) } else { String::new() };
        let parts = run.sections.iter().flat_map(|section| &section.parts);
        for figure in parts.flat_map(|part| &part.charts) {
            charts.push((format!("{prefix}{}.svg", figure.file), figure.wide().file()));
        }
        for (name, text) in export::files(&run.results.measurements)? {
            tables.push((format!("{prefix}{name}"), text));
        }
    }
    write_folder(&out.join("charts"), &charts)?;
    write_folder(&out.join("csv"), &tables)?;
    let page = out.join(REPORT_FILE);
    fs::write(&page, page::page(&runs)).map_err(LabError::io("write", &page))?;
    let short = out.join(SUMMARY_FILE);
    fs::write(&short, summary::summary(&runs)).map_err(LabError::io("write", &short))?;
    Ok(Report { page, charts: charts.len(), tables: tables.len() })
}

impl Run {
    /// What makes its figures less than they seem.
    fn warnings(&self) -> Vec<String> {
        let found = quality::warnings(&self.results);
        self.results.environment.warnings.iter().cloned().chain(found).collect()
    }
}

fn load(folder: &Path) -> Result<Run, LabError> {
    let results = Results::load(folder)?;
    if results.measurements.is_empty() {
        return Err(LabError::Options(format!(
            "the records in {} hold no measurement; run `groupcommit bench` with --out {}",
            folder.display(),
            folder.display()
        )));
    }
    Ok(Run {
        name: folder.display().to_string(),
        sections: sections(&results.measurements),
        results,
    })
}

/// The experiments that have records, in the order of their publication.
fn sections(measurements: &[Measurement]) -> Vec<Section> {
    [
        write::section(measurements),
        mixed::section(measurements),
        threads::section(measurements),
        load::section(measurements),
        web::section(measurements),
        wal::section(measurements),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn write_folder(folder: &Path, files: &[(String, String)]) -> Result<(), LabError> {
    fs::create_dir_all(folder).map_err(LabError::io("create the folder", folder))?;
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).map_err(LabError::io("write", &path))?;
    }
    Ok(())
}
