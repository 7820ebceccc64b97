//! Axes: their lines, the values they name, and their unit.

use crate::report::drawing::{Anchor, Drawing, TextStyle};
use crate::report::scale::{Scale, Tick};
use crate::report::text::{LABEL_SIZE, LINE_HEIGHT, width, wrap};

/// An axis with its name, which says the unit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    /// What is measured, in which unit, as in `rows/s`.
    pub(super) name: String,
    pub(super) scale: Scale,
}

/// Blank between two labels of an axis.
const LABEL_GAP: f64 = 8.0;

impl Axis {
    pub(super) fn new(name: impl Into<String>, scale: Scale) -> Self {
        Self { name: name.into(), scale }
    }

    /// The name, saying so when the axis multiplies.
    pub(super) fn full_name(&self) -> String {
        if self.scale.is_logarithmic() {
            format!("{} (logarithmic)", self.name)
        } else {
            self.name.clone()
        }
    }

    /// The width of its widest label.
    pub(super) fn label_width(&self) -> f64 {
        let widths = self.scale.ticks().iter().map(|tick| width(&tick.label, LABEL_SIZE));
        widths.fold(0.0, f64::max)
    }

    /// Draws a horizontal axis below a plot from `top` to `bottom`, with lines across the plot, and
    /// returns where its texts end.
    pub(super) fn draw_below(
        &self,
        drawing: &mut Drawing,
        (left, right): (f64, f64),
        (top, bottom): (f64, f64),
    ) -> f64 {
        let x = |tick: &Tick| left + tick.position * (right - left);
        for tick in self.scale.ticks() {
            drawing.line(&[(x(tick), top), (x(tick), bottom)], "grid");
        }
        let mut free_from = f64::NEG_INFINITY;
        for tick in self.legible(right - left) {
            let half = width(&tick.label, LABEL_SIZE) / 2.0;
            let middle = x(tick).clamp(half, drawing.width - half);
            debug_assert!(middle - half >= free_from);
            free_from = middle + half;
            let at = (middle, bottom + LINE_HEIGHT + 3.0);
            drawing.text(at, Anchor::Middle, TextStyle::Muted, tick.label.as_str());
        }
        let mut y = bottom + LINE_HEIGHT + 5.0;
        for line in wrap(&self.full_name(), LABEL_SIZE, drawing.width - 20.0) {
            y += LINE_HEIGHT;
            let half = width(&line, LABEL_SIZE) / 2.0;
            let middle = f64::midpoint(left, right).clamp(half, drawing.width - half);
            drawing.text((middle, y), Anchor::Middle, TextStyle::Muted, line);
        }
        y
    }

    /// The ticks that can be named on `length` pixels: every one, every second, ...
    fn legible(&self, length: f64) -> Vec<&Tick> {
        let ticks = self.scale.ticks();
        (1..=ticks.len().max(1))
            .map(|step| ticks.iter().step_by(step).collect::<Vec<_>>())
            .find(|chosen| {
                chosen.windows(2).all(|pair| {
                    let apart = (pair[1].position - pair[0].position) * length;
                    let widths = pair.iter().map(|tick| width(&tick.label, LABEL_SIZE));
                    apart >= widths.sum::<f64>() / 2.0 + LABEL_GAP
                })
            })
            .unwrap_or_default()
    }

    /// Draws a vertical axis left of a plot from `top` to `bottom`, with lines across the plot.
    pub(super) fn draw_left(
        &self,
        drawing: &mut Drawing,
        (left, right): (f64, f64),
        (top, bottom): (f64, f64),
    ) {
        let mut free_below = f64::INFINITY;
        for tick in self.scale.ticks() {
            let y = bottom - tick.position * (bottom - top);
            drawing.line(&[(left, y), (right, y)], "grid");
            if y + 7.0 <= free_below {
                let at = (left - 6.0, y + 4.0);
                drawing.text(at, Anchor::End, TextStyle::Muted, tick.label.as_str());
                free_below = y - 7.0;
            }
        }
    }
}
