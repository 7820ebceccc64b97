//! SQL statements: one a line, or, in the output of `.dump`, each to its semicolon.
//!
//! `BEGIN`, `COMMIT` and the dump's `PRAGMA foreign_keys=OFF` are no records: every statement is its own
//! transaction here. Between `BEGIN TRANSACTION` and `COMMIT` a statement may take several lines. Where it
//! has no end, its first line is a faulty record, and the line behind it begins the next.

use std::io::{self, BufRead};

use crate::ingest::record::{Lines, Next, RECORD_BYTES_MAX, Record, too_long, without_line_end};

/// Reads SQL statements.
pub(crate) struct StatementRecords {
    lines: Lines,
    is_dump: bool,
    scan: Scan,
    /// Whether the current record has begun on an earlier line.
    open: bool,
}

impl StatementRecords {
    /// Records of `input`.
    pub(crate) fn new(input: Box<dyn BufRead>) -> Self {
        Self { lines: Lines::new(input), is_dump: false, scan: Scan::default(), open: false }
    }

    /// Reads the next record into `record`. After [`Next::Idle`] call again with the same `record`.
    pub(crate) fn read(&mut self, record: &mut Record) -> io::Result<Next> {
        loop {
            match self.lines.read()? {
                Next::Record => {}
                Next::End if self.open => return Ok(self.without_end(record)),
                other => return Ok(other),
            }
            if self.open {
                record.raw.extend_from_slice(&self.lines.line);
                if self.lines.cut {
                    record.fault = Some(too_long());
                } else if record.raw.len() > RECORD_BYTES_MAX {
                    return Ok(self.without_end(record));
                }
            } else {
                let content = self.lines.content().trim_ascii();
                if content.is_empty() || content.starts_with(b"--") {
                    continue;
                }
                if let Some(frame) = frame(content) {
                    match frame {
                        Frame::DumpBegins => self.is_dump = true,
                        Frame::Ends => self.is_dump = false,
                        Frame::Other => {}
                    }
                    continue;
                }
                record.clear(self.lines.number);
                record.raw.extend_from_slice(&self.lines.line);
                record.fault = self.lines.cut.then(too_long);
                self.scan = Scan::default();
            }
            self.scan.line(&self.lines.line);
            self.open = self.is_dump && !self.scan.is_complete() && record.fault.is_none();
            if !self.open {
                record.raw.truncate(without_line_end(&record.raw).len());
                return Ok(Next::Record);
            }
        }
    }

    /// The statement that is open never ends: its first line is the record, the others are read again.
    fn without_end(&mut self, record: &mut Record) -> Next {
        self.open = false;
        let end =
            record.raw.iter().position(|byte| *byte == b'\n').map_or(record.raw.len(), |at| at + 1);
        self.lines.unread(&record.raw[end..], record.line);
        record.raw.truncate(without_line_end(&record.raw[..end]).len());
        record.fault = Some("the statement that begins here has no end".to_owned());
        Next::Record
    }
}

/// A line that is no statement of its own.
enum Frame {
    DumpBegins,
    Ends,
    Other,
}

/// Whether a line only opens or closes a transaction, or is the setting that a dump begins with.
fn frame(line: &[u8]) -> Option<Frame> {
    let text = std::str::from_utf8(line).ok()?.trim_end_matches(';').to_ascii_uppercase();
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    match words[..] {
        ["BEGIN", "TRANSACTION"] => Some(Frame::DumpBegins),
        ["COMMIT" | "END"] | ["COMMIT" | "END", "TRANSACTION"] => Some(Frame::Ends),
        ["BEGIN"]
        | ["BEGIN", "DEFERRED" | "IMMEDIATE" | "EXCLUSIVE"]
        | ["PRAGMA", "FOREIGN_KEYS=OFF"] => Some(Frame::Other),
        _ => None,
    }
}

/// Looks for the end of a statement, line by line.
#[derive(Debug, Default)]
struct Scan {
    /// What closes the text that is open, if any: a quote, a bracket, or `*` for a comment.
    closes: Option<u8>,
    /// The first words, as far as they tell a trigger.
    words: usize,
    is_create: bool,
    is_trigger: bool,
    end: End,
}

/// How far the end of the statement is reached.
#[derive(Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    /// Behind a semicolon of a trigger's body.
    Semicolon,
    /// Behind a semicolon and END.
    Body,
    Complete,
}

impl Scan {
    fn is_complete(&self) -> bool {
        self.end == End::Complete && self.closes.is_none()
    }

    fn line(&mut self, line: &[u8]) {
        let mut at = 0;
        while let Some(&byte) = line.get(at) {
            let next = line.get(at + 1);
            at += 1;
            match (self.closes, byte) {
                (Some(b'*'), b'*') if next == Some(&b'/') => {
                    self.closes = None;
                    at += 1;
                }
                (Some(closes), _) => {
                    if byte == closes && closes != b'*' {
                        self.closes = None;
                    }
                }
                (None, b'-') if next == Some(&b'-') => return,
                (None, b'/') if next == Some(&b'*') => {
                    self.closes = Some(b'*');
                    at += 1;
                }
                (None, b';') => {
                    let ends = !self.is_trigger || self.end == End::Body;
                    self.end = if ends { End::Complete } else { End::Semicolon };
                    if ends {
                        (self.words, self.is_create, self.is_trigger) = (0, false, false);
                    }
                }
                (None, b'\'' | b'"' | b'`') => (self.closes, self.end) = (Some(byte), End::Open),
                (None, b'[') => (self.closes, self.end) = (Some(b']'), End::Open),
                (None, byte) if byte.is_ascii_alphabetic() => {
                    let rest = &line[at - 1..];
                    let is_word = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
                    let word = &rest[..rest.iter().take_while(is_word).count()];
                    at += word.len() - 1;
                    self.word(word);
                }
                (None, byte) if byte.is_ascii_whitespace() => {}
                (None, _) => self.end = End::Open,
            }
        }
    }

    fn word(&mut self, word: &[u8]) {
        let is = |other: &str| word.eq_ignore_ascii_case(other.as_bytes());
        match self.words {
            0 => self.is_create = is("CREATE"),
            1 | 2 if self.is_create && is("TRIGGER") => self.is_trigger = true,
            1 if !is("TEMP") && !is("TEMPORARY") => self.is_create = false,
            _ => {}
        }
        self.words += 1;
        self.end = if self.end == End::Semicolon && is("END") { End::Body } else { End::Open };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &'static str) -> Vec<(u64, String, bool)> {
        let mut reader = StatementRecords::new(Box::new(text.as_bytes()));
        let mut record = Record::default();
        let mut all = Vec::new();
        while reader.read(&mut record).expect("readable") == Next::Record {
            let raw = String::from_utf8_lossy(&record.raw).into_owned();
            all.push((record.line, raw, record.fault.is_some()));
        }
        all
    }

    #[test]
    fn comments_and_frames_are_no_records() {
        let text = "\u{feff}-- made by hand\nbegin;\nINSERT INTO t VALUES (1)\nCommit;\nSELECT 1\n";
        let found = read_all(text);
        let raw: Vec<_> = found.iter().map(|(line, raw, _)| (*line, raw.as_str())).collect();
        assert_eq!(raw, [(3, "INSERT INTO t VALUES (1)"), (5, "SELECT 1")]);
    }

    #[test]
    fn statements_of_a_dump_end_at_their_semicolon() {
        let text = "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\nCREATE TABLE t\n(a, -- x;\n b);\n\
                    INSERT INTO t VALUES('one;\ntwo','/*');\n\
                    CREATE TEMP TRIGGER g AFTER INSERT ON t BEGIN\n SELECT 1; /* ; */ SELECT [END];\nEND;\nSELECT 1;\n\
                    COMMIT;\nSELECT 2\nSELECT 3\n";
        let found = read_all(text);
        let lines: Vec<u64> = found.iter().map(|(line, ..)| *line).collect();
        assert_eq!(lines, [3, 6, 8, 11, 13, 14], "{found:?}");
        assert_eq!(found[1].1, "INSERT INTO t VALUES('one;\ntwo','/*');");
    }

    #[test]
    fn a_statement_without_an_end_takes_nothing_with_it() {
        let text = "BEGIN TRANSACTION;\nINSERT INTO t VALUES('open);\nSELECT 1;\nSELECT 2;\n";
        let found = read_all(text);
        let faults: Vec<_> = found.iter().map(|(line, _, fault)| (*line, *fault)).collect();
        assert_eq!(faults, [(2, true), (3, false), (4, false)], "{found:?}");
    }
}
