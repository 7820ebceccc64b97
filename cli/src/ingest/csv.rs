//! CSV records with their exact line numbers and their own bytes.
//!
//! The fields are split by `csv-core`, which is fed line by line: that is what makes the line of a
//! record and its raw text exact, whatever the quoting.
//!
//! A quote that is opened by mistake would take every line up to the next quote with it. A record of
//! several lines is therefore looked at again: where a quoted field is never closed, or has text
//! behind its closing quote, the lines up to the one where the quote opens are a faulty record, and
//! what follows is read again as records of its own.

use std::io::{self, BufRead};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use crate::ingest::record::{Lines, Next, RECORD_BYTES_MAX, Record, too_long, without_line_end};

/// Reads CSV records, the header being the first.
pub(crate) struct CsvRecords {
    lines: Lines,
    core: Reader,
    delimiter: u8,
    /// How much of the current line has been given to `core`.
    fed: usize,
    /// Whether the current record has begun on an earlier line.
    open: bool,
    output_length: usize,
    ends_count: usize,
}

impl CsvRecords {
    /// Records of `input` with this field delimiter.
    pub(crate) fn new(input: Box<dyn BufRead>, delimiter: u8) -> Self {
        CsvRecords {
            lines: Lines::new(input),
            core: splitter(delimiter),
            delimiter,
            fed: 0,
            open: false,
            output_length: 0,
            ends_count: 0,
        }
    }

    /// Reads the next record into `record`. After [`Next::Idle`] call again with the same `record`.
    pub(crate) fn read(&mut self, record: &mut Record) -> io::Result<Next> {
        loop {
            if self.fed == self.lines.line.len() {
                let next = self.lines.read()?;
                self.fed = if next == Next::Record { 0 } else { self.lines.line.len() };
                match next {
                    Next::Record => {}
                    Next::Idle => return Ok(Next::Idle),
                    Next::End if self.open => return Ok(self.finish(record)),
                    Next::End => return Ok(Next::End),
                }
            }
            if !self.open {
                // Line ends before a record are blank lines, or what follows a bare carriage return.
                let rest = &self.lines.line[self.fed..];
                self.fed += rest.iter().take_while(|byte| b"\r\n".contains(byte)).count();
                if self.fed == self.lines.line.len() {
                    continue;
                }
                record.clear(self.lines.number);
                self.output_length = 0;
                self.ends_count = 0;
                self.open = true;
            }
            let from = self.fed;
            let is_too_long = record.raw.len() + self.lines.line.len() - from > RECORD_BYTES_MAX;
            if is_too_long && !record.raw.is_empty() {
                return Ok(self.close(record, true));
            }
            let done = self.feed_line(record);
            record.raw.extend_from_slice(&self.lines.line[from..self.fed]);
            if self.lines.cut {
                record.fault.get_or_insert_with(too_long);
            }
            if done {
                return Ok(self.close(record, false));
            }
        }
    }

    /// Gives the rest of the line to the splitter; true when the record is complete.
    fn feed_line(&mut self, record: &mut Record) -> bool {
        while self.fed < self.lines.line.len() {
            let (result, read, written, ended) = step(
                &mut self.core,
                &self.lines.line[self.fed..],
                record,
                self.output_length,
                self.ends_count,
            );
            self.fed += read;
            self.output_length += written;
            self.ends_count += ended;
            match result {
                ReadRecordResult::Record => return true,
                ReadRecordResult::InputEmpty | ReadRecordResult::End => {}
                ReadRecordResult::OutputFull => grow(&mut record.fields),
                ReadRecordResult::OutputEndsFull => grow(&mut record.ends),
            }
            if record.fault.is_some() {
                // It is lost already: only its end is of interest.
                self.output_length = 0;
                self.ends_count = 0;
            }
        }
        false
    }

    /// The input ended within a record: a last line without an end, or an open quote.
    fn finish(&mut self, record: &mut Record) -> Next {
        loop {
            let (result, _, written, ended) =
                step(&mut self.core, b"\n", record, self.output_length, self.ends_count);
            self.output_length += written;
            self.ends_count += ended;
            match result {
                ReadRecordResult::Record => return self.close(record, false),
                ReadRecordResult::OutputFull => grow(&mut record.fields),
                ReadRecordResult::OutputEndsFull => grow(&mut record.ends),
                ReadRecordResult::InputEmpty | ReadRecordResult::End => {
                    return self.close(record, true);
                }
            }
        }
    }

    fn close(&mut self, record: &mut Record, is_quote_open: bool) -> Next {
        record.fields_count = self.ends_count;
        self.open = false;
        match stray_quote(&record.raw, self.delimiter) {
            Some((opened, what)) => self.split(record, opened, what),
            None if is_quote_open => self.split(record, 0, "is not closed"),
            None => {}
        }
        record.raw.truncate(without_line_end(&record.raw).len());
        Next::Record
    }

    /// Ends the record with the line where its stray quote opens.
    fn split(&mut self, record: &mut Record, opened: usize, what: &str) {
        let line_end = |byte: &u8| *byte == b'\n';
        let line =
            record.line + record.raw[..opened].iter().filter(|byte| line_end(byte)).count() as u64;
        let end = record.raw[opened..].iter().position(line_end);
        let end = end.map_or(record.raw.len(), |at| opened + at + 1);
        record.fault.get_or_insert_with(|| format!("the quote that opens in line {line} {what}"));
        record.fields_count = 0;
        if !self.lines.cut {
            record.raw.extend_from_slice(&self.lines.line[self.fed..]);
            self.lines.unread(&record.raw[end..], line);
            self.fed = self.lines.line.len();
            record.raw.truncate(end);
        }
        self.core = splitter(self.delimiter);
    }
}

/// A splitter that has seen the beginning of its input: there it would drop a byte order mark. `Lines`
/// has dropped that of the input; another, or one behind blank lines, belongs to a field.
fn splitter(delimiter: u8) -> Reader {
    let mut core = ReaderBuilder::new().delimiter(delimiter).build();
    core.read_record(b"\n", &mut [0], &mut [0]);
    core
}

/// Where the first quoted field opens that is not closed as it should be, in a record that is open at
/// its end or has several lines; and what is wrong with it.
fn stray_quote(raw: &[u8], delimiter: u8) -> Option<(usize, &'static str)> {
    let is_several = without_line_end(raw).contains(&b'\n');
    let mut at = 0;
    while at < raw.len() {
        if raw[at] != b'"' {
            // A plain field, in which a quote is a character.
            let length = raw[at..].iter().position(|byte| *byte == delimiter);
            at += length? + 1;
            continue;
        }
        let opened = at;
        loop {
            let close = raw[at + 1..].iter().position(|byte| *byte == b'"');
            let Some(close) = close else { return Some((opened, "is not closed")) };
            at += close + 1;
            if raw.get(at + 1) != Some(&b'"') {
                break;
            }
            at += 1;
        }
        match raw.get(at + 1) {
            None | Some(b'\r' | b'\n') => return None,
            Some(byte) if *byte == delimiter => at += 2,
            Some(_) if is_several => {
                return Some((opened, "has text behind the quote that closes it"));
            }
            Some(_) => at += 1 + raw[at + 1..].iter().position(|byte| *byte == delimiter)? + 1,
        }
    }
    None
}

fn step(
    core: &mut Reader,
    input: &[u8],
    record: &mut Record,
    output_length: usize,
    ends_count: usize,
) -> (ReadRecordResult, usize, usize, usize) {
    core.read_record(input, &mut record.fields[output_length..], &mut record.ends[ends_count..])
}

fn grow<T: Clone + Default>(buffer: &mut Vec<T>) {
    let length = buffer.len().max(64) * 2;
    buffer.resize(length, T::default());
}

#[cfg(test)]
mod tests {
    use super::*;

    type Seen = (u64, String, Vec<String>, Option<String>);

    fn read_all(text: &'static str, delimiter: u8) -> Vec<Seen> {
        let mut reader = CsvRecords::new(Box::new(text.as_bytes()), delimiter);
        let mut record = Record::default();
        let mut all = Vec::new();
        while reader.read(&mut record).expect("readable") == Next::Record {
            let fields = record
                .csv_fields()
                .map(|field| String::from_utf8_lossy(field).into_owned())
                .collect();
            all.push((
                record.line,
                String::from_utf8_lossy(&record.raw).into_owned(),
                fields,
                record.fault.clone(),
            ));
        }
        all
    }

    fn seen(line: u64, raw: &str, fields: &[&str]) -> Seen {
        (line, raw.to_owned(), fields.iter().map(ToString::to_string).collect(), None)
    }

    #[test]
    fn lines_and_raw_text_are_exact_with_any_line_end_and_blank_lines() {
        for (text, line_of_c) in [
            ("a,b\nc,\n", 2),
            ("a,b\r\nc,\r\n", 2),
            ("a,b\r\n\r\n\nc,", 4),
            ("\u{feff}a,b\n\nc,\n\n", 3),
        ] {
            assert_eq!(
                read_all(text, b','),
                [seen(1, "a,b", &["a", "b"]), seen(line_of_c, "c,", &["c", ""])],
                "{text:?}"
            );
        }
    }

    #[test]
    fn quoted_line_ends_belong_to_the_record() {
        let text = "x,\"one\r\n\r\ntwo \"\"2\"\"\"\r\ny,3\n";
        assert_eq!(
            read_all(text, b','),
            [
                seen(1, "x,\"one\r\n\r\ntwo \"\"2\"\"\"", &["x", "one\r\n\r\ntwo \"2\""]),
                seen(4, "y,3", &["y", "3"]),
            ]
        );
    }

    #[test]
    fn a_quote_inside_a_plain_field_is_a_character() {
        assert_eq!(
            read_all("5\" pipe;1\nb;2", b';'),
            [seen(1, "5\" pipe;1", &["5\" pipe", "1"]), seen(2, "b;2", &["b", "2"])]
        );
    }

    #[test]
    fn an_open_quote_is_a_fault_not_a_field() {
        for text in ["a,1\nb,\"2\nc,3\n", "a,1\nb,\"2\nc,3"] {
            let all = read_all(text, b',');
            assert_eq!(all[0], seen(1, "a,1", &["a", "1"]));
            assert_eq!(
                (all[1].0, all[1].1.as_str(), all[1].3.is_some()),
                (2, "b,\"2", true),
                "{text:?}"
            );
            assert_eq!(all[2..], [seen(3, "c,3", &["c", "3"])], "{text:?}");
        }
    }

    #[test]
    fn bare_carriage_returns_end_records_too() {
        assert_eq!(read_all("a,1\rb,2\r", b',').len(), 2);
    }

    #[test]
    fn blank_lines_of_bare_carriage_returns_are_no_records() {
        for text in ["a,1\r\rb,2\r\r\r", "a,1\r\r\r\nb,2\r\r\n\r"] {
            let raw: Vec<_> = read_all(text, b',').into_iter().map(|it| (it.1, it.3)).collect();
            assert_eq!(raw, [("a,1".to_owned(), None), ("b,2".to_owned(), None)], "{text:?}");
        }
    }

    #[test]
    fn only_the_first_byte_order_mark_is_dropped() {
        for (text, line) in [("\u{feff}\u{feff}a,b\n", 1), ("\n\u{feff}a,b\n", 2)] {
            let kept = seen(line, "\u{feff}a,b", &["\u{feff}a", "b"]);
            assert_eq!(read_all(text, b','), [kept], "{text:?}");
        }
    }

    #[test]
    fn long_records_and_many_fields_fit() {
        let wide = vec!["0123456789"; 5_000].join(",");
        let text: &'static str = Box::leak(format!("a,b\n{wide}\nc,d\n").into_boxed_str());
        let all = read_all(text, b',');
        assert_eq!((all[1].2.len(), all[1].1.len()), (5_000, wide.len()));
        assert_eq!(all[2], seen(3, "c,d", &["c", "d"]));
    }
}
