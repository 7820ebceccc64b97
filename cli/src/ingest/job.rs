//! A record made ready to be executed: its values, or the verdict that it is rejected.
//!
//! The conversion is exact or it is a verdict (see [`crate::ingest::value`]). A job owns its bytes in
//! one buffer: the raw record first, then whatever text had to be unquoted; cells point into it.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::ingest::ledger::Place;
use crate::ingest::options::Format;
use crate::ingest::record::Record;
use crate::ingest::summary::counted;
use crate::ingest::value::{Cell, Kind, Stored, looks_numeric, misfit, store, store_number};

/// A column that records are inserted into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Its name, as in the input.
    pub(crate) name: String,
    /// What it keeps.
    pub(crate) kind: Kind,
}

/// What a record has to look like.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// How records are written.
    pub(crate) format: Format,
    /// The columns, in the order of the parameters.
    pub(crate) columns: Vec<Column>,
    /// Texts that stand for NULL.
    pub(crate) nulls: Vec<String>,
    /// Whether a CSV record may have fewer fields than there are columns.
    pub(crate) ragged: bool,
    /// The encoding of the input, for messages.
    pub(crate) encoding: &'static str,
    /// Whether the text of a record is taken as it is.
    pub(crate) verbatim: bool,
}

/// What is to be done for one record.
#[derive(Debug, PartialEq)]
pub(crate) enum Work {
    /// Insert these values.
    Insert(Box<[Cell]>),
    /// Run the raw record as SQL.
    Statement,
    /// Only record why it is rejected.
    Verdict(Box<str>),
}

/// One record, ready to be executed.
#[derive(Debug)]
pub(crate) struct Job {
    /// Where it stands in the input.
    pub(crate) place: Place,
    /// What to do.
    pub(crate) work: Work,
    text: Box<str>,
    raw_length: usize,
    /// Its own bytes, where they are not text.
    bytes: Option<Box<[u8]>>,
}

impl Job {
    /// Makes a job of `record`.
    pub(crate) fn new(place: Place, record: &Record, shape: &Shape) -> Self {
        let (text, raw_length, work) = prepare(record, shape);
        let bytes = (text.as_bytes().get(..raw_length) != Some(&record.raw[..]))
            .then(|| record.raw.clone().into_boxed_slice());
        Job { place, work, text: text.into_boxed_str(), raw_length, bytes }
    }

    /// The same record, now with a verdict.
    pub(crate) fn with_verdict(&self, reason: impl Into<Box<str>>) -> Self {
        Job {
            place: self.place,
            work: Work::Verdict(reason.into()),
            text: self.raw().into(),
            raw_length: self.raw_length,
            bytes: self.bytes.clone(),
        }
    }

    /// The record as text (with U+FFFD for what is not valid).
    pub(crate) fn raw(&self) -> &str {
        &self.text[..self.raw_length]
    }

    /// The record as it stands in the input.
    pub(crate) fn content(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or(self.raw().as_bytes())
    }

    /// The text of a [`Cell::Text`].
    pub(crate) fn text(&self, from: u32, to: u32) -> &str {
        &self.text[from as usize..to as usize]
    }

    /// Bytes that the job owns, for admission.
    pub(crate) fn size_bytes(&self) -> usize {
        let cells = if let Work::Insert(cells) = &self.work { size_of_val(&**cells) } else { 0 };
        size_of::<Self>() + self.text.len() + cells
    }
}

fn prepare(record: &Record, shape: &Shape) -> (String, usize, Work) {
    let Ok(raw) = std::str::from_utf8(&record.raw) else {
        let text = String::from_utf8_lossy(&record.raw).into_owned();
        let reason = record.fault.clone().unwrap_or_else(|| not_valid(shape));
        let length = text.len();
        return (text, length, Work::Verdict(reason.into()));
    };
    let mut text = String::with_capacity(raw.len() * 2);
    text.push_str(raw);
    let work = match (&record.fault, shape.format) {
        (Some(fault), _) => Err(fault.clone()),
        (None, _) if shape.verbatim => Ok(Work::Statement),
        (None, Format::Csv) => csv_cells(record, shape, &mut text).map(Work::Insert),
        (None, _) => json_cells(shape, raw, &mut text).map(Work::Insert),
    };
    (text, raw.len(), work.unwrap_or_else(|reason| Work::Verdict(reason.into())))
}

fn not_valid(shape: &Shape) -> String {
    match shape.encoding {
        "UTF-8" => "not valid UTF-8; --encoding names another encoding".to_owned(),
        encoding => format!("not valid {encoding}"),
    }
}

fn csv_cells(record: &Record, shape: &Shape, text: &mut String) -> Result<Box<[Cell]>, String> {
    let (fields, wanted) = (record.csv_fields(), shape.columns.len());
    let count = fields.len();
    let is_surplus_empty = || record.csv_fields().skip(wanted).all(<[u8]>::is_empty);
    if count != wanted && !(shape.ragged && is_surplus_empty()) {
        let verb = if count == 1 { "is" } else { "are" };
        let has = counted(count as u64, "field");
        let wanted = counted(wanted as u64, "column");
        return Err(format!("there {verb} {has} for {wanted}"));
    }
    let missing = std::iter::repeat_n(None, wanted.saturating_sub(count));
    fields
        .map(Some)
        .chain(missing)
        .zip(&shape.columns)
        .map(|(field, column)| {
            let Some(field) = field else { return Ok(Cell::Null) };
            // The record is valid as a whole, but a quote may have cut a character in two.
            let field = std::str::from_utf8(field).map_err(|_| not_valid(shape))?;
            if shape.nulls.iter().any(|null| null == field) {
                return Ok(Cell::Null);
            }
            if field.is_empty() && !matches!(column.kind, Kind::Text | Kind::Untyped) {
                return Ok(Cell::Null);
            }
            match store(column.kind, field) {
                Some(stored) => Ok(cell(stored, field, text)),
                None => Err(misfit(&column.name, column.kind, &format!("\"{field}\""))),
            }
        })
        .collect()
}

fn cell(stored: Stored, value: &str, text: &mut String) -> Cell {
    match stored {
        Stored::Integer(integer) => Cell::Integer(integer),
        Stored::Real(real) => Cell::Real(real),
        Stored::Text => {
            let from = offset(text.len());
            text.push_str(value);
            Cell::Text(from, offset(text.len()))
        }
    }
}

/// Positions fit 32 bits: a record has at most 16 MiB, its unquoted text no more than that.
fn offset(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// The members of a JSON object, in their order, values unparsed.
pub(crate) fn json_members(line: &str) -> Result<Vec<(Cow<'_, str>, &RawValue)>, String> {
    serde_json::from_str::<Members<'_>>(line).map(|members| members.0).map_err(|error| {
        match line.trim_start().as_bytes().first() {
            Some(b'[') => {
                "a JSON array, not an object: give one object a line, as `jq -c '.[]'` writes them"
                    .to_owned()
            }
            _ => format!("not a JSON object: {error}"),
        }
    })
}

struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(16);
                while let Some((Key(key), value)) = map.next_entry()? {
                    members.push((key, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

fn json_cells(shape: &Shape, raw: &str, text: &mut String) -> Result<Box<[Cell]>, String> {
    let columns = &shape.columns;
    let mut cells = vec![Cell::Null; columns.len()].into_boxed_slice();
    let mut seen = vec![false; columns.len()];
    for (position, (key, value)) in json_members(raw)?.into_iter().enumerate() {
        // Keys mostly come in the same order, so the first guess is the position itself.
        let guess =
            columns.get(position).is_some_and(|column| column.name == key).then_some(position);
        let Some(index) = guess.or_else(|| columns.iter().position(|column| column.name == key))
        else {
            let similar = columns.iter().find(|column| column.name.eq_ignore_ascii_case(&key));
            return Err(match similar {
                Some(column) => {
                    format!("key \"{key}\" differs in case from column \"{}\"", column.name)
                }
                None => format!("key \"{key}\" has no column"),
            });
        };
        if std::mem::replace(&mut seen[index], true) {
            return Err(format!("key \"{key}\" appears twice"));
        }
        cells[index] = json_cell(&columns[index], &shape.nulls, raw, value.get(), text)?;
    }
    Ok(cells)
}

fn json_cell(
    column: &Column,
    nulls: &[String],
    raw: &str,
    value: &str,
    text: &mut String,
) -> Result<Cell, String> {
    let refused = || misfit(&column.name, column.kind, value);
    match JsonKind::of(value) {
        JsonKind::Null => Ok(Cell::Null),
        JsonKind::String => {
            let content: Cow<'_, str> = if value.contains('\\') {
                Cow::Owned(
                    serde_json::from_str(value)
                        .map_err(|error| format!("column \"{}\": {error}", column.name))?,
                )
            } else {
                Cow::Borrowed(&value[1..value.len() - 1])
            };
            if nulls.iter().any(|null| *null == content) {
                return Ok(Cell::Null);
            }
            // A string is no number: where SQLite would make one of it, or none fits, it is refused.
            match column.kind {
                Kind::Text | Kind::Untyped => {}
                Kind::Numeric | Kind::Boolean if !looks_numeric(&content) => {}
                _ => return Err(refused()),
            }
            Ok(match content {
                Cow::Borrowed(part) => slice_of(raw, part),
                Cow::Owned(owned) => cell(Stored::Text, &owned, text),
            })
        }
        JsonKind::Number => match column.kind {
            Kind::Text => Ok(slice_of(raw, value)),
            Kind::Untyped | Kind::Boolean => {
                store_number(value).map(|stored| cell(stored, value, text)).ok_or_else(refused)
            }
            kind => store(kind, value).map(|stored| cell(stored, value, text)).ok_or_else(refused),
        },
        JsonKind::Boolean => match column.kind {
            Kind::Boolean => Ok(Cell::Integer(i64::from(value == "true"))),
            Kind::Text => Ok(slice_of(raw, value)),
            _ => Err(refused()),
        },
        JsonKind::Nested => match column.kind {
            Kind::Integer | Kind::Real => Err(refused()),
            _ => Ok(slice_of(raw, value)),
        },
    }
}

/// The cell for `part`, which is a slice of `raw`, without copying it.
fn slice_of(raw: &str, part: &str) -> Cell {
    let from = part.as_ptr() as usize - raw.as_ptr() as usize;
    Cell::Text(offset(from), offset(from + part.len()))
}

/// What a JSON value is, by its first character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonKind {
    /// `null`.
    Null,
    /// A string.
    String,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// An object or an array.
    Nested,
}

impl JsonKind {
    /// The kind of a valid JSON value.
    pub(crate) fn of(value: &str) -> Self {
        match value.as_bytes().first() {
            Some(b'"') => JsonKind::String,
            Some(b'{' | b'[') => JsonKind::Nested,
            Some(b't' | b'f') => JsonKind::Boolean,
            Some(b'n') => JsonKind::Null,
            _ => JsonKind::Number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::record::Next;
    use crate::ingest::stream::Records;

    fn shape(format: Format, columns: &[(&str, Kind)]) -> Shape {
        let columns = columns
            .iter()
            .map(|(name, kind)| Column { name: (*name).to_owned(), kind: *kind })
            .collect();
        let nulls = vec!["NA".to_owned()];
        Shape { format, columns, nulls, ragged: false, encoding: "UTF-8", verbatim: false }
    }

    fn job(shape: &Shape, bytes: &'static [u8]) -> Job {
        let mut record = Record::default();
        let next = Records::new(Box::new(bytes), shape.format, b',').read(&mut record);
        assert_eq!(next.expect("readable"), Next::Record);
        Job::new(Place::default(), &record, shape)
    }

    fn shown(job: &Job) -> Vec<String> {
        match &job.work {
            Work::Insert(cells) => cells
                .iter()
                .map(|cell| match *cell {
                    Cell::Null => "NULL".to_owned(),
                    Cell::Integer(integer) => integer.to_string(),
                    Cell::Real(real) => format!("{real:?}"),
                    Cell::Text(from, to) => format!("'{}'", job.text(from, to)),
                })
                .collect(),
            Work::Statement => vec!["statement".to_owned()],
            Work::Verdict(reason) => vec![format!("rejected: {reason}")],
        }
    }

    #[test]
    fn csv_fields_become_what_their_columns_keep() {
        let shape = shape(
            Format::Csv,
            &[
                ("i", Kind::Integer),
                ("r", Kind::Real),
                ("t", Kind::Text),
                ("d", Kind::Numeric),
                ("e", Kind::Integer),
            ],
        );
        assert_eq!(
            shown(&job(&shape, b"7,1,\"a \"\"b\"\"\",2013-01-01,")),
            ["7", "1.0", "'a \"b\"'", "'2013-01-01'", "NULL"]
        );
        assert_eq!(shown(&job(&shape, b"NA,NA,NA,NA,NA")), ["NULL"; 5]);
        assert_eq!(shown(&job(&shape, b"1,1,,1.5,0")), ["1", "1.0", "''", "1.5", "0"]);
    }

    #[test]
    fn csv_records_that_do_not_fit_are_verdicts_with_their_raw_text() {
        let shape = shape(Format::Csv, &[("zip", Kind::Integer), ("b", Kind::Text)]);
        for (bytes, reason) in [
            (&b"007,x\n"[..], "column \"zip\" is INTEGER and cannot keep \"007\" as it is"),
            (b"1,x,y\n", "there are 3 fields for 2 columns"),
            (b"1,\xff\n", "not valid UTF-8; --encoding names another encoding"),
            (b"1,\"x\n", "the quote that opens in line 1 is not closed"),
        ] {
            let job = job(&shape, bytes);
            assert_eq!(shown(&job), [format!("rejected: {reason}")]);
            assert_eq!(job.raw(), String::from_utf8_lossy(bytes).trim_end());
            assert_eq!(job.content(), bytes.trim_ascii_end());
            assert_eq!(job.with_verdict("other").raw(), job.raw());
        }
    }

    #[test]
    fn ragged_records_lack_their_last_fields() {
        let mut shape = shape(Format::Csv, &[("i", Kind::Integer), ("t", Kind::Text)]);
        assert_eq!(shown(&job(&shape, b"7")), ["rejected: there is 1 field for 2 columns"]);
        shape.ragged = true;
        assert_eq!(shown(&job(&shape, b"7")), ["7", "NULL"]);
        assert_eq!(shown(&job(&shape, b"7,x,,")), ["7", "'x'"]);
        assert_eq!(shown(&job(&shape, b"7,x,y")), ["rejected: there are 3 fields for 2 columns"]);
    }

    #[test]
    fn json_values_keep_their_text_and_type() {
        let shape = shape(
            Format::Ndjson,
            &[
                ("i", Kind::Integer),
                ("t", Kind::Text),
                ("n", Kind::Text),
                ("b", Kind::Boolean),
                ("r", Kind::Real),
            ],
        );
        assert_eq!(
            shown(&job(
                &shape,
                br#"{"t":"caf\u00e9 \"x\"","i":-5,"n":{"k": [1,2.50]},"b":true,"r":2}"#
            )),
            ["-5", "'café \"x\"'", "'{\"k\": [1,2.50]}'", "1", "2.0"]
        );
        assert_eq!(
            shown(&job(&shape, br#"{"t":12345678901234567890.10,"n":false}"#)),
            ["NULL", "'12345678901234567890.10'", "'false'", "NULL", "NULL"]
        );
        assert_eq!(shown(&job(&shape, br#"{"t":"NA","n":"plain"}"#))[1..3], ["NULL", "'plain'"]);
    }

    #[test]
    fn json_that_would_be_altered_is_a_verdict() {
        let shape =
            shape(Format::Ndjson, &[("i", Kind::Integer), ("r", Kind::Real), ("d", Kind::Numeric)]);
        for (bytes, part) in [
            (&br#"{"i":"7"}"#[..], "cannot keep \"7\" as it is"),
            (br#"{"i":1.5}"#, "cannot keep 1.5 as it is"),
            (br#"{"i":true}"#, "cannot keep true as it is"),
            (br#"{"d":"007"}"#, "cannot keep"),
            (br#"{"r":0.12345678901234567890}"#, "cannot keep"),
            (br#"{"x":1}"#, "key \"x\" has no column"),
            (br#"{"i":1,"i":1}"#, "key \"i\" appears twice"),
            (b"[1]", "a JSON array"),
            (br#"{"i":1"#, "not a JSON object"),
            (br#"{"i":1} {}"#, "not a JSON object"),
        ] {
            let shown = shown(&job(&shape, bytes));
            assert!(shown[0].starts_with("rejected: ") && shown[0].contains(part), "{shown:?}");
        }
    }
}
