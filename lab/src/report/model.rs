//! The model of a report: tables and charts, without a word on how they are drawn.
//!
//! ```text
//! records ──► case ──► one module per experiment ──► Report ──► text      (terminal)
//!           (repeats)  (write, mixed, threads, ...)         ├─► html      (page, charts by `chart`)
//!                                                           └─► markdown  (documents)
//! ```
//!
//! 1. The model is made once, from records alone. The three renderers show the same figures.
//! 2. A ratio is the quotient of two medians that stand in the same table, so that a reader can check
//!    it. Nothing is divided across runs or across disks.
//! 3. Effective throughput comes before plain rows/s. It is the published metric, and rows/s alone
//!    rewards making callers wait.
//! 4. A chart shows something that a table cannot: without two points on a line there is none.

/// Everything that is drawn of one or more runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Where each run was measured.
    pub runs: Vec<Run>,
    /// The experiments that have records, in the order of their publication.
    pub sections: Vec<Section>,
}

/// Where and with what a run was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What the run is called where there are several.
    pub name: String,
    /// Machine, disk, versions and date in one sentence.
    pub sentence: String,
    /// The same in detail: a name and what there is to say.
    pub facts: Vec<(&'static str, String)>,
    /// Reasons to doubt the figures.
    pub warnings: Vec<String>,
}

/// One experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// The experiment's name in the records.
    pub name: &'static str,
    /// The heading.
    pub heading: &'static str,
    /// One sentence: what the experiment asks.
    pub question: &'static str,
    /// How to read the figures, a paragraph each.
    pub how_to_read: &'static [&'static str],
    /// The conditions that occur, and who commits in each.
    pub conditions: Vec<(String, &'static str)>,
    /// One part per run and disk.
    pub parts: Vec<Part>,
}

/// What was measured in one run on one disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The engine and the disk.
    pub heading: String,
    /// The run in which it was measured: its place in [`Report::runs`].
    pub run: usize,
    /// Whether flushes were slowed down, so that the figures belong to no real disk.
    pub simulated: bool,
    /// What the experiment shows.
    pub body: Body,
}

/// Findings, tables and charts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Body {
    /// One sentence each; the first is the most important.
    pub findings: Vec<String>,
    /// What every reader sees.
    pub shown: Vec<Item>,
    /// What a page folds away.
    pub more: Vec<Item>,
}

/// A table or a chart.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A table.
    Table(Table),
    /// A chart.
    Chart(Chart),
}

impl Item {
    /// Whether it tells more than a sentence would: a line needs two points, a row another to be compared
    /// with.
    pub(super) fn shows_something(&self) -> bool {
        match self {
            Self::Table(table) => !table.rows.is_empty(),
            Self::Chart(Chart { plot: Plot::Lines { series, .. }, .. }) => {
                series.iter().any(|series| series.points.len() > 1)
            }
            Self::Chart(Chart { plot: Plot::Points { rows, .. }, .. }) => {
                rows.iter().filter(|row| matches!(row, Row::Point { .. })).count() > 1
            }
        }
    }
}

/// Columns of text. All but the first column hold figures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// What it shows; may be empty.
    pub caption: String,
    /// The heads of the columns.
    pub columns: Vec<Column>,
    /// Cells, as many as columns.
    pub rows: Vec<Vec<String>>,
    /// What has to be known to read it, a sentence or two each.
    pub notes: Vec<String>,
}

/// The head of a column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Column {
    /// What the column holds.
    pub name: String,
    /// Its unit; empty for counts and names.
    pub unit: &'static str,
}

/// A column of rows of `R`: its name, its unit, and what its cells show.
type Cells<'a, R> = (&'a str, &'static str, &'a dyn Fn(&R) -> String);

impl Table {
    /// A table with a row for each of `rows`.
    pub fn of<R>(rows: impl IntoIterator<Item = R>, columns: &[Cells<'_, R>]) -> Self {
        let head = |&(name, unit, _): &Cells<'_, R>| Column { name: name.to_owned(), unit };
        let row = |row| columns.iter().map(|(_, _, cell)| cell(&row)).collect();
        Self {
            columns: columns.iter().map(head).collect(),
            rows: rows.into_iter().map(row).collect(),
            ..Self::default()
        }
    }

    /// With a caption.
    #[must_use]
    pub fn with_caption(self, caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), ..self }
    }

    /// With these notes.
    #[must_use]
    pub fn with_notes(self, notes: Vec<String>) -> Self {
        Self { notes, ..self }
    }

    /// With one more note.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

/// A chart of figures over an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The name of its file, without an ending.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// What has to be known to read it.
    pub note: String,
    /// What is drawn.
    pub plot: Plot,
}

/// The two kinds of charts.
#[derive(Debug, Clone, PartialEq)]
pub enum Plot {
    /// One line per series.
    Lines {
        /// Across.
        x: Axis,
        /// Upward.
        y: Axis,
        /// In the order drawn: the last is in front.
        series: Vec<Series>,
    },
    /// One row per case: a point with its range.
    Points {
        /// Across.
        axis: Axis,
        /// From top to bottom.
        rows: Vec<Row>,
    },
}

/// What an axis means, and how values lie on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// What is measured, with its unit.
    pub label: &'static str,
    /// How values lie.
    pub scale: Scale,
}

/// How values lie on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// From zero, equal steps.
    Linear,
    /// Each step ten times the one before.
    Log,
    /// As `Log`, with the values themselves marked.
    Doubling,
    /// Shares of a distribution, the tail spread out.
    Percentile,
}

/// What is drawn in which colour: the same everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// groupcommit, with transactions in flight.
    Ours,
    /// groupcommit, with callers that block.
    OursBlocking,
    /// What ratios refer to.
    Reference,
    /// The engine as it comes.
    Plain,
    /// Another way of using the engine.
    Other,
    /// One of many, not named.
    Background,
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Stands at its end.
    pub name: String,
    /// Its colour.
    pub role: Role,
    /// In ascending order across.
    pub points: Vec<(f64, f64)>,
}

/// One row of a chart of points.
#[derive(Debug, Clone, PartialEq)]
pub enum Row {
    /// Stands above the rows that follow.
    Heading(String),
    /// A case.
    Point {
        /// Its name.
        name: String,
        /// Its colour.
        role: Role,
        /// Drawn hollow when a power cut could undo it.
        durable: bool,
        /// The median.
        value: f64,
        /// The least and the most.
        range: (f64, f64),
        /// The middle half of a distribution.
        quartiles: Option<(f64, f64)>,
    },
}
