//! One record of the input, as read and before it is turned into values.
//!
//! 1. `raw` is the record's own bytes without its line end, whether or not they parse.
//! 2. A record that cannot be read is still a record: it has a number, a line and a fault.
//! 3. Memory is bounded: of a line longer than [`RECORD_BYTES_MAX`] only the beginning is kept, and the
//!    record is faulty. A record of several lines is never that long: it ends sooner, and is faulty.

use std::io::{self, BufRead};

/// The longest record, in bytes.
pub(crate) const RECORD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A record as read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// Line of the input on which it begins, from 1.
    pub(crate) line: u64,
    /// Its bytes, without the line end.
    pub(crate) raw: Vec<u8>,
    /// CSV: the fields, unquoted, back to back; what follows the last end is old.
    pub(crate) fields: Vec<u8>,
    /// CSV: where each field ends in `fields`; only the first `fields_count` count.
    pub(crate) ends: Vec<usize>,
    /// CSV: how many fields there are.
    pub(crate) fields_count: usize,
    /// Why it cannot be read, if so.
    pub(crate) fault: Option<String>,
}

impl Record {
    /// Empties it for the next one; buffers stay.
    pub(crate) fn clear(&mut self, line: u64) {
        self.line = line;
        self.raw.clear();
        self.fields_count = 0;
        self.fault = None;
    }

    /// A copy with no more memory than it needs, to be kept.
    pub(crate) fn to_kept(&self) -> Self {
        let ends = self.ends[..self.fields_count].to_vec();
        let fields = self.fields[..ends.last().copied().unwrap_or(0)].to_vec();
        Record {
            line: self.line,
            raw: self.raw.clone(),
            fields,
            ends,
            fields_count: self.fields_count,
            fault: self.fault.clone(),
        }
    }

    /// The unquoted CSV fields.
    pub(crate) fn csv_fields(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.ends[..self.fields_count].iter().enumerate().map(|(index, end)| {
            let start = if index == 0 { 0 } else { self.ends[index - 1] };
            &self.fields[start..*end]
        })
    }
}

/// What reading gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A record.
    Record,
    /// Nothing for the moment: the pipe is quiet. Ask again.
    Idle,
    /// The input has ended.
    End,
}

/// The input, line by line, with line numbers.
pub(crate) struct Lines {
    input: Box<dyn BufRead>,
    /// The line, line end included.
    pub(crate) line: Vec<u8>,
    /// Number of the line in `line`, from 1.
    pub(crate) number: u64,
    /// Whether the line was longer than [`RECORD_BYTES_MAX`] and was cut.
    pub(crate) cut: bool,
    partial: bool,
    /// Lines to be read again before the input goes on; those before `again_at` have been.
    again: Vec<u8>,
    again_at: usize,
}

impl Lines {
    /// Lines of `input`.
    pub(crate) fn new(input: Box<dyn BufRead>) -> Self {
        Lines {
            input,
            line: Vec::new(),
            number: 0,
            cut: false,
            partial: false,
            again: Vec::new(),
            again_at: 0,
        }
    }

    /// Has `bytes`, which were read last, read again, as what follows line `number`.
    pub(crate) fn unread(&mut self, bytes: &[u8], number: u64) {
        self.number = number;
        if self.again[..self.again_at].ends_with(bytes) {
            self.again_at -= bytes.len();
        } else {
            self.again.splice(..self.again_at, bytes.iter().copied());
            self.again_at = 0;
        }
    }

    /// Reads the next line into `self.line`. After [`Next::Idle`] the part already read is kept.
    pub(crate) fn read(&mut self) -> io::Result<Next> {
        if !self.partial {
            self.line.clear();
            self.cut = false;
            self.partial = true;
        }
        loop {
            let is_again = self.again_at < self.again.len();
            let available = if is_again {
                &self.again[self.again_at..]
            } else {
                match self.input.fill_buf() {
                    Ok(available) => available,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Ok(Next::Idle);
                    }
                    Err(error) => return Err(error),
                }
            };
            if available.is_empty() {
                if self.line.is_empty() {
                    self.partial = false;
                    return Ok(Next::End);
                }
                return Ok(self.complete());
            }
            let found = available.iter().position(|byte| *byte == b'\n');
            let count = found.map_or(available.len(), |at| at + 1);
            let room = RECORD_BYTES_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&available[..count.min(room)]);
            if count > room && !self.cut {
                self.cut = true;
                self.line.push(b'\n'); // what is kept of it ends here
            }
            if is_again {
                self.again_at += count;
            } else {
                self.input.consume(count);
            }
            if found.is_some() {
                return Ok(self.complete());
            }
        }
    }

    fn complete(&mut self) -> Next {
        self.partial = false;
        self.number += 1;
        if self.number == 1 && self.line.starts_with(b"\xef\xbb\xbf") {
            self.line.drain(..3);
        }
        Next::Record
    }

    /// The line without its end.
    pub(crate) fn content(&self) -> &[u8] {
        without_line_end(&self.line)
    }
}

/// `line` without a final LF or CR LF.
pub(crate) fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Reads NDJSON: a record is a line that is not blank.
pub(crate) struct LineRecords {
    lines: Lines,
}

impl LineRecords {
    /// Records of `input`.
    pub(crate) fn new(input: Box<dyn BufRead>) -> Self {
        LineRecords { lines: Lines::new(input) }
    }

    /// Reads the next record into `record`.
    pub(crate) fn read(&mut self, record: &mut Record) -> io::Result<Next> {
        loop {
            match self.lines.read()? {
                Next::Record => {}
                other => return Ok(other),
            }
            if self.lines.content().trim_ascii().is_empty() {
                continue;
            }
            record.clear(self.lines.number);
            record.raw.extend_from_slice(self.lines.content());
            record.fault = self.lines.cut.then(too_long);
            return Ok(Next::Record);
        }
    }
}

/// The fault of a record that was cut.
pub(crate) fn too_long() -> String {
    let mib = RECORD_BYTES_MAX / (1024 * 1024);
    format!("a line longer than {mib} MiB, of which only the beginning is kept")
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::{BufReader, Read};

    use super::*;

    /// Gives its pieces one by one, with a quiet moment after each.
    struct Pieces(VecDeque<&'static [u8]>, bool);

    impl Read for Pieces {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let Some(piece) = self.0.pop_front() else {
                return Ok(0);
            };
            into[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    fn read_all(reader: &mut LineRecords) -> Vec<(u64, String)> {
        let mut record = Record::default();
        let mut all = Vec::new();
        loop {
            match reader.read(&mut record).expect("readable") {
                Next::Record => {
                    all.push((record.line, String::from_utf8_lossy(&record.raw).into_owned()));
                }
                Next::Idle => {}
                Next::End => return all,
            }
        }
    }

    #[test]
    fn a_line_survives_quiet_moments_and_a_missing_end() {
        let pieces = Pieces(VecDeque::from([&b"{\"a\""[..], b":1}\r", b"\n\n", b"{}"]), false);
        let mut reader = LineRecords::new(Box::new(BufReader::new(pieces)));
        assert_eq!(read_all(&mut reader), [(1, "{\"a\":1}".to_owned()), (3, "{}".to_owned())]);
    }

    #[test]
    fn an_endless_line_is_cut_and_faulty_and_the_next_is_whole() {
        let long = io::repeat(b'x').take(RECORD_BYTES_MAX as u64 + 10).chain(&b"\nnext\n"[..]);
        let mut reader = LineRecords::new(Box::new(BufReader::new(long)));
        let mut record = Record::default();
        assert_eq!(reader.read(&mut record).expect("readable"), Next::Record);
        assert!(record.raw.len() <= RECORD_BYTES_MAX && record.fault.is_some());
        assert_eq!(reader.read(&mut record).expect("readable"), Next::Record);
        assert_eq!((record.raw.as_slice(), record.fault.is_none()), (&b"next"[..], true));
    }
}
