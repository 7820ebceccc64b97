//! A chart of rows: each a name, a mark on a shared horizontal axis, and a figure. Names and figures
//! have columns (on a narrow surface: lines) of their own, so they cannot run into the marks.

use crate::report::axis::Axis;
use crate::report::drawing::{Anchor, Drawing, Marker, TextStyle};
use crate::report::head::{Head, MARGIN};
use crate::report::text::{LABEL_SIZE, LINE_HEIGHT, width};

/// Rows in groups, along one axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RowChart {
    pub(super) head: Head,
    pub(super) axis: Axis,
    pub(super) groups: Vec<RowGroup>,
}

/// Rows under a heading.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RowGroup {
    pub(super) heading: String,
    pub(super) rows: Vec<Row>,
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) name: String,
    /// The class that gives its colour.
    pub(super) class: String,
    pub(super) mark: Mark,
    /// The figure, in the unit of the axis.
    pub(super) figure: String,
}

/// What stands for the values of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Mark {
    /// Lengths laid end to end, each with a class of its own, and the least and the most.
    Bar { parts: Vec<(f64, &'static str)>, spread: Option<(f64, f64)> },
    /// Minimum, quartiles and a high percentile, and a point further out.
    Box { low: f64, quarter: f64, middle: f64, three_quarters: f64, high: f64, most: f64 },
    /// One point a reading.
    Points(Vec<(f64, Marker)>),
}

/// Below this width names stand above their marks.
const NARROW: f64 = 480.0;
const MARK_HEIGHT: f64 = 13.0;
/// Headings are bold, so wider.
const BOLD_SIZE: f64 = 1.07 * LABEL_SIZE;

impl RowChart {
    /// Draws it `width` pixels wide.
    pub(super) fn draw(&self, surface_width: f64) -> Drawing {
        let mut drawing = Drawing::new(self.head.title.as_str(), surface_width);
        let narrow = surface_width < NARROW;
        let rows = || self.groups.iter().flat_map(|group| &group.rows);
        let widest = |text: fn(&Row) -> &str| {
            rows().map(|row| width(text(row), LABEL_SIZE)).fold(0.0, f64::max)
        };
        let half_label = self.axis.label_width() / 2.0;
        let (left, right) = if narrow {
            (MARGIN.max(half_label), surface_width - MARGIN.max(half_label))
        } else {
            let headings = self.groups.iter().map(|group| width(&group.heading, BOLD_SIZE));
            let headings = headings.fold(0.0, f64::max);
            let names = widest(|row| &row.name).max(headings);
            let figures = widest(|row| &row.figure).max(half_label);
            (MARGIN + names + 12.0, surface_width - MARGIN - figures - 12.0)
        };

        // Places first, then the lines of the axis, then what stands upon them.
        let mut y = self.head.draw(&mut drawing);
        let top = y;
        let mut places = Vec::new();
        for group in &self.groups {
            if !group.heading.is_empty() {
                y += 24.0;
                drawing.text((MARGIN, y - 6.0), Anchor::Start, TextStyle::Heading, &*group.heading);
            }
            for row in &group.rows {
                if narrow {
                    y += LINE_HEIGHT + 2.0;
                    drawing.text((MARGIN, y - 3.0), Anchor::Start, TextStyle::Label, &*row.name);
                    let both = width(&row.name, LABEL_SIZE) + width(&row.figure, LABEL_SIZE);
                    if both + 10.0 > surface_width - 2.0 * MARGIN {
                        y += LINE_HEIGHT;
                    }
                    let at = (surface_width - MARGIN, y - 3.0);
                    drawing.text(at, Anchor::End, TextStyle::Label, &*row.figure);
                } else {
                    let baseline = y + 14.0;
                    drawing.text(
                        (left - 12.0, baseline),
                        Anchor::End,
                        TextStyle::Label,
                        &*row.name,
                    );
                    let at = (surface_width - MARGIN, baseline);
                    drawing.text(at, Anchor::End, TextStyle::Label, &*row.figure);
                }
                places.push((row, y + 10.0));
                y += 20.0;
            }
        }
        let bottom = y + 4.0;
        // On a narrow surface the lines would run through the names.
        let lines_from = if narrow { bottom - 5.0 } else { top };
        let end = self.axis.draw_below(&mut drawing, (left, right), (lines_from, bottom));
        drawing.line(&[(left, bottom), (right, bottom)], "axis");
        for (row, middle) in places {
            self.draw_mark(&mut drawing, row, (left, right), middle);
        }
        drawing.height = end + MARGIN;
        drawing
    }

    fn draw_mark(&self, drawing: &mut Drawing, row: &Row, (left, right): (f64, f64), middle: f64) {
        let x = |value: f64| left + self.axis.scale.position(value) * (right - left);
        let (top, class) = (middle - MARK_HEIGHT / 2.0, &row.class);
        match &row.mark {
            Mark::Bar { parts, spread } => {
                let mut sum = 0.0;
                let mut from = left;
                for (length, shade) in parts {
                    sum += length;
                    let to = x(sum);
                    let size = ((to - from).max(1.0), MARK_HEIGHT);
                    drawing.rectangle((from, top), size, format!("bar {class} {shade}"));
                    from = to;
                }
                if let Some((least, most)) = spread {
                    draw_whisker(drawing, (x(*least), x(*most)), middle, 3.0);
                }
            }
            Mark::Box { low, quarter, middle: median, three_quarters, high, most } => {
                draw_whisker(drawing, (x(*low), x(*high)), middle, 4.0);
                let size = ((x(*three_quarters) - x(*quarter)).max(2.0), MARK_HEIGHT);
                drawing.rectangle((x(*quarter), top), size, format!("bar {class}"));
                let line = [(x(*median), top - 1.0), (x(*median), top + MARK_HEIGHT + 1.0)];
                drawing.line(&line, "middle");
                drawing.marker(Marker::Circle, (x(*most), middle), 3.0, class.clone());
            }
            Mark::Points(points) => {
                let places = points.iter().map(|(value, _)| x(*value));
                let (from, to) =
                    places.fold((right, left), |(from, to), at| (at.min(from), at.max(to)));
                drawing.line(&[(from, middle), (to, middle)], format!("line thin {class}"));
                for (value, marker) in points {
                    // The first may lie below the second, and still shows around it.
                    let radius = if *marker == Marker::Circle { 6.5 } else { 3.2 };
                    drawing.marker(*marker, (x(*value), middle), radius, class.clone());
                }
            }
        }
    }
}

fn draw_whisker(drawing: &mut Drawing, (from, to): (f64, f64), middle: f64, half: f64) {
    drawing.line(&[(from, middle), (to, middle)], "whisker");
    for end in [from, to] {
        drawing.line(&[(end, middle - half), (end, middle + half)], "whisker");
    }
}
