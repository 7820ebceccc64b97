//! How wide text is, near enough to lay it out without a font at hand.
//!
//! The widths are those of a wide sans serif face, so that text which fits here fits in the faces
//! that browsers choose.

/// Type sizes in pixels, as in the style sheet.
pub(super) const TITLE_SIZE: f64 = 15.0;
/// Everything that is not a title.
pub(super) const LABEL_SIZE: f64 = 12.0;
/// From one line of labels to the next.
pub(super) const LINE_HEIGHT: f64 = 16.0;
/// From one line of a title to the next.
pub(super) const TITLE_LINE_HEIGHT: f64 = 20.0;

/// The width of `text` in pixels at the type size `size`.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(em).sum::<f64>() * size
}

fn em(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | 'I' => 0.32,
        ' ' | 'f' | 't' | 'r' | '-' | '(' | ')' | '/' | '*' => 0.40,
        'm' | 'w' | 'M' | 'W' | '%' => 0.95,
        'A'..='Z' => 0.72,
        _ => 0.61,
    }
}

/// Breaks `text` between words into lines at most `room` pixels wide. A longer word stands alone.
pub(super) fn wrap(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(" ", size) + width(word, size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_to_the_room_and_lose_no_word() {
        let text = "How many rows a second are durable, by rows a transaction and by who commits";
        let lines = wrap(text, LABEL_SIZE, 150.0);
        assert!(lines.len() > 2);
        assert!(lines.iter().all(|line| width(line, LABEL_SIZE) <= 150.0), "{lines:?}");
        assert_eq!(lines.join(" "), text);
    }

    #[test]
    fn a_word_that_fits_nowhere_stands_alone() {
        assert_eq!(
            wrap("a groupcommit-async b", LABEL_SIZE, 40.0),
            ["a", "groupcommit-async", "b"]
        );
    }
}
