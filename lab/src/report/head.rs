//! What stands above every chart: its title, remarks, and the key to its marks.

use crate::report::drawing::{Anchor, Drawing, Marker, TextStyle};
use crate::report::text::{LABEL_SIZE, LINE_HEIGHT, TITLE_LINE_HEIGHT, TITLE_SIZE, width, wrap};

/// The edge that stays empty on all sides.
pub(super) const MARGIN: f64 = 10.0;

/// Bold letters are wider than those that are measured.
const BOLD: f64 = 1.07;

/// What a chart says about itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Head {
    /// What it shows.
    pub(super) title: String,
    /// What has to be known to read it.
    pub(super) remark: String,
    /// How a disk was simulated, when it was.
    pub(super) simulated: Option<String>,
    /// The marks and what they stand for.
    pub(super) key: Vec<Key>,
}

/// A mark and what it stands for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Key {
    pub(super) mark: KeyMark,
    pub(super) class: String,
    pub(super) name: String,
}

/// What is drawn before a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyMark {
    /// An area.
    Area,
    /// A line with points on it.
    Line(Marker),
    /// A line alone.
    Plain,
    /// A point alone.
    Point(Marker),
}

const KEY_MARK_WIDTH: f64 = 26.0;
const KEY_GAP: f64 = 18.0;

impl Head {
    /// Draws it at the top, and returns where it ends.
    pub(super) fn draw(&self, drawing: &mut Drawing) -> f64 {
        let room = drawing.width - 2.0 * MARGIN;
        let mut y = MARGIN;
        for line in wrap(&self.title, TITLE_SIZE * BOLD, room) {
            y += TITLE_LINE_HEIGHT;
            drawing.text((MARGIN, y - 5.0), Anchor::Start, TextStyle::Title, line);
        }
        for line in wrap(&self.remark, LABEL_SIZE, room) {
            y += LINE_HEIGHT;
            drawing.text((MARGIN, y - 3.0), Anchor::Start, TextStyle::Muted, line);
        }
        for line in wrap(self.simulated.as_deref().unwrap_or(""), LABEL_SIZE * BOLD, room) {
            y += LINE_HEIGHT;
            drawing.text((MARGIN, y - 3.0), Anchor::Start, TextStyle::Simulated, line);
        }
        if self.key.is_empty() { y + 4.0 } else { self.draw_key(drawing, y + 4.0) + 4.0 }
    }

    fn draw_key(&self, drawing: &mut Drawing, top: f64) -> f64 {
        let (mut x, mut y) = (MARGIN, top + LINE_HEIGHT);
        for key in &self.key {
            let room = drawing.width - MARGIN - KEY_MARK_WIDTH;
            let mut lines = wrap(&key.name, LABEL_SIZE, room - MARGIN).into_iter();
            let first = lines.next().unwrap_or_default();
            let taken = KEY_MARK_WIDTH + width(&first, LABEL_SIZE);
            if x > MARGIN && x + taken > drawing.width - MARGIN {
                (x, y) = (MARGIN, y + LINE_HEIGHT);
            }
            draw_mark(drawing, key, (x, y - 4.0));
            drawing.text((x + KEY_MARK_WIDTH, y), Anchor::Start, TextStyle::Label, first);
            x += taken + KEY_GAP;
            for line in lines {
                y += LINE_HEIGHT;
                drawing.text((MARGIN + KEY_MARK_WIDTH, y), Anchor::Start, TextStyle::Label, line);
                x = drawing.width;
            }
        }
        y + 4.0
    }
}

fn draw_mark(drawing: &mut Drawing, key: &Key, (x, y): (f64, f64)) {
    let class = &key.class;
    match key.mark {
        KeyMark::Area => {
            drawing.rectangle((x, y - 5.0), (18.0, 10.0), format!("bar {class}"));
        }
        KeyMark::Point(marker) => drawing.marker(marker, (x + 9.0, y), 4.0, class.clone()),
        KeyMark::Plain => drawing.line(&[(x, y), (x + 20.0, y)], format!("line {class}")),
        KeyMark::Line(marker) => {
            drawing.line(&[(x, y), (x + 20.0, y)], format!("line {class}"));
            drawing.marker(marker, (x + 10.0, y), 4.0, class.clone());
        }
    }
}
