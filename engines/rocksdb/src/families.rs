//! The column families of a database, and what each can do.
//!
//! RocksDB finds out too late what a write batch may not hold: after it is in the log, where every
//! later recovery fails on it again. So what a family can do is known here before anything is
//! noted. It is read from the `OPTIONS` file that RocksDB writes whenever families or settings
//! change.

use std::{fs, path::Path};

use crate::Error;

/// The family that every database has.
pub(crate) const DEFAULT: &str = "default";

/// One column family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) has_merge_operator: bool,
    pub(crate) has_range_deletion: bool,
    /// Keys are ordered as bytes are.
    pub(crate) is_bytewise: bool,
}

/// The families of the database at `path`, which is open; the default one is the first.
pub(crate) fn families(path: &Path) -> Result<Vec<Family>, Error> {
    let failed = |source| Error::Settings { path: path.to_owned(), source };
    let newest = fs::read_dir(path)
        .map_err(failed)?
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let number: u64 = name.strip_prefix("OPTIONS-")?.parse().ok()?;
            Some((number, name))
        })
        .max()
        .ok_or_else(|| Error::NotAFile(path.to_owned()))?;
    let text = fs::read_to_string(path.join(newest.1)).map_err(failed)?;
    let mut families = parse(&text);
    families.sort_by_key(|family| family.name != DEFAULT);
    Ok(families)
}

/// Sections are headed `[CFOptions "name"]` and `[TableOptions/Format "name"]`.
fn parse(options: &str) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    let mut in_family = false;
    for line in options.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            in_family = false;
            let Some((kind, name)) = section.split_once(' ') else { continue };
            if kind == "CFOptions" {
                in_family = true;
                families.push(Family {
                    name: name.trim_matches('"').to_owned(),
                    has_merge_operator: false,
                    has_range_deletion: false,
                    is_bytewise: false,
                });
            }
            continue;
        }
        let (Some(family), Some((key, value))) = (families.last_mut(), line.split_once('=')) else {
            continue;
        };
        match (in_family, key) {
            (true, "merge_operator") => {
                family.has_merge_operator = !value.is_empty() && value != "nullptr";
            }
            (true, "comparator") => family.is_bytewise = value == "leveldb.BytewiseComparator",
            (true, "table_factory") => family.has_range_deletion = value == "BlockBasedTable",
            _ => {}
        }
    }
    families
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_each_family_can_do() {
        let text = "[DBOptions]\n  manual_wal_flush=false\n\n[CFOptions \"default\"]\n  \
                    comparator=leveldb.BytewiseComparator\n  merge_operator=nullptr\n  \
                    table_factory=BlockBasedTable\n\n[TableOptions/BlockBasedTable \"default\"]\n  \
                    comparator=none\n[CFOptions \"a b\"]\n  merge_operator={id=sum}\n  \
                    comparator=own\n  table_factory=PlainTable\n";
        let [default, other] = &parse(text)[..] else { panic!("two families") };
        assert_eq!((default.name.as_str(), other.name.as_str()), ("default", "a b"));
        assert!(!default.has_merge_operator && other.has_merge_operator);
        assert!(default.is_bytewise && !other.is_bytewise);
        assert!(default.has_range_deletion && !other.has_range_deletion);
    }
}
