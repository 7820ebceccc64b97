//! From a record to a key and a value.
//!
//! The key is the text of its column. The value is the whole record: of CSV, a JSON object with the
//! columns in their order and typed as in a table; of NDJSON, the line itself. No value is altered;
//! what cannot be kept is a rejected record.

use std::borrow::Cow;

use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use crate::ingest::job::{Column, Job, JsonKind, Shape, Work, json_members};
use crate::ingest::options::{Encoding, Format};
use crate::ingest::value::{Cell, Kind};

/// How records become keys and values.
#[derive(Debug)]
pub(crate) struct Pair {
    columns: Vec<Column>,
    key: String,
    key_index: usize,
    encoding: Encoding,
    key_bytes_max: usize,
}

/// A key with its value.
pub(crate) type Bytes = (Vec<u8>, Vec<u8>);

impl Pair {
    /// For records of `shape` under the column `key`.
    ///
    /// # Errors
    /// What is wrong, if a CSV has no such column.
    pub(crate) fn new(
        shape: &Shape,
        key: &str,
        encoding: Encoding,
        key_bytes_max: usize,
    ) -> Result<Self, String> {
        let key_index = shape.columns.iter().position(|column| column.name == key);
        if shape.format == Format::Csv && key_index.is_none() {
            let names: Vec<&str> = shape.columns.iter().map(|c| c.name.as_str()).collect();
            return Err(format!("the input has no column {key}; it has {}", names.join(", ")));
        }
        Ok(Self {
            columns: shape.columns.clone(),
            key: key.to_owned(),
            key_index: key_index.unwrap_or_default(),
            encoding,
            key_bytes_max,
        })
    }

    /// The key and value of `job`'s record.
    ///
    /// # Errors
    /// Why it is rejected.
    pub(crate) fn of(&self, job: &Job) -> Result<Bytes, String> {
        match &job.work {
            Work::Insert(cells) => {
                let key = self.checked(&text_of(cells[self.key_index], job).unwrap_or_default())?;
                let mut object = Map::with_capacity(cells.len());
                for (column, cell) in self.columns.iter().zip(cells) {
                    object.insert(column.name.clone(), json_of(column, *cell, job)?);
                }
                Ok((key, self.encoded(&Value::Object(object))?))
            }
            Work::Statement => self.of_line(job.raw()),
            Work::Verdict(reason) => Err(reason.to_string()),
        }
    }

    /// Of a line of JSON.
    fn of_line(&self, line: &str) -> Result<Bytes, String> {
        let members = json_members(line)?;
        let mut named = members.iter().filter(|(name, _)| *name == self.key);
        let found = named.next();
        if named.next().is_some() {
            return Err(format!("key \"{}\" appears twice", self.key));
        }
        let key = match found {
            Some((_, value)) => json_text(value)
                .ok_or_else(|| format!("key \"{}\" is no text and no number", self.key))?,
            None => Cow::Borrowed(""),
        };
        let key = self.checked(&key)?;
        match self.encoding {
            Encoding::Json => Ok((key, line.trim().as_bytes().to_vec())),
            Encoding::Msgpack => {
                let value: Value =
                    serde_json::from_str(line).map_err(|error| format!("not JSON: {error}"))?;
                // A number that MessagePack has no room for would be kept as another.
                if let Some(number) = members.iter().find_map(|(_, value)| inexact(value.get())) {
                    return Err(format!("MessagePack cannot keep {number} as it is"));
                }
                Ok((key, self.encoded(&value)?))
            }
        }
    }

    fn checked(&self, key: &str) -> Result<Vec<u8>, String> {
        if key.is_empty() {
            return Err(format!("key \"{}\" is missing or empty", self.key));
        }
        if key.len() > self.key_bytes_max {
            return Err(format!(
                "key \"{}\" has {} bytes, and at most {} can be kept",
                self.key,
                key.len(),
                self.key_bytes_max
            ));
        }
        Ok(key.as_bytes().to_vec())
    }

    fn encoded(&self, value: &Value) -> Result<Vec<u8>, String> {
        match self.encoding {
            Encoding::Json => serde_json::to_vec(value).map_err(|error| error.to_string()),
            Encoding::Msgpack => rmp_serde::to_vec_named(value).map_err(|error| error.to_string()),
        }
    }
}

/// The text of a cell; `None` where there is no value.
fn text_of(cell: Cell, job: &Job) -> Option<String> {
    match cell {
        Cell::Null => None,
        Cell::Integer(integer) => Some(integer.to_string()),
        Cell::Real(real) => Some(real.to_string()),
        Cell::Text(from, to) => Some(job.text(from, to).to_owned()),
    }
}

fn json_of(column: &Column, cell: Cell, job: &Job) -> Result<Value, String> {
    Ok(match cell {
        Cell::Null => Value::Null,
        Cell::Integer(integer) if column.kind == Kind::Boolean => Value::Bool(integer != 0),
        Cell::Integer(integer) => integer.into(),
        Cell::Real(real) => Number::from_f64(real)
            .map(Value::Number)
            .ok_or_else(|| format!("column \"{}\": JSON has no {real}", column.name))?,
        Cell::Text(from, to) => job.text(from, to).into(),
    })
}

/// The text of a JSON string or number.
fn json_text(value: &RawValue) -> Option<Cow<'_, str>> {
    match JsonKind::of(value.get()) {
        JsonKind::String => serde_json::from_str::<String>(value.get()).ok().map(Cow::Owned),
        JsonKind::Number => Some(Cow::Borrowed(value.get())),
        JsonKind::Null => Some(Cow::Borrowed("")),
        JsonKind::Boolean | JsonKind::Nested => None,
    }
}

/// The number in `value` that neither a 64-bit integer nor a double keeps exactly.
fn inexact(value: &str) -> Option<String> {
    use crate::ingest::value::store_number;
    match JsonKind::of(value) {
        JsonKind::Number => store_number(value).is_none().then(|| value.to_owned()),
        JsonKind::Nested => {
            let inner: Vec<Box<RawValue>> = serde_json::from_str(value)
                .or_else(|_| {
                    serde_json::from_str::<std::collections::BTreeMap<String, Box<RawValue>>>(value)
                        .map(|members| members.into_values().collect())
                })
                .ok()?;
            inner.iter().find_map(|inner| inexact(inner.get()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::ledger::Place;
    use crate::ingest::record::Record;

    fn shape() -> Shape {
        Shape {
            format: Format::Ndjson,
            columns: Vec::new(),
            nulls: Vec::new(),
            ragged: false,
            encoding: "UTF-8",
            verbatim: true,
        }
    }

    fn line(raw: &str) -> Job {
        let record = Record { line: 1, raw: raw.into(), ..Record::default() };
        Job::new(Place::default(), &record, &shape())
    }

    fn pair(encoding: Encoding) -> Pair {
        Pair::new(&shape(), "id", encoding, 20).expect("no columns to look at")
    }

    #[test]
    fn a_line_is_kept_as_it_is_under_its_key() {
        let raw = r#"{"n": 1.50, "id": "caf\u00e9", "x": [1, {"y": 12345678901234567890.1}]}"#;
        let (key, value) = pair(Encoding::Json).of(&line(raw)).expect("kept");
        assert_eq!((key, value), ("café".into(), raw.into()));
        let (key, _) = pair(Encoding::Json).of(&line(r#"{"id": 12.0}"#)).expect("kept");
        assert_eq!(key, b"12.0");
    }

    #[test]
    fn message_pack_holds_the_same_values_or_refuses() {
        let raw = r#"{"id":1,"a":[true,null,-7,0.5,"t"]}"#;
        let (_, value) = pair(Encoding::Msgpack).of(&line(raw)).expect("kept");
        let read: Value = rmp_serde::from_slice(&value).expect("reads");
        assert_eq!(read.to_string(), raw);
        let raw = r#"{"id":1,"a":[{"b":12345678901234567890.1}]}"#;
        let refused = pair(Encoding::Msgpack).of(&line(raw)).expect_err("refused");
        assert!(refused.contains("12345678901234567890.1"), "{refused}");
    }

    #[test]
    fn records_without_a_usable_key_are_refused() {
        for (raw, part) in [
            (r#"{"a":1}"#, "missing"),
            (r#"{"id":null}"#, "missing"),
            (r#"{"id":""}"#, "empty"),
            (r#"{"id":[1]}"#, "no text"),
            (r#"{"id":1,"id":2}"#, "twice"),
            (r#"{"id":"123456789012345678901"}"#, "21 bytes"),
            ("[1]", "a JSON array"),
        ] {
            let refused = pair(Encoding::Json).of(&line(raw)).expect_err(raw);
            assert!(refused.contains(part), "{refused}");
        }
    }
}
