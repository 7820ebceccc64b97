//! The records of an input in order, counted and checksummed, with a sample of the first read ahead.
//!
//! The checksum covers the header and every record up to the current one. It is stored with each
//! record's position, so that a resumed ingest can prove that it is given the same records again.

use std::collections::VecDeque;
use std::io::{self, BufRead};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use flate2::Crc;

use crate::exit::Problem;
use crate::ingest::csv::CsvRecords;
use crate::ingest::input::Input;
use crate::ingest::interrupt;
use crate::ingest::ledger::Place;
use crate::ingest::options::{Format, Layout, Options};
use crate::ingest::record::{LineRecords, Next, Record};
use crate::ingest::statements::StatementRecords;

/// A sample stops growing at this size, however few its records.
const SAMPLE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A reader of records, whatever the format.
pub(crate) enum Records {
    /// CSV, behind its header.
    Csv(Box<CsvRecords>),
    /// NDJSON.
    Lines(LineRecords),
    /// SQL.
    Statements(StatementRecords),
}

impl Records {
    /// Records of `input` in this format, with CSV's delimiter.
    pub(crate) fn new(input: Box<dyn BufRead>, format: Format, delimiter: u8) -> Self {
        match format {
            Format::Csv => Self::Csv(Box::new(CsvRecords::new(input, delimiter))),
            Format::Ndjson => Self::Lines(LineRecords::new(input)),
            Format::Sql => Self::Statements(StatementRecords::new(input)),
        }
    }

    /// Reads the next record into `record`.
    pub(crate) fn read(&mut self, record: &mut Record) -> io::Result<Next> {
        match self {
            Self::Csv(reader) => reader.read(record),
            Self::Lines(reader) => reader.read(record),
            Self::Statements(reader) => reader.read(record),
        }
    }
}

/// The records of an input.
pub(crate) struct Stream {
    /// How messages call the input.
    pub(crate) name: String,
    /// The file behind it: its device and number.
    pub(crate) identity: (u64, u64),
    /// Its encoding.
    pub(crate) encoding: &'static str,
    /// How its records are written.
    pub(crate) layout: Layout,
    /// The names of a CSV's columns; empty for other formats.
    pub(crate) header: Vec<String>,
    /// Size of the file as stored, where it has one.
    pub(crate) size_bytes: Option<u64>,
    /// Bytes of the file as stored that were read so far.
    pub(crate) read_bytes: Arc<AtomicU64>,
    /// Number of the record last given, from 1.
    pub(crate) number: u64,
    records: Records,
    sample: VecDeque<Record>,
    checksum: Crc,
}

impl Stream {
    /// Opens the records of `input`, reading the header of a CSV.
    ///
    /// # Errors
    /// An unreadable input, or a CSV without a header.
    pub(crate) fn open(input: Input, layout: Layout, options: &Options) -> Result<Self, Problem> {
        let records = Records::new(input.bytes, layout.format, layout.delimiter);
        let mut stream = Stream {
            name: input.name,
            identity: input.identity,
            encoding: input.encoding,
            layout,
            header: Vec::new(),
            size_bytes: input.size_bytes,
            read_bytes: input.read_bytes,
            number: 0,
            records,
            sample: VecDeque::new(),
            checksum: Crc::new(),
        };
        if layout.format == Format::Csv {
            stream.header = if options.no_header {
                let first = stream.sample(1)?.next().map_or(0, |record| record.fields_count);
                (1..=first).map(|number| format!("c{number}")).collect()
            } else {
                stream.read_header()?
            };
            stream.hint_delimiter(options)?;
        }
        Ok(stream)
    }

    /// A single column whose name has another delimiter in it is most likely several.
    fn hint_delimiter(&mut self, options: &Options) -> Result<(), Problem> {
        if options.delimiter.is_some() || self.header.len() != 1 {
            return Ok(());
        }
        let first = if options.no_header {
            let first = self.sample(1)?.next().map(|record| record.raw.clone());
            String::from_utf8_lossy(&first.unwrap_or_default()).into_owned()
        } else {
            self.header[0].clone()
        };
        let found = [';', '\t', '|', ','].into_iter().find(|other| first.contains(*other));
        let Some(found) = found else { return Ok(()) };
        let (word, own) = match (found, char::from(self.layout.delimiter)) {
            ('\t', own) => ("tab".to_owned(), format!("'{own}'")),
            (other, '\t') => (format!("'{other}'"), "tab".to_owned()),
            (other, own) => (format!("'{other}'"), format!("'{own}'")),
        };
        Err(Problem::environment(format!(
            "the first line of {} is one column, {first:?}: give --delimiter {word}, or --delimiter {own} if it is one",
            self.name
        )))
    }

    /// Checksum of the header and the first record: tells inputs of the same name apart.
    ///
    /// # Errors
    /// An unreadable input, or Ctrl-C.
    pub(crate) fn head(&mut self) -> Result<u32, Problem> {
        let mut head = Crc::new();
        head.update(&self.checksum.sum().to_le_bytes());
        if let Some(first) = self.sample(1)?.next() {
            head.update(&first.raw);
        }
        Ok(head.sum())
    }

    /// The place behind `record`, which is the one last given.
    pub(crate) fn place(&self, record: &Record) -> Place {
        Place { position: self.number, line: record.line, checksum: self.checksum.sum() }
    }

    fn read_header(&mut self) -> Result<Vec<String>, Problem> {
        let mut record = Record::default();
        if !self.read_ahead(&mut record)? {
            return Err(Problem::environment(format!(
                "{} is empty: a CSV needs a header line that names the columns, or --no-header",
                self.name
            )));
        }
        self.cover(&record);
        let unusable = |fault: &str| {
            let line = record.line;
            Problem::environment(format!(
                "the CSV header in line {line} of {} is unusable ({fault}): correct it",
                self.name
            ))
        };
        if let Some(fault) = &record.fault {
            return Err(unusable(fault));
        }
        record
            .csv_fields()
            .map(|field| {
                String::from_utf8(field.to_vec())
                    .map_err(|_| unusable("not valid UTF-8; --encoding names another encoding"))
            })
            .collect()
    }

    /// Reads the first `count` records ahead and shows them; they will still be given by `next`.
    ///
    /// # Errors
    /// An unreadable input, or Ctrl-C.
    pub(crate) fn sample(&mut self, count: u64) -> Result<impl Iterator<Item = &Record>, Problem> {
        let mut record = Record::default();
        let mut size_bytes = 0;
        while (self.sample.len() as u64) < count && size_bytes < SAMPLE_BYTES_MAX {
            if !self.read_ahead(&mut record)? {
                break;
            }
            size_bytes += record.raw.len();
            self.sample.push_back(record.to_kept());
        }
        Ok(self.sample.iter())
    }

    /// Reads a record before anything is begun; false at the end.
    fn read_ahead(&mut self, record: &mut Record) -> Result<bool, Problem> {
        loop {
            if interrupt::requested() {
                return Err(Problem::interrupted(
                    "interrupted before the first record: nothing was ingested",
                ));
            }
            match self.records.read(record) {
                Ok(Next::Record) => return Ok(true),
                Ok(Next::Idle) => {}
                Ok(Next::End) => return Ok(false),
                Err(error) => {
                    return Err(Problem::environment(format!(
                        "cannot read {} ({error}): nothing was ingested, check that the file is whole",
                        self.name
                    )));
                }
            }
        }
    }

    /// Gives the next record.
    pub(crate) fn next(&mut self, record: &mut Record) -> io::Result<Next> {
        let next = match self.sample.pop_front() {
            Some(sampled) => {
                *record = sampled;
                Next::Record
            }
            None => self.records.read(record)?,
        };
        if next == Next::Record {
            self.number += 1;
            self.cover(record);
        }
        Ok(next)
    }

    fn cover(&mut self, record: &Record) {
        self.checksum.update(&record.raw);
        self.checksum.update(b"\n");
    }

    /// Checksum of the header and of every record given so far.
    pub(crate) fn checksum(&self) -> u32 {
        self.checksum.sum()
    }
}
