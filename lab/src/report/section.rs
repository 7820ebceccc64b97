//! What an experiment contributes to a report, before it becomes a page or files.

use crate::engine::Engine;
use crate::measurement::Measurement;
use crate::report::drawing::Drawing;
use crate::report::lines::LineChart;
use crate::report::rows::RowChart;

/// One experiment's part of a report.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Section {
    /// The experiment's name in the records; also begins the names of files.
    pub(super) name: &'static str,
    pub(super) heading: &'static str,
    /// One sentence: what was asked.
    pub(super) question: &'static str,
    /// One part a disk: as it is, and each simulated.
    pub(super) parts: Vec<Part>,
    /// Paragraphs.
    pub(super) how_to_read: Vec<String>,
    pub(super) published: Option<Table>,
}

/// What was measured on one disk.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    pub(super) disk: Disk,
    /// One sentence: what came out.
    pub(super) findings: Vec<String>,
    pub(super) charts: Vec<Figure>,
    pub(super) tables: Vec<Table>,
}

/// An engine on the disk as it is, or with a delay added to every flush.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Disk {
    /// `None` for SQLite, which goes without saying.
    pub(super) engine: Option<Engine>,
    pub(super) flush_delay_ms: Option<f64>,
}

/// A chart and where it goes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    /// The file's name without its ending.
    pub(super) file: String,
    pub(super) chart: Chart,
    /// Whether two of them stand side by side where there is room.
    pub(super) half: bool,
}

/// Either kind of chart.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Chart {
    Rows(RowChart),
    Lines(LineChart),
}

/// Columns of text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Table {
    pub(super) caption: String,
    pub(super) columns: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
    pub(super) notes: Vec<String>,
}

/// Width of a chart on a telephone.
const NARROW: f64 = 360.0;

impl Disk {
    pub(super) fn of(measurement: &Measurement) -> Self {
        let delayed = measurement.simulated || measurement.flush_delay_ms.is_some();
        let engine = measurement.engine.parse().ok().filter(|&engine| engine != Engine::Sqlite);
        let flush_delay_ms = delayed.then(|| measurement.flush_delay_ms.unwrap_or_default());
        Self { engine, flush_delay_ms }
    }

    pub(super) fn heading(self) -> String {
        match (self.engine, self.flush_delay_ms) {
            (None, None) => "The disk as it is".to_owned(),
            (Some(engine), None) => format!("{} on the disk as it is", engine.title()),
            (_, Some(delay_ms)) => format!("Simulated: {delay_ms} ms more for every flush"),
        }
    }

    /// For every chart and table of another engine, or of a simulated disk.
    pub(super) fn remark(self) -> Option<String> {
        let Some(delay_ms) = self.flush_delay_ms else {
            return self.engine.map(|engine| format!("Engine: {}.", engine.title()));
        };
        Some(format!("Simulated disk: {delay_ms} ms added to every flush."))
    }

    /// The end of a file's name.
    pub(super) fn suffix(self) -> String {
        let engine = self.engine.map(|engine| format!("-{engine}"));
        let delay = self.flush_delay_ms.map(|delay_ms| format!("-simulated-{delay_ms}ms"));
        [engine, delay].into_iter().flatten().collect()
    }
}

impl Figure {
    pub(super) fn wide(&self) -> Drawing {
        self.chart.draw(if self.half { 520.0 } else { 1060.0 })
    }

    pub(super) fn narrow(&self) -> Drawing {
        self.chart.draw(NARROW)
    }
}

impl Chart {
    fn draw(&self, width: f64) -> Drawing {
        match self {
            Self::Rows(chart) => chart.draw(width),
            Self::Lines(chart) => chart.draw(width),
        }
    }
}

/// Calls `make` with the measurements of each disk, in the order measured.
pub(super) fn parts<'a>(
    measurements: &[&'a Measurement],
    make: impl Fn(Disk, &[&'a Measurement]) -> Part,
) -> Vec<Part> {
    let mut disks: Vec<Disk> = Vec::new();
    for measurement in measurements {
        let disk = Disk::of(measurement);
        if !disks.contains(&disk) {
            disks.push(disk);
        }
    }
    disks.sort_by(|one, other| {
        let delay = |disk: &Disk| disk.flush_delay_ms.unwrap_or(-1.0);
        delay(one).total_cmp(&delay(other))
    });
    disks
        .into_iter()
        .map(|disk| {
            let own: Vec<_> =
                measurements.iter().copied().filter(|m| Disk::of(m) == disk).collect();
            make(disk, &own)
        })
        .collect()
}
