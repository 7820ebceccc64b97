//! Charts as SVG, drawn by `plotters`.
//!
//! Bars are never drawn: on a logarithmic axis a bar has no length, so a case is a point with its range.
//! Colours are those of Okabe and Ito, darker or lighter as the reader's colour scheme asks. Each line is
//! named at its end, so that nobody has to match colours with a key.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::model::{Axis, Chart, Plot, Role, Row, Scale, Series};
use crate::report::number::short;

const PAPER: RGBColor = RGBColor(255, 255, 255);
const INK: RGBColor = RGBColor(36, 41, 47);
const MUTED: RGBColor = RGBColor(87, 96, 106);
const GRID: RGBColor = RGBColor(216, 222, 228);

/// Every colour, and what it becomes on a dark page.
const DARK: [(RGBColor, &str); 10] = [
    (PAPER, "#14181d"),
    (INK, "#e6edf3"),
    (MUTED, "#9da7b1"),
    (GRID, "#2d343c"),
    (colour(Role::Ours), "#ff8a4c"),
    (colour(Role::OursBlocking), "#f0c36a"),
    (colour(Role::Reference), "#6cb6ff"),
    (colour(Role::Plain), "#8ddb8c"),
    (colour(Role::Other), "#e29ac4"),
    (colour(Role::Background), "#4b545e"),
];

const fn colour(role: Role) -> RGBColor {
    match role {
        Role::Ours => RGBColor(196, 72, 0),
        Role::OursBlocking => RGBColor(176, 118, 0),
        Role::Reference => RGBColor(0, 98, 166),
        Role::Plain => RGBColor(0, 116, 84),
        Role::Other => RGBColor(166, 76, 130),
        Role::Background => RGBColor(190, 196, 202),
    }
}

/// Size of labels, of which `plotters` makes 12.5 pixels, and about how wide a letter is then.
const SIZE: f64 = 15.5;
const LETTER: f64 = 6.8;

/// Height of a row of points, and of a line of text.
const ROW: u32 = 24;
const LINE: u32 = 18;

/// Widths on a screen and on a telephone.
pub(super) const WIDE: u32 = 760;
pub(super) const NARROW: u32 = 350;

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Plane = Cartesian2d<Mapping, Mapping>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// The colours of charts on a dark page.
pub(super) fn style() -> String {
    let hex = |RGBColor(r, g, b): RGBColor| format!("#{r:02X}{g:02X}{b:02X}");
    let rules = DARK.map(|(light, dark)| {
        let light = hex(light);
        format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}")
    });
    format!("@media (prefers-color-scheme:dark){{{}}}", rules.concat())
}

/// The chart as a file, with its title.
#[must_use]
pub fn svg(chart: &Chart) -> String {
    let bare = draw(chart, WIDE, true);
    let end = bare.find('>').map_or(0, |end| end + 1);
    format!("{}<style>{}</style>{}", &bare[..end], style(), &bare[end..])
}

/// The chart as a part of a page, which has its title and [`style`].
pub(super) fn draw(chart: &Chart, width: u32, titled: bool) -> String {
    let mut svg = String::new();
    let title = if titled { LINE + 10 } else { 0 };
    let height = title + height(&chart.plot, width);
    {
        let root = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        let (head, body) = root.split_vertically(title);
        // Drawing into a string fails in no way that a caller could mend.
        let _infallible = root.fill(&PAPER);
        if titled {
            let _infallible = text(&head, &chart.title, (12, 9), HPos::Left, SIZE + 3.0, INK);
        }
        let _infallible = match &chart.plot {
            Plot::Lines { x, y, series } => lines(&body, x, y, series),
            Plot::Points { axis, rows } => points(&body, axis, rows),
        };
        let _infallible = root.present();
    }
    let label = chart.title.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    svg.replacen("<svg ", &format!("<svg class=\"chart\" role=\"img\" aria-label=\"{label}\" "), 1)
}

fn height(plot: &Plot, width: u32) -> u32 {
    match plot {
        Plot::Lines { series, .. } => {
            let named = series.iter().filter(|series| series.role != Role::Background).count();
            if width > NARROW { 360 } else { 270 + LINE * u32::try_from(named).unwrap_or(0) }
        }
        Plot::Points { rows, .. } => {
            let above = if width > NARROW { 0 } else { LINE };
            let row = |row: &Row| if matches!(row, Row::Heading(_)) { ROW } else { ROW + above };
            rows.iter().map(row).sum::<u32>() + 56
        }
    }
}

fn pixels(width: f64) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "a few thousand pixels at most")]
    let pixels = width.ceil() as i32;
    pixels
}

fn wide(text: &str) -> i32 {
    pixels(text.chars().count() as f64 * LETTER)
}

fn text(
    area: &Area<'_>,
    what: &str,
    at: (i32, i32),
    anchor: HPos,
    size: f64,
    colour: RGBColor,
) -> Drawn {
    let style = ("sans-serif", size).into_font().color(&colour).pos(Pos::new(anchor, VPos::Center));
    area.draw(&Text::new(what.to_owned(), at, style))?;
    Ok(())
}

/// Where a value lies, before it becomes a pixel.
fn position(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Linear => value,
        Scale::Log | Scale::Doubling => value.max(f64::MIN_POSITIVE).log10(),
        Scale::Percentile => -(1.0 - value).max(1e-9).log10(),
    }
}

/// The values that are marked, in ascending order; the first and the last bound the axis.
fn ticks(scale: Scale, values: &[f64]) -> Vec<f64> {
    let sound = |&value: &f64| value.is_finite() && (scale != Scale::Log || value > 0.0);
    let mut values: Vec<f64> = values.iter().copied().filter(sound).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let (Some(&low), Some(&high)) = (values.first(), values.last()) else {
        return vec![0.0, 1.0];
    };
    match scale {
        Scale::Doubling => values,
        Scale::Percentile => vec![0.0, 0.5, 0.9, 0.99, 0.999, 0.9999],
        Scale::Linear => {
            let step = 10_f64.powf((high.max(1e-9) / 4.0).log10().floor());
            let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * step);
            let step = step.into_iter().find(|step| high / step <= 5.0).unwrap_or(high);
            let steps = pixels(high / step);
            (0..=steps).map(|number| f64::from(number) * step).collect()
        }
        Scale::Log => {
            let (from, to) = (pixels(low.log10()) - 1, pixels(high.log10()));
            let marks =
                (from..=to).flat_map(|power| [1.0, 2.0, 5.0].map(|n| n * 10_f64.powi(power)));
            let marks: Vec<f64> = marks.collect();
            let start = marks.iter().rposition(|&mark| mark <= low).unwrap_or(0);
            let end = marks.iter().position(|&mark| mark >= high).unwrap_or(marks.len() - 1);
            marks[start..=end.max(start + 1).min(marks.len() - 1)].to_vec()
        }
    }
}

/// How values become pixels, and which are marked.
#[derive(Clone)]
struct Mapping {
    scale: Scale,
    /// Of positions.
    range: Range<f64>,
    /// Values.
    marks: Vec<f64>,
}

impl Mapping {
    fn of(scale: Scale, values: &[f64], marks_max: usize) -> Self {
        let ticks = ticks(scale, values);
        let at = |value: &f64| position(scale, *value);
        let (low, high) = (ticks.first().map_or(0.0, at), ticks.last().map_or(1.0, at));
        let pad = if scale == Scale::Doubling { 0.03 * (high - low).max(0.1) } else { 0.0 };
        let powers = |value: &&f64| {
            scale != Scale::Log || high - low < 1.5 || (at(value) - at(value).round()).abs() < 1e-9
        };
        let shown: Vec<f64> = ticks.iter().filter(powers).copied().collect();
        let every = shown.len().div_ceil(marks_max.max(1)).max(1);
        let marks = shown.into_iter().rev().step_by(every).collect();
        Self { scale, range: low - pad..high.max(low + 1e-9) + pad, marks }
    }
}

impl Ranged for Mapping {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let at = position(self.scale, *value).clamp(self.range.start, self.range.end);
        let share = (at - self.range.start) / (self.range.end - self.range.start);
        from + pixels(share * f64::from(to - from))
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Mapping {
    fn format_ext(&self, value: &f64) -> String {
        match self.scale {
            Scale::Percentile => format!("{}%", value * 100.0),
            Scale::Log if *value < 1.0 => format!("{value:.3}").trim_end_matches('0').to_owned(),
            Scale::Linear | Scale::Doubling | Scale::Log => trim(&short(*value)),
        }
    }
}

/// `1.00k` is `1k` on an axis.
fn trim(number: &str) -> String {
    let digits = number.trim_end_matches(['k', 'M']);
    let unit = &number[digits.len()..];
    let digits = if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    };
    format!("{digits}{unit}")
}

fn lines(area: &Area<'_>, x: &Axis, y: &Axis, series: &[Series]) -> Drawn {
    let (width, height) = area.dim_in_pixel();
    let narrow = width <= NARROW;
    let named: Vec<&Series> =
        series.iter().filter(|series| series.role != Role::Background).collect();
    let longest = named.iter().map(|series| wide(&series.name)).max().unwrap_or(0);
    let key = if narrow { LINE * u32::try_from(named.len())? } else { 0 };
    let (plot, below) = area.split_vertically(height - key);
    let values = |of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        series.iter().flat_map(|series| &series.points).map(of).collect()
    };
    let across = Mapping::of(x.scale, &values(|point| point.0), if narrow { 6 } else { 12 });
    let upward = Mapping::of(y.scale, &values(|point| point.1), 8);
    let mut chart = ChartBuilder::on(&plot)
        .margin_top(LINE + 8)
        .margin_left(8)
        .margin_right(if narrow { 18 } else { longest + 22 })
        .x_label_area_size(40)
        .y_label_area_size(44)
        .build_cartesian_2d(across, upward)?;
    mesh(&mut chart, x.label)?;
    text(&plot, y.label, (12, 10), HPos::Left, SIZE, MUTED)?;
    for series in series {
        let points = || series.points.iter().copied();
        let colour = colour(series.role);
        let background = series.role == Role::Background;
        let style = colour.stroke_width(if background { 1 } else { 2 });
        chart.draw_series(LineSeries::new(points(), style))?;
        if !background {
            chart.draw_series(points().map(|at| Circle::new(at, 3, colour.filled())))?;
        }
    }
    // Names at the ends of lines are pushed apart, so that none covers another.
    let mut ends: Vec<(i32, &Series)> = Vec::new();
    for series in named {
        if let Some(end) = series.points.last() {
            ends.push((chart.backend_coord(end).1, series));
        }
    }
    ends.sort_by_key(|(y, _)| *y);
    let top = plot.get_base_pixel().1;
    let line = i32::try_from(LINE)?;
    let mut free = top;
    let count = ends.len();
    for (index, (y, series)) in ends.into_iter().enumerate() {
        let colour = colour(series.role);
        if narrow {
            let y = i32::try_from(index)? * line + line / 2;
            below.draw(&PathElement::new([(12, y), (28, y)], colour.stroke_width(3)))?;
            text(&below, &series.name, (36, y), HPos::Left, SIZE, colour)?;
        } else {
            let room = line * i32::try_from(count - index)?;
            let y = y.max(free).min(top + i32::try_from(height)? - 44 - room + line);
            free = y + line;
            let at = (i32::try_from(width)? - longest - 14, y - top);
            text(&plot, &series.name, at, HPos::Left, SIZE, colour)?;
        }
    }
    Ok(())
}

fn mesh<'a>(chart: &mut ChartContext<'a, SVGBackend<'a>, Plane>, label: &str) -> Drawn {
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .label_style(("sans-serif", SIZE).into_font().color(&MUTED))
        .x_desc(label)
        .axis_desc_style(("sans-serif", SIZE).into_font().color(&MUTED))
        .draw()?;
    Ok(())
}

fn points(area: &Area<'_>, axis: &Axis, rows: &[Row]) -> Drawn {
    let (width, height) = area.dim_in_pixel();
    let narrow = width <= NARROW;
    let mut values = Vec::new();
    let mut names = 0;
    for row in rows {
        if let Row::Point { name, value, range, .. } = row {
            values.extend([*value, range.0, range.1]);
            names = names.max(wide(name));
        }
    }
    let across = Mapping::of(axis.scale, &values, if narrow { 5 } else { 10 });
    let names = if narrow { 0 } else { names };
    let start = ticks(axis.scale, &values)[0];
    let upward =
        Mapping { scale: Scale::Linear, range: 0.0..f64::from(height - 56), marks: Vec::new() };
    let mut chart = ChartBuilder::on(area)
        .margin_top(8)
        .margin_left(12 + names)
        .margin_right(64)
        .x_label_area_size(40)
        .build_cartesian_2d(across, upward)?;
    mesh(&mut chart, axis.label)?;
    let base = area.get_base_pixel();
    let pixel = |at: (i32, i32)| (at.0 - base.0, at.1 - base.1);
    let mut left = f64::from(height - 56);
    for row in rows {
        let Row::Point { name, role, durable, value, range, quartiles } = row else {
            let Row::Heading(heading) = row else { continue };
            left -= f64::from(ROW);
            let at = pixel(chart.backend_coord(&(start, left + 7.0)));
            let at = (if narrow { at.0 + 2 } else { 12 }, at.1);
            text(area, heading, at, HPos::Left, SIZE, INK)?;
            continue;
        };
        left -= f64::from(if narrow { ROW + LINE } else { ROW });
        let y = left + f64::from(ROW) / 2.0 - 2.0;
        let colour = colour(*role);
        let line = |from: f64, to: f64, width: u32| {
            PathElement::new([(from, y), (to, y)], colour.stroke_width(width))
        };
        chart.draw_series([line(range.0, range.1, 2)])?;
        if let Some((low, high)) = quartiles {
            chart.draw_series([line(*low, *high, 8)])?;
        }
        let at = (*value, y);
        chart.draw_series([Circle::new(at, 6, colour.filled())])?;
        if !*durable {
            chart.draw_series([Circle::new(at, 4, PAPER.filled())])?;
        }
        let (x, y) = pixel(chart.backend_coord(&(start, y)));
        let name_at = if narrow { (x, y - 18) } else { (x - 10, y) };
        text(area, name, name_at, if narrow { HPos::Left } else { HPos::Right }, SIZE, colour)?;
        let figure_at = (i32::try_from(width)? - 8, y);
        text(area, &short(*value), figure_at, HPos::Right, SIZE, INK)?;
    }
    Ok(())
}
