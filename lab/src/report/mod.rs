//! The report: records become one [`Report`], which is shown as text, as a page or as
//! Markdown.
//!
//! 1. Nothing is measured, looked up or dated here: the same records give the same bytes.
//! 2. The page needs no network, no script and no other file.
//! 3. Figures of a simulated disk say so where they stand.
//! 4. Experiments without records are left out.

mod case;
mod chart;
mod html;
mod large;
mod load;
pub mod markdown;
mod mixed;
pub mod model;
pub mod number;
mod published;
pub mod text;
mod threads;
mod wal;
mod web;
mod write;

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::error::LabError;
use crate::measurement::{Measurement, Results};
use crate::quality;
use case::{Case, Setup, cases};
use model::{Body, Chart, Item, Part, Report, Run, Section};
use number::{grouped, significant};

pub use chart::svg;

/// The name of the page in the folder.
pub const REPORT_FILE: &str = "report.html";

/// The sections, in the order of their publication.
const SPECS: [Spec; 7] =
    [write::SPEC, mixed::SPEC, threads::SPEC, load::SPEC, large::SPEC, web::SPEC, wal::SPEC];

/// How an experiment is reported.
struct Spec {
    experiment: &'static str,
    heading: &'static str,
    question: &'static str,
    how_to_read: &'static [&'static str],
    body: fn(Setup, &[Case<'_>]) -> Body,
}

/// Reads the records at each of `paths`: a folder given by `--out`, or a file of records.
///
/// # Errors
/// When a path holds no records, or the records hold no measurement.
pub fn load_all(paths: &[PathBuf]) -> Result<Vec<(String, Results)>, LabError> {
    let load = |path: &PathBuf| {
        let results = if path.is_dir() { Results::load(path) } else { Results::load_file(path) }?;
        if results.measurements.is_empty() {
            return Err(LabError::Options(format!(
                "the records at {} hold no measurement",
                path.display()
            )));
        }
        Ok((path.display().to_string(), results))
    };
    paths.iter().map(load).collect()
}

/// Writes [`REPORT_FILE`] and `charts/*.svg` to the folder `out`, and returns the page.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_page(runs: &[(String, Results)], out: &Path) -> Result<PathBuf, LabError> {
    let report = Report::of(runs);
    let charts = report.charts().map(|chart| (format!("{}.svg", chart.name), svg(chart))).collect();
    write_folder(&out.join("charts"), charts)?;
    write_folder(out, vec![(REPORT_FILE.to_owned(), html::page(&report))])?;
    Ok(out.join(REPORT_FILE))
}

fn write_folder(folder: &Path, files: Vec<(String, String)>) -> Result<(), LabError> {
    fs::create_dir_all(folder).map_err(LabError::io("create the folder", folder))?;
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).map_err(LabError::io("write", &path))?;
    }
    Ok(())
}

impl Report {
    /// The report of `runs`, each with what to call it.
    #[must_use]
    pub fn of(runs: &[(String, Results)]) -> Self {
        Self {
            runs: runs.iter().map(|(name, results)| run(name, results)).collect(),
            sections: SPECS.iter().filter_map(|spec| spec.section(runs)).collect(),
        }
    }

    /// Every chart.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        let bodies = self.sections.iter().flat_map(|section| &section.parts).map(|part| &part.body);
        bodies.flat_map(|body| body.shown.iter().chain(&body.more)).filter_map(|item| match item {
            Item::Chart(chart) => Some(chart),
            Item::Table(_) => None,
        })
    }
}

impl Spec {
    fn section(&self, runs: &[(String, Results)]) -> Option<Section> {
        let is_own = |m: &&Measurement| m.experiment == self.experiment;
        let mut parts: Vec<Part> = Vec::new();
        let mut conditions = Vec::new();
        for (run, (name, results)) in runs.iter().enumerate() {
            let own: Vec<&Measurement> = results.measurements.iter().filter(is_own).collect();
            let mut setups: Vec<Setup> = own.iter().map(|m| Setup::of(m)).collect();
            setups.sort_by(|one, other| {
                one.flush_delay_ms.unwrap_or(-1.0).total_cmp(&other.flush_delay_ms.unwrap_or(-1.0))
            });
            setups.dedup();
            let several = runs.len() > 1;
            let title = results.title.as_ref().or(several.then_some(name));
            for setup in setups {
                let cases = cases(own.iter().copied().filter(|m| Setup::of(m) == setup));
                for case in &cases {
                    let entry = (case.name(&[]), case.condition().meaning());
                    if !conditions.contains(&entry) {
                        conditions.push(entry);
                    }
                }
                let mut body = (self.body)(setup, &cases);
                body.finish(setup, several.then_some(run + 1));
                let heading = setup.heading(title);
                let simulated = setup.flush_delay_ms.is_some();
                parts.push(Part { heading, run, simulated, body });
            }
        }
        (!parts.is_empty()).then_some(Section {
            name: self.experiment,
            heading: self.heading,
            question: self.question,
            how_to_read: self.how_to_read,
            conditions,
            parts,
        })
    }
}

impl Body {
    /// Leaves out charts that show nothing, tells of a simulated disk, and gives each chart a file of its own.
    fn finish(&mut self, setup: Setup, run: Option<usize>) {
        for items in [&mut self.shown, &mut self.more] {
            items.retain(Item::shows_something);
            for item in items {
                match item {
                    Item::Chart(chart) => {
                        let run = run.map(|run| format!("{run}-")).unwrap_or_default();
                        chart.name = format!("{run}{}{}", chart.name, setup.suffix());
                        let remark = setup.remark().map(|remark| format!("{remark} "));
                        chart.note.insert_str(0, &remark.unwrap_or_default());
                    }
                    Item::Table(table) => table.notes.extend(setup.remark()),
                }
            }
        }
    }
}

fn run(name: &str, results: &Results) -> Run {
    let environment = &results.environment;
    let warnings = environment.warnings.iter().cloned().chain(quality::warnings(results)).collect();
    Run {
        name: results.title.clone().unwrap_or_else(|| name.to_owned()),
        sentence: sentence(environment),
        facts: facts(environment),
        warnings,
    }
}

fn commit(environment: &Environment) -> String {
    let dirty = if environment.git_dirty == Some(true) { " with local changes" } else { "" };
    let commit = environment.git_commit.get(..12).unwrap_or(&environment.git_commit);
    format!("{commit}{dirty}")
}

/// Machine, disk, database, commit and date.
fn sentence(environment: &Environment) -> String {
    format!(
        "{}, {} cores, {} on {}, a flush takes {} µs (median; {} µs where the file grows); {}, {} build of commit \
         {}, {}.",
        environment.cpu_model,
        environment.cpu_cores,
        environment.kernel,
        environment.file_system.kind,
        significant(environment.flush.overwrite_us.p50),
        significant(environment.flush.extend_us.p50),
        environment.versions.database(),
        environment.build_profile,
        commit(environment),
        environment.date.split('T').next().unwrap_or_default(),
    )
}

fn facts(environment: &Environment) -> Vec<(&'static str, String)> {
    let disk = &environment.file_system;
    let flush = &environment.flush;
    let load = environment.load_average.map(|load| format!("{load:.2}")).join(", ");
    vec![
        ("Processor", format!("{}, {} cores", environment.cpu_model, environment.cpu_cores)),
        ("Memory", format!("{:.1} GiB", environment.memory_bytes as f64 / f64::from(1 << 30))),
        ("System", format!("{}, {}", environment.os, environment.kernel)),
        ("Disk", format!("{} on {} ({})", disk.kind, disk.device, disk.mount_point.display())),
        (
            "Flush, p50 and p99",
            format!(
                "{} and {} µs; where the file grows {} and {} µs",
                significant(flush.overwrite_us.p50),
                significant(flush.overwrite_us.p99),
                significant(flush.extend_us.p50),
                significant(flush.extend_us.p99)
            ),
        ),
        (
            "Versions",
            format!(
                "groupcommit {} ({}), {}, {}, {} build",
                environment.versions.groupcommit,
                commit(environment),
                environment.versions.database(),
                environment.versions.rustc.split(" (").next().unwrap_or_default(),
                environment.build_profile
            ),
        ),
        ("Load at the start", format!("{load} (1, 5 and 15 minutes)")),
        (
            "The lab's own cost",
            format!("{} ns per transaction", grouped(environment.lab_cost_ns_per_transaction)),
        ),
        ("Measured", format!("{}, by `{}`", environment.date, environment.command_line)),
    ]
}
