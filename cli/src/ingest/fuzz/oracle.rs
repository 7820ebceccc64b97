//! What is known of an input without the readers that are tested.

use std::{
    io::{self, BufReader, Read},
    str,
};

use serde_json::Value;

use crate::ingest::{
    infer::{Found, csv_columns, json_columns},
    job::{Column, Job, Shape, Work, json_members},
    ledger::Place,
    options::Format,
    record::{Next, Record},
    stream::Records,
    value::{Cell, Kind, Stored, canonical_integer, faithful_real, store},
};

/// Gives pieces of random sizes with quiet moments between them.
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    rng: fastrand::Rng,
    largest: usize,
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.rng.u8(0..8) {
            0 => return Err(io::ErrorKind::WouldBlock.into()),
            1 => return Err(io::ErrorKind::Interrupted.into()),
            _ => {}
        }
        let left = self.bytes.len() - self.at;
        let count = self.rng.usize(1..=self.largest).min(left).min(into.len());
        into[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Every record; ends for sure, or the reader gives more records than there are bytes.
fn read_all(mut records: Records, bytes: usize) -> Vec<Record> {
    let mut record = Record::default();
    let mut all = Vec::new();
    loop {
        match records.read(&mut record).expect("memory is readable") {
            Next::Record => {
                assert!(record.raw.len() <= bytes, "a record longer than the input");
                let room = record.fields.len() + record.ends.len();
                assert!(room <= 4 * bytes + 1_024, "{room} for an input of {bytes} bytes");
                all.push(record.to_kept());
            }
            Next::Idle => {}
            Next::End => return all,
        }
        assert!(all.len() <= bytes, "more records than bytes");
    }
}

type Seen<'a> = (u64, &'a [u8], Vec<&'a [u8]>, Option<&'a str>);

fn seen(records: &[Record]) -> Vec<Seen<'_>> {
    let mut all = Vec::new();
    for record in records {
        let fields = record.csv_fields().collect();
        all.push((record.line, record.raw.as_slice(), fields, record.fault.as_deref()));
    }
    all
}

/// The records of `input`, which are the same read whole and read in pieces.
fn records(input: &[u8], format: Format, delimiter: u8, rng: &mut fastrand::Rng) -> Vec<Record> {
    let whole = Records::new(Box::new(io::Cursor::new(input.to_vec())), format, delimiter);
    let whole = read_all(whole, input.len());
    let largest = [1, 2, 7, 64, 5_000][rng.usize(0..5)];
    let pieces = Pieces { bytes: input.to_vec(), at: 0, rng: rng.fork(), largest };
    let buffered = Box::new(BufReader::with_capacity(rng.usize(1..100), pieces));
    let pieces = read_all(Records::new(buffered, format, delimiter), input.len());
    assert_eq!(seen(&whole), seen(&pieces), "read whole, and read in pieces");
    let lines: Vec<u64> = whole.iter().map(|record| record.line).collect();
    assert!(lines.is_sorted() && lines.first() != Some(&0), "{lines:?}");
    let count = input.split(|byte| *byte == b'\n').count() as u64;
    assert!(lines.iter().all(|&line| line <= count), "a line behind the last: {lines:?}");
    whole
}

fn without_mark(input: &[u8]) -> &[u8] {
    input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input)
}

/// Jobs of all records: each keeps its raw text, and is a row, a statement or a verdict.
fn jobs(records: &[Record], shape: &Shape) -> Vec<Job> {
    let job = |(number, record): (usize, &Record)| {
        let place = Place { position: number as u64 + 1, line: record.line, checksum: 0 };
        let job = Job::new(place, record, shape);
        assert_eq!(job.content(), record.raw);
        assert_eq!(job.raw(), String::from_utf8_lossy(&record.raw));
        assert_eq!(job.place, place);
        if let Work::Verdict(reason) = &job.work {
            assert!(!reason.is_empty(), "a verdict without a reason");
        }
        assert!(record.fault.is_none() || matches!(job.work, Work::Verdict(_)));
        assert_eq!(job.with_verdict("x").raw(), job.raw());
        job
    };
    let jobs: Vec<_> = records.iter().enumerate().map(job).collect();
    assert_eq!(jobs.len(), records.len());
    jobs
}

fn shape(format: Format, found: Vec<Found>) -> Shape {
    let column = |found: Found| Column { kind: found.kind(), name: found.name };
    Shape {
        format,
        columns: found.into_iter().map(column).collect(),
        nulls: Vec::new(),
        ragged: false,
        encoding: "UTF-8",
        verbatim: format == Format::Sql,
    }
}

/// CSV against the `csv` crate.
pub(super) fn csv(input: &[u8], rng: &mut fastrand::Rng) {
    let delimiter = [b',', b';', b'\t'][rng.usize(0..3)];
    let ours = records(input, Format::Csv, delimiter, rng);
    let reference: Vec<csv::ByteRecord> = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter)
        .from_reader(input)
        .byte_records()
        .map(|record| record.expect("memory is readable"))
        .collect();
    let sound = ours.iter().position(|record| record.fault.is_some());
    if sound.is_none() {
        assert_eq!(ours.len(), reference.len(), "records");
    }
    for (at, (ours, reference)) in
        ours.iter().zip(&reference).enumerate().take(sound.unwrap_or(ours.len()))
    {
        let fields: Vec<_> = ours.csv_fields().collect();
        assert_eq!(fields, reference.iter().collect::<Vec<_>>(), "record {at}");
    }
    // Whatever quotes do, no byte is in two records or in none, line ends between them apart.
    let kept = |bytes: &[u8]| -> Vec<u8> {
        bytes.iter().copied().filter(|byte| !b"\r\n".contains(byte)).collect()
    };
    let all: Vec<u8> = ours.iter().flat_map(|record| record.raw.clone()).collect();
    assert_eq!(kept(&all), kept(without_mark(input)), "bytes");
    for record in ours.iter().filter(|record| record.fault.is_some()) {
        assert!(record.raw.contains(&b'"'), "a fault without a quote");
    }
    let Some((header, rows)) = ours.split_first() else { return };
    let names: Vec<String> =
        header.csv_fields().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    let shape = shape(Format::Csv, csv_columns(&names, &[], false, rows.iter()));
    for (job, record) in jobs(rows, &shape).iter().zip(rows) {
        let Work::Insert(cells) = &job.work else { continue };
        for ((cell, field), column) in cells.iter().zip(record.csv_fields()).zip(&shape.columns) {
            let field = str::from_utf8(field).expect("faithful text");
            match *cell {
                Cell::Null => assert_eq!(field, ""),
                Cell::Integer(integer) => assert_eq!(integer.to_string(), field),
                Cell::Real(real) => assert_eq!(field.parse(), Ok(real)),
                Cell::Text(from, to) => assert_eq!(job.text(from, to), field),
            }
            // The types were chosen from these very values.
            assert!(store(column.kind, field).is_some() || field.is_empty());
        }
    }
}

/// The lines of an input that hold records.
fn lines(input: &[u8], comments: bool) -> Vec<(u64, Vec<u8>)> {
    let end = |line: &[u8]| line.strip_suffix(b"\r").unwrap_or(line).to_vec();
    without_mark(input)
        .split(|byte| *byte == b'\n')
        .enumerate()
        .map(|(at, line)| (at as u64 + 1, end(line)))
        .filter(|(_, line)| !line.trim_ascii().is_empty())
        .filter(|(_, line)| !(comments && is_skipped(line.trim_ascii())))
        .collect()
}

/// Lines of SQL that are no statements of their own.
fn is_skipped(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line).to_ascii_uppercase();
    let words: Vec<_> = text.trim_end_matches(';').split_ascii_whitespace().collect();
    let frames = ["BEGIN", "COMMIT", "END", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "BEGIN DEFERRED"];
    line.starts_with(b"--") || frames.contains(&words.join(" ").as_str())
}

fn same_lines(ours: &[Record], input: &[u8], comments: bool) {
    let ours: Vec<_> = ours.iter().map(|record| (record.line, record.raw.clone())).collect();
    assert_eq!(ours, lines(input, comments));
}

/// SQL lines against a plain splitting.
pub(super) fn sql(input: &[u8], rng: &mut fastrand::Rng) {
    let ours = records(input, Format::Sql, b',', rng);
    same_lines(&ours, input, true);
    let shape = shape(Format::Sql, Vec::new());
    for (job, record) in jobs(&ours, &shape).iter().zip(&ours) {
        let readable = str::from_utf8(&record.raw).is_ok();
        assert_eq!(matches!(job.work, Work::Statement), readable);
    }
}

/// NDJSON against `serde_json`.
pub(super) fn ndjson(input: &[u8], rng: &mut fastrand::Rng) {
    let ours = records(input, Format::Ndjson, b',', rng);
    same_lines(&ours, input, false);
    let shape = shape(Format::Ndjson, json_columns(&[], ours.iter()));
    for (job, record) in jobs(&ours, &shape).iter().zip(&ours) {
        let parsed = str::from_utf8(&record.raw).ok().map(serde_json::from_str::<Value>);
        match (&job.work, parsed) {
            (Work::Insert(cells), Some(Ok(Value::Object(object)))) => {
                let members = json_members(job.raw()).expect("an object");
                assert_eq!(members.len(), object.len(), "a key came twice");
                for (column, cell) in shape.columns.iter().zip(cells) {
                    let raw = members.iter().find(|(key, _)| *key == column.name);
                    same_value(job, *cell, object.get(&column.name), raw.map(|(_, raw)| raw.get()));
                }
            }
            // `serde_json` has limits that text alone does not: of depth, of a number's size.
            (Work::Insert(_), Some(Err(error))) => {
                let limit = ["recursion limit", "number out of range"];
                let said = error.to_string();
                let nested = said.contains("surrogate") || said.contains("escape");
                assert!(nested || limit.iter().any(|it| said.contains(it)), "accepted: {said}");
            }
            (Work::Insert(_), other) => panic!("accepted although it is {other:?}"),
            (Work::Verdict(reason), Some(Ok(Value::Object(_)))) => {
                let known = ["cannot keep", "appears twice", "column \""];
                assert!(known.iter().any(|part| reason.contains(part)), "refused: {reason}");
            }
            (Work::Verdict(_), _) => {}
            (Work::Statement, _) => panic!("not SQL"),
        }
    }
}

fn same_value(job: &Job, cell: Cell, value: Option<&Value>, raw: Option<&str>) {
    match (cell, value) {
        (Cell::Null, None | Some(Value::Null)) => {}
        (Cell::Integer(integer), Some(Value::Number(number))) => {
            assert_eq!(number.to_string(), integer.to_string());
        }
        (Cell::Integer(integer), Some(Value::Bool(value))) => {
            assert_eq!(integer, i64::from(*value));
        }
        (Cell::Real(real), Some(Value::Number(_))) => {
            assert_eq!(raw.map(str::parse), Some(Ok(real)));
        }
        (Cell::Text(from, to), Some(Value::String(text))) => {
            assert_eq!(job.text(from, to), text);
        }
        (Cell::Text(from, to), Some(_)) => assert_eq!(Some(job.text(from, to)), raw),
        (cell, value) => panic!("{cell:?} is stored for {value:?}"),
    }
}

/// Numbers keep their value, whatever is around them.
pub(super) fn numbers(input: &[u8], _: &mut fastrand::Rng) {
    for word in input.split(|byte| b",\n\r\t;\"".contains(byte)) {
        let Ok(text) = str::from_utf8(word) else { continue };
        if let Some(integer) = canonical_integer(text) {
            assert_eq!(integer.to_string(), text);
        }
        if let Some(real) = faithful_real(text) {
            assert!(real.is_finite());
            assert_eq!(text.parse(), Ok(real), "{text}");
        }
        for kind in [Kind::Integer, Kind::Real, Kind::Boolean, Kind::Numeric] {
            if let Some(Stored::Text) = store(kind, text) {
                // SQLite would make a number of it otherwise.
                assert!(
                    text.trim().parse::<f64>().is_err() || text.trim().is_empty() || is_word(text),
                    "{kind:?} {text:?}"
                );
            }
        }
    }
}

/// What Rust takes for a number and SQLite does not.
fn is_word(text: &str) -> bool {
    let word = text.trim().trim_start_matches(['+', '-']).to_ascii_lowercase();
    ["inf", "infinity", "nan"].contains(&word.as_str())
}
