//! Choosing column names and types from the first records of an input.

use std::collections::HashMap;

use crate::ingest::job::{JsonKind, json_members};
use crate::ingest::record::Record;
use crate::ingest::stream::Stream;
use crate::ingest::value::{
    Kind, Stored, canonical_integer, looks_numeric, shortened, store_number,
};

/// Integers beyond this do not all have a double of their own.
const EXACT_IN_REAL: u64 = 1 << 53;

/// A column, with what the first records have in it.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "a set of what was seen, in any combination")]
pub(crate) struct Found {
    /// Its name.
    pub(crate) name: String,
    integers: bool,
    wide_integers: bool,
    reals: bool,
    booleans: bool,
    /// The first value that is no number, and its line.
    other: Option<(String, u64)>,
}

impl Found {
    fn named(name: String) -> Self {
        Found { name, ..Self::default() }
    }

    fn number(&mut self, text: &str, line: u64) {
        match store_number(text) {
            Some(Stored::Integer(integer)) => {
                self.integers = true;
                self.wide_integers |= integer.unsigned_abs() > EXACT_IN_REAL;
            }
            Some(Stored::Real(_)) => self.reals = true,
            _ => self.text(text, line),
        }
    }

    fn text(&mut self, text: &str, line: u64) {
        if self.other.is_none() {
            self.other = Some((shortened(text), line));
        }
    }

    /// What the column is to keep.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Found { other: Some(_), .. } => Kind::Text,
            Found { booleans: true, integers: false, reals: false, .. } => Kind::Boolean,
            Found { booleans: true, .. } => Kind::Text,
            Found { reals: true, wide_integers: false, .. } => Kind::Real,
            Found { reals: true, .. } => Kind::Text,
            Found { integers: true, .. } => Kind::Integer,
            _ => Kind::Text, // no value at all: a TEXT column alters nothing that may come
        }
    }

    /// Why a column is TEXT that looks like numbers.
    pub(crate) fn why_text(&self) -> Option<String> {
        if self.kind() != Kind::Text {
            return None;
        }
        let name = &self.name;
        let is_number = self.integers || self.reals;
        Some(match &self.other {
            Some((text, line)) if looks_numeric(text) => format!(
                "column \"{name}\" is TEXT: \"{text}\" in line {line} would not keep its digits as a number"
            ),
            Some((text, line)) if is_number => format!(
                "column \"{name}\" is TEXT: \"{text}\" in line {line} is no number; --null {text} makes it NULL"
            ),
            None if is_number && self.booleans => {
                format!("column \"{name}\" is TEXT: it has numbers and true or false")
            }
            None if is_number => {
                format!(
                    "column \"{name}\" is TEXT: it has fractions, and integers too large for a REAL"
                )
            }
            _ => return None,
        })
    }
}

/// The columns of a CSV input with these names. Records that do not fit the header tell nothing.
pub(crate) fn csv_columns<'a>(
    names: &[String],
    nulls: &[String],
    ragged: bool,
    sample: impl Iterator<Item = &'a Record>,
) -> Vec<Found> {
    let mut columns: Vec<_> = names.iter().cloned().map(Found::named).collect();
    let fits = |record: &&Record| ragged || record.fields_count == names.len();
    for record in sample.filter(|record| record.fault.is_none()).filter(fits) {
        for (field, column) in record.csv_fields().zip(&mut columns) {
            match std::str::from_utf8(field) {
                Ok(text) if text.is_empty() || nulls.iter().any(|null| null == text) => {}
                Ok(text) => column.number(text, record.line),
                Err(_) => column.text(&String::from_utf8_lossy(field), record.line),
            }
        }
    }
    columns
}

/// The columns of an NDJSON input: every key of the sample, in the order of its first appearance.
pub(crate) fn json_columns<'a>(
    nulls: &[String],
    sample: impl Iterator<Item = &'a Record>,
) -> Vec<Found> {
    let mut columns: Vec<Found> = Vec::new();
    for record in sample.filter(|record| record.fault.is_none()) {
        let Some(members) =
            std::str::from_utf8(&record.raw).ok().and_then(|line| json_members(line).ok())
        else {
            continue;
        };
        for (position, (key, value)) in members.into_iter().enumerate() {
            let guess = columns.get(position).is_some_and(|found| found.name == key);
            let known = if guess {
                Some(position)
            } else {
                columns.iter().position(|found| found.name == key)
            };
            let index = known.unwrap_or_else(|| {
                columns.push(Found::named(key.into_owned()));
                columns.len() - 1
            });
            let (column, value) = (&mut columns[index], value.get());
            match JsonKind::of(value) {
                JsonKind::Null => {}
                JsonKind::String
                    if nulls.iter().any(|null| Some(null.as_str()) == plain(value)) => {}
                JsonKind::Number => column.number(value, record.line),
                JsonKind::Boolean => column.booleans = true,
                JsonKind::String => column.text(plain(value).unwrap_or_default(), record.line),
                JsonKind::Nested => column.text(value, record.line),
            }
        }
    }
    columns
}

/// The content of a JSON string without escapes.
fn plain(value: &str) -> Option<&str> {
    value.strip_prefix('"')?.strip_suffix('"')
}

/// Checks that every name can be a column of its own.
///
/// # Errors
/// A sentence about the first name that cannot.
pub(crate) fn check_names<'a>(
    names: impl Iterator<Item = &'a str>,
    ignores_case: bool,
) -> Result<(), String> {
    let mut known: HashMap<String, &str> = HashMap::new();
    for (index, name) in names.enumerate() {
        if name.is_empty() {
            return Err(format!("column {} has no name; give it one in the input", index + 1));
        }
        if name.contains('\0') {
            return Err(format!("the name of column {} contains a NUL character", index + 1));
        }
        let compared = if ignores_case { name.to_ascii_lowercase() } else { name.to_owned() };
        match known.insert(compared, name) {
            None => {}
            Some(first) if first == name => {
                return Err(format!(
                    "the column name \"{name}\" appears twice; rename one in the input"
                ));
            }
            Some(first) => {
                return Err(format!(
                    "the names \"{first}\" and \"{name}\" differ only in case, which the database ignores; rename \
                     one in the input"
                ));
            }
        }
    }
    Ok(())
}

/// What is worth telling of a header that looks like a record.
pub(crate) fn note_on_header(stream: &Stream) -> Option<String> {
    looks_like_values(&stream.header).then(|| {
        format!(
            "every name in the header of {} is a number; --no-header reads it as a record",
            stream.name
        )
    })
}

fn looks_like_values(names: &[String]) -> bool {
    names.len() > 1 && names.iter().all(|name| canonical_integer(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::options::Format;
    use crate::ingest::record::Next;
    use crate::ingest::stream::Records;

    fn sample(mut records: Records) -> Vec<Record> {
        let mut record = Record::default();
        let mut all = Vec::new();
        while records.read(&mut record).expect("readable") == Next::Record {
            all.push(record.to_kept());
        }
        all
    }

    fn csv_kinds(values: &[&str]) -> Kind {
        let text: &'static str = Box::leak((values.join(",x\n") + ",x\n").into_boxed_str());
        let records = sample(Records::new(Box::new(text.as_bytes()), Format::Csv, b','));
        csv_columns(&["a".into(), "b".into()], &["NA".into()], false, records.iter())[0].kind()
    }

    #[test]
    fn csv_types_are_the_narrowest_that_alter_nothing() {
        for (values, kind) in [
            (&["1", "-2", "NA", ""][..], Kind::Integer),
            (&["1", "007"], Kind::Text),
            (&["1", "2.5"], Kind::Real),
            (&["1e3"], Kind::Real),
            (&["9223372036854775809"], Kind::Text),
            (&["9007199254740993", "0.5"], Kind::Text),
            (&["0.1234567890123456789"], Kind::Text),
            (&["1", "x"], Kind::Text),
            (&["true"], Kind::Text),
            (&["NA", ""], Kind::Text),
            (&["+1"], Kind::Text),
            (&["nan"], Kind::Text),
        ] {
            assert_eq!(csv_kinds(values), kind, "{values:?}");
        }
    }

    #[test]
    fn json_columns_are_the_union_of_the_keys_in_order() {
        let text = &br#"{"a":1,"b":"x","f":true}
{"a":2.5,"c":{"d":1},"b":null}
not json
{"e":null,"a":3,"f":false,"b":4}
"#[..];
        let records = sample(Records::new(Box::new(text), Format::Ndjson, b','));
        let columns = json_columns(&[], records.iter());
        let found: Vec<_> =
            columns.iter().map(|column| (column.name.as_str(), column.kind())).collect();
        assert_eq!(
            found,
            [
                ("a", Kind::Real),
                ("b", Kind::Text),
                ("f", Kind::Boolean),
                ("c", Kind::Text),
                ("e", Kind::Text)
            ]
        );
    }

    #[test]
    fn names_must_differ_and_exist() {
        assert!(check_names(["a", "b"].into_iter(), true).is_ok());
        assert!(check_names(["a", "A"].into_iter(), true).is_err());
        assert!(check_names(["a", "A"].into_iter(), false).is_ok());
        assert!(check_names(["a", ""].into_iter(), true).is_err());
        assert!(looks_like_values(&["2013".into(), "1".into()]));
        assert!(!looks_like_values(&["year".into(), "1".into()]));
    }
}
