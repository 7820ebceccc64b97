//! A chart of lines: series over a shared horizontal axis, named in a key above the plot or, those
//! in grey, at their right ends, moved apart where they would touch.

use crate::report::axis::Axis;
use crate::report::drawing::{Anchor, Drawing, Marker, TextStyle};
use crate::report::head::{Head, Key, KeyMark, MARGIN};
use crate::report::text::{LABEL_SIZE, LINE_HEIGHT, width};

/// Lines in a plot.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LineChart {
    /// The key is added to by the series.
    pub(super) head: Head,
    pub(super) across: Axis,
    pub(super) upward: Axis,
    /// The first is drawn first, so behind the others.
    pub(super) series: Vec<Series>,
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    pub(super) name: String,
    /// The class that gives its colour.
    pub(super) class: String,
    pub(super) stroke: Stroke,
    /// From left to right.
    pub(super) points: Vec<(f64, f64)>,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stroke {
    /// A line with points on it, named in the key.
    Marked(Marker),
    /// A thin line in the background, named at its end.
    Background,
    /// Points alone, named in the key.
    Points(Marker),
}

const END_LABEL_HEIGHT: f64 = 16.0;

impl LineChart {
    /// Draws it `surface_width` pixels wide.
    pub(super) fn draw(&self, surface_width: f64) -> Drawing {
        let mut drawing = Drawing::new(self.head.title.as_str(), surface_width);
        let mut y = self.full_head().draw(&mut drawing) + LINE_HEIGHT;
        drawing.text((MARGIN, y), Anchor::Start, TextStyle::Muted, self.upward.full_name());
        y += 12.0;

        let left = MARGIN + self.upward.label_width() + 6.0;
        let end_labels = self.background().map(|series| width(&series.name, LABEL_SIZE));
        let end_label_width = end_labels.fold(0.0, f64::max);
        let right = surface_width
            - MARGIN
            - if end_label_width > 0.0 { end_label_width + 10.0 } else { 6.0 };
        let height = (0.55 * (right - left)).clamp(210.0, 340.0);
        let (top, bottom) = (y, y + height);

        self.upward.draw_left(&mut drawing, (left, right), (top, bottom));
        let end = self.across.draw_below(&mut drawing, (left, right), (top, bottom));
        drawing.line(&[(left, top), (left, bottom), (right, bottom)], "axis");
        let place = |(x, y): (f64, f64)| {
            (
                left + self.across.scale.position(x) * (right - left),
                bottom - self.upward.scale.position(y) * (bottom - top),
            )
        };
        for series in &self.series {
            let points: Vec<_> = series.points.iter().copied().map(place).collect();
            draw_series(&mut drawing, series, &points);
        }
        let ends: Vec<_> = self
            .background()
            .filter_map(|series| Some((place(*series.points.last()?), series.name.as_str())))
            .collect();
        for label in apart(ends, (top, bottom)) {
            let at = (right + 8.0, label.middle + 4.0);
            drawing.line(&[label.end, (right + 5.0, label.middle)], "leader");
            drawing.text(at, Anchor::Start, TextStyle::Muted, label.name);
        }
        drawing.height = end + MARGIN;
        drawing
    }

    fn background(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(|series| series.stroke == Stroke::Background)
    }

    fn full_head(&self) -> Head {
        let mut head = self.head.clone();
        for series in &self.series {
            let mark = match series.stroke {
                Stroke::Background => continue,
                Stroke::Marked(marker) => KeyMark::Line(marker),
                Stroke::Points(marker) => KeyMark::Point(marker),
            };
            let key = Key { mark, class: series.class.clone(), name: series.name.clone() };
            head.key.push(key);
        }
        head
    }
}

fn draw_series(drawing: &mut Drawing, series: &Series, points: &[(f64, f64)]) {
    let class = &series.class;
    match series.stroke {
        Stroke::Background => drawing.line(points, format!("line thin {class}")),
        Stroke::Marked(_) => drawing.line(points, format!("line {class}")),
        Stroke::Points(_) => {}
    }
    if let Stroke::Marked(marker) | Stroke::Points(marker) = series.stroke {
        // Points closer than their own size would hide the line.
        let mut last = f64::NEG_INFINITY;
        for (index, point) in points.iter().enumerate() {
            if point.0 - last >= 9.0
                || index + 1 == points.len()
                || series.stroke == Stroke::Points(marker)
            {
                drawing.marker(marker, *point, 4.0, class.clone());
                last = point.0;
            }
        }
    }
}

/// The name of a line, beside its end.
struct EndLabel<'a> {
    /// Where the line ends.
    end: (f64, f64),
    /// The height of the label's middle.
    middle: f64,
    name: &'a str,
}

/// Puts labels beside the ends of lines, moved up or down for none to touch the next.
fn apart(mut ends: Vec<((f64, f64), &str)>, (top, bottom): (f64, f64)) -> Vec<EndLabel<'_>> {
    ends.sort_by(|one, other| one.0.1.total_cmp(&other.0.1));
    let mut least = top;
    let mut labels = Vec::new();
    for (end, name) in ends {
        let middle = end.1.max(least);
        least = middle + END_LABEL_HEIGHT;
        labels.push(EndLabel { end, middle, name });
    }
    let mut most = bottom;
    for label in labels.iter_mut().rev() {
        label.middle = label.middle.min(most);
        most = label.middle - END_LABEL_HEIGHT;
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_move_apart_and_keep_their_order() {
        let ends = [(100.0, "b"), (99.0, "a"), (100.5, "c"), (20.0, "z")];
        let labels = apart(ends.map(|(y, name)| ((0.0, y), name)).to_vec(), (0.0, 110.0));
        let names: Vec<_> = labels.iter().map(|label| label.name).collect();
        assert_eq!(names, ["z", "a", "b", "c"]);
        assert!(labels.windows(2).all(|pair| pair[1].middle - pair[0].middle >= END_LABEL_HEIGHT));
        assert!(labels.iter().all(|label| (0.0..=110.0).contains(&label.middle)));
    }
}
