//! A chart as shapes and texts at their places, and the SVG made of them.
//!
//! 1. Colours are classes, so that one style sheet serves light and dark.
//! 2. Every text has a box that a test can hold against all the others.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};

/// The style that a chart needs wherever it stands.
const CHART_STYLE: &str = include_str!("chart.css");

/// Shapes and texts on a surface, in pixels from the upper left.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Drawing {
    /// What it shows, for those who do not see it.
    pub(super) title: String,
    pub(super) width: f64,
    pub(super) height: f64,
    shapes: Vec<Shape>,
    texts: Vec<Text>,
}

#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Rectangle { x: f64, y: f64, width: f64, height: f64, class: String },
    Path { path: String, class: String },
}

/// A line of text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Text {
    pub(super) x: f64,
    /// The line that the letters stand on.
    pub(super) baseline: f64,
    pub(super) anchor: Anchor,
    pub(super) style: TextStyle,
    pub(super) letters: String,
}

/// Which part of a text lies at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextStyle {
    Title,
    /// A heading inside a chart.
    Heading,
    Label,
    /// A figure or a remark.
    Muted,
    /// That a disk was simulated.
    Simulated,
}

/// What a point of a series looks like, so that series can be told apart without colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marker {
    Circle,
    Square,
    Diamond,
    Triangle,
    Cross,
}

impl TextStyle {
    fn class(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Heading => "heading",
            Self::Label => "label",
            Self::Muted => "muted",
            Self::Simulated => "simulated",
        }
    }
}

impl Drawing {
    pub(super) fn new(title: impl Into<String>, width: f64) -> Self {
        Self { title: title.into(), width, height: 0.0, shapes: Vec::new(), texts: Vec::new() }
    }

    pub(super) fn rectangle(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        class: impl Into<String>,
    ) {
        self.shapes.push(Shape::Rectangle { x, y, width, height, class: class.into() });
    }

    /// A line through `points`.
    pub(super) fn line(&mut self, points: &[(f64, f64)], class: impl Into<String>) {
        let mut path = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let _infallible = write!(path, "{command}{} {}", short(*x), short(*y));
        }
        self.shapes.push(Shape::Path { path, class: class.into() });
    }

    /// A point of a series, `radius` pixels from its middle to its edge.
    pub(super) fn marker(
        &mut self,
        marker: Marker,
        (x, y): (f64, f64),
        radius: f64,
        class: impl Into<String>,
    ) {
        let r = radius;
        let path = match marker {
            Marker::Circle => format!(
                "M{} {}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0z",
                short(x - r),
                short(y),
                d = 2.0 * r
            ),
            Marker::Square => {
                let side = 1.8 * r;
                let (x, y) = (short(x - side / 2.0), short(y - side / 2.0));
                format!("M{x} {y}h{side}v{side}h-{side}z", side = short(side))
            }
            Marker::Diamond => {
                let r = short(1.3 * r);
                format!("M{} {}l{r} {r}l{r} -{r}l-{r} -{r}z", short(x - 1.3 * radius), short(y))
            }
            Marker::Triangle => {
                let r = 1.2 * r;
                let (left, bottom) = (short(x - r), short(y + 0.8 * r));
                format!("M{left} {bottom}h{}L{} {}z", short(2.0 * r), short(x), short(y - r))
            }
            Marker::Cross => {
                let d = short(2.0 * r);
                let (left, right) = (short(x - r), short(x + r));
                let (top, bottom) = (short(y - r), short(y + r));
                format!("M{left} {top}l{d} {d}M{left} {bottom}L{right} {top}")
            }
        };
        let class = format!(
            "{} {}",
            if marker == Marker::Cross { "cross" } else { "marker" },
            class.into()
        );
        self.shapes.push(Shape::Path { path, class });
    }

    pub(super) fn text(
        &mut self,
        (x, baseline): (f64, f64),
        anchor: Anchor,
        style: TextStyle,
        text: impl Into<String>,
    ) {
        self.texts.push(Text { x, baseline, anchor, style, letters: text.into() });
    }

    /// As part of a page that has the chart style in its head.
    pub(super) fn markup(&self) -> Markup {
        self.svg(None)
    }

    /// As a file of its own.
    pub(super) fn file(&self) -> String {
        let mut text = self.svg(Some(CHART_STYLE)).into_string();
        text.push('\n');
        text
    }

    fn svg(&self, style: Option<&str>) -> Markup {
        let view = format!("0 0 {} {}", short(self.width), short(self.height));
        html! {
            svg xmlns=[style.map(|_| "http://www.w3.org/2000/svg")] class="chart" viewBox=(view)
                width=[style.map(|_| short(self.width))] role="img" aria-label=(self.title) {
                @if let Some(style) = style {
                    style { (PreEscaped(style)) }
                    rect class="paper" width="100%" height="100%" {}
                }
                @for shape in &self.shapes {
                    @match shape {
                        Shape::Rectangle { x, y, width, height, class } => {
                            rect class=(class) x=(short(*x)) y=(short(*y))
                                width=(short(width.max(0.0))) height=(short(height.max(0.0))) {}
                        }
                        Shape::Path { path, class } => path class=(class) d=(path) {},
                    }
                }
                @for text in &self.texts {
                    text class=(text.style.class()) x=(short(text.x)) y=(short(text.baseline))
                        text-anchor=[anchor(text.anchor)] { (text.letters) }
                }
            }
        }
    }

    #[cfg(test)]
    pub(super) fn texts(&self) -> &[Text] {
        &self.texts
    }
}

/// The style of charts for the head of a page.
pub(super) fn chart_style() -> &'static str {
    CHART_STYLE
}

fn anchor(anchor: Anchor) -> Option<&'static str> {
    match anchor {
        Anchor::Start => None,
        Anchor::Middle => Some("middle"),
        Anchor::End => Some("end"),
    }
}

/// A tenth of a pixel is fine enough.
fn short(pixels: f64) -> String {
    let rounded = (pixels * 10.0).round() / 10.0;
    if rounded == 0.0 { "0".to_owned() } else { rounded.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stands_alone_and_escapes_what_it_names() {
        let mut drawing = Drawing::new("a < b & \"c\"", 50.0);
        drawing.text((0.0, 12.0), Anchor::Start, TextStyle::Label, "p < 1 & q");
        let file = drawing.file();
        assert!(file.starts_with("<svg xmlns=") && file.contains("<style>"), "{file}");
        assert!(file.contains("p &lt; 1 &amp; q") && file.contains("a &lt; b &amp; &quot;c&quot;"));
        assert!(!drawing.markup().into_string().contains("<style>"));
    }
}
