//! Whether the texts of a chart can be read: a check for tests.

use crate::report::drawing::{Anchor, Drawing, Text, TextStyle};
use crate::report::text::{LABEL_SIZE, TITLE_SIZE, width};

#[derive(Debug, Clone, Copy)]
struct TextBox {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

/// The room that `text` takes.
fn room_of(text: &Text) -> TextBox {
    let size = if text.style == TextStyle::Title { TITLE_SIZE } else { LABEL_SIZE };
    // Bold letters are wider.
    let weight = match text.style {
        TextStyle::Title | TextStyle::Heading => 1.06,
        _ => 1.0,
    };
    let width = width(&text.letters, size) * weight;
    let left = match text.anchor {
        Anchor::Start => text.x,
        Anchor::Middle => text.x - width / 2.0,
        Anchor::End => text.x - width,
    };
    TextBox {
        left,
        top: text.baseline - 0.8 * size,
        right: left + width,
        bottom: text.baseline + 0.25 * size,
    }
}

/// Panics when two texts of `drawing` touch, or one leaves the surface.
pub(super) fn assert_legible(drawing: &Drawing) {
    for (index, text) in drawing.texts().iter().enumerate() {
        let bounds = room_of(text);
        assert!(
            bounds.left >= 0.0
                && bounds.top >= 0.0
                && bounds.right <= drawing.width + 0.5
                && bounds.bottom <= drawing.height + 0.5,
            "`{}` leaves `{}`: {bounds:?} in {} x {}",
            text.letters,
            drawing.title,
            drawing.width,
            drawing.height
        );
        for other in &drawing.texts()[..index] {
            let o = room_of(other);
            let apart = bounds.right <= o.left
                || o.right <= bounds.left
                || bounds.bottom <= o.top
                || o.bottom <= bounds.top;
            assert!(
                apart,
                "`{}` covers `{}` in `{}` ({} wide): {bounds:?} {o:?}",
                text.letters, other.letters, drawing.title, drawing.width
            );
        }
    }
}

#[test]
#[should_panic(expected = "covers")]
fn texts_that_touch_are_found() {
    let mut drawing = Drawing::new("a chart", 200.0);
    drawing.height = 100.0;
    drawing.text((10.0, 50.0), Anchor::Start, TextStyle::Label, "one text");
    drawing.text((40.0, 55.0), Anchor::Start, TextStyle::Label, "another");
    assert_legible(&drawing);
}

#[test]
#[should_panic(expected = "leaves")]
fn a_text_outside_is_found() {
    let mut drawing = Drawing::new("a chart", 50.0);
    drawing.height = 100.0;
    drawing.text((10.0, 50.0), Anchor::Start, TextStyle::Label, "far too long a text");
    assert_legible(&drawing);
}
