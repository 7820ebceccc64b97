//! Choosing column names and types from the first records of an input.

use std::collections::HashSet;

use crate::ingest::job::{Column, JsonKind, json_members};
use crate::ingest::record::Record;
use crate::ingest::value::{Kind, Stored, canonical_integer, store_number};

/// Integers beyond this do not all have a double of their own.
const EXACT_IN_REAL: u64 = 1 << 53;

/// What was seen in one column.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "a set of what was seen, in any combination")]
struct Seen {
    integers: bool,
    wide_integers: bool,
    reals: bool,
    booleans: bool,
    others: bool,
}

impl Seen {
    fn number(&mut self, text: &str) {
        match store_number(text) {
            Some(Stored::Integer(integer)) => {
                self.integers = true;
                self.wide_integers |= integer.unsigned_abs() > EXACT_IN_REAL;
            }
            Some(Stored::Real(_)) => self.reals = true,
            _ => self.others = true,
        }
    }

    fn kind(self) -> Kind {
        match self {
            Seen { others: true, .. } => Kind::Text,
            Seen { booleans: true, integers: false, reals: false, .. } => Kind::Boolean,
            Seen { booleans: true, .. } => Kind::Text,
            Seen { reals: true, wide_integers: false, .. } => Kind::Real,
            Seen { reals: true, .. } => Kind::Text,
            Seen { integers: true, .. } => Kind::Integer,
            _ => Kind::Text, // no value at all: a TEXT column alters nothing that may come
        }
    }
}

/// The columns of a CSV input with these names. Records that do not fit the header tell nothing.
pub(crate) fn csv_columns<'a>(
    names: &[String],
    nulls: &[String],
    sample: impl Iterator<Item = &'a Record>,
) -> Vec<Column> {
    let mut seen = vec![Seen::default(); names.len()];
    for record in
        sample.filter(|record| record.fault.is_none() && record.fields_count == names.len())
    {
        for (field, seen) in record.csv_fields().zip(&mut seen) {
            match std::str::from_utf8(field) {
                Ok(text) if text.is_empty() || nulls.iter().any(|null| null == text) => {}
                Ok(text) => seen.number(text),
                Err(_) => seen.others = true,
            }
        }
    }
    names
        .iter()
        .zip(seen)
        .map(|(name, seen)| Column { name: name.clone(), kind: seen.kind() })
        .collect()
}

/// The columns of an NDJSON input: every key of the sample, in the order of its first appearance.
pub(crate) fn json_columns<'a>(
    nulls: &[String],
    sample: impl Iterator<Item = &'a Record>,
) -> Vec<Column> {
    let mut names: Vec<String> = Vec::new();
    let mut seen: Vec<Seen> = Vec::new();
    for record in sample.filter(|record| record.fault.is_none()) {
        let Some(members) =
            std::str::from_utf8(&record.raw).ok().and_then(|line| json_members(line).ok())
        else {
            continue;
        };
        for (position, (key, value)) in members.into_iter().enumerate() {
            let guess = names.get(position).is_some_and(|name| *name == key).then_some(position);
            let index =
                guess.or_else(|| names.iter().position(|name| *name == key)).unwrap_or_else(|| {
                    names.push(key.into_owned());
                    seen.push(Seen::default());
                    names.len() - 1
                });
            let value = value.get();
            match JsonKind::of(value) {
                JsonKind::Null => {}
                JsonKind::String
                    if nulls.iter().any(|null| Some(null.as_str()) == plain(value)) => {}
                JsonKind::Number => seen[index].number(value),
                JsonKind::Boolean => seen[index].booleans = true,
                JsonKind::String | JsonKind::Nested => seen[index].others = true,
            }
        }
    }
    names.into_iter().zip(seen).map(|(name, seen)| Column { name, kind: seen.kind() }).collect()
}

/// The content of a JSON string without escapes.
fn plain(value: &str) -> Option<&str> {
    value.strip_prefix('"')?.strip_suffix('"')
}

/// Checks that every name can be a column of its own.
///
/// # Errors
/// A sentence about the first name that cannot.
pub(crate) fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut known = HashSet::new();
    for (index, name) in names.enumerate() {
        if name.is_empty() {
            return Err(format!("column {} has no name", index + 1));
        }
        if name.contains('\0') {
            return Err(format!("the name of column {} contains a NUL character", index + 1));
        }
        if !known.insert(name.to_ascii_lowercase()) {
            return Err(format!("the column name \"{name}\" appears twice (SQLite ignores case)"));
        }
    }
    Ok(())
}

/// Whether a header looks like a record: most likely the header line is missing.
pub(crate) fn looks_like_values(names: &[String]) -> bool {
    names.len() > 1 && names.iter().all(|name| canonical_integer(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::csv::CsvRecords;
    use crate::ingest::options::Format;
    use crate::ingest::record::{LineRecords, Next, Records};

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
        let records =
            sample(Records::Csv(Box::new(CsvRecords::new(Box::new(text.as_bytes()), b','))));
        csv_columns(&["a".into(), "b".into()], &["NA".into()], records.iter())[0].kind
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
        let records = sample(Records::Lines(LineRecords::new(Box::new(text), Format::Ndjson)));
        let columns = json_columns(&[], records.iter());
        let found: Vec<_> =
            columns.iter().map(|column| (column.name.as_str(), column.kind)).collect();
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
        assert!(check_names(["a", "b"].into_iter()).is_ok());
        assert!(check_names(["a", "A"].into_iter()).is_err());
        assert!(check_names(["a", ""].into_iter()).is_err());
        assert!(looks_like_values(&["2013".into(), "1".into()]));
        assert!(!looks_like_values(&["year".into(), "1".into()]));
    }
}
