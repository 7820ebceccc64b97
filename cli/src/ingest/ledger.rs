//! What a database remembers of an ingest: how far it came, and which records it rejected.
//!
//! 1. An entry belongs to one input and one table. Two inputs into one table do not touch each other.
//! 2. A record's own transaction moves the entry's place, or notes that the record is decided. The
//!    place is therefore exact after any interruption.
//! 3. A rejected record is kept in the same way as a row: durably, and once.

use serde::{Deserialize, Serialize};

use crate::exit::Problem;
use crate::ingest::options::Options;
use crate::ingest::summary::counted;

/// Names that begin with this are the program's own.
pub(crate) const PREFIX: &str = "_groupcommit";

/// How far the ingest of one input into one table came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Its number in the database.
    pub(crate) id: i64,
    /// The table, or (sql).
    pub(crate) target: String,
    /// The input: the path of a file, or "standard input".
    pub(crate) source: String,
    /// Checksum of the header and the first record: tells inputs of the same name apart.
    pub(crate) head: u32,
    /// The options that decide how the input is read.
    pub(crate) reading: String,
    /// The last record decided.
    pub(crate) place: Place,
    /// The last record decided beyond that place; 0 where there is none.
    #[serde(default)]
    pub(crate) beyond: u64,
    /// Records rejected so far.
    pub(crate) rejected: u64,
    /// Whether the end of the input was reached.
    pub(crate) finished: bool,
}

/// A place in the input: behind a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Number of the record, from 1; 0 before the first.
    pub(crate) position: u64,
    /// Line on which the record begins.
    pub(crate) line: u64,
    /// Checksum of the input up to and including the record.
    pub(crate) checksum: u32,
}

/// A rejected record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reject {
    /// Number of the record, from 1.
    pub(crate) record: u64,
    /// Line on which it begins, from 1.
    pub(crate) line: u64,
    /// Why it was rejected.
    pub(crate) reason: String,
    /// The record's own bytes.
    pub(crate) content: Vec<u8>,
}

/// The entry of this input, and whether the ingest goes on behind it.
#[derive(Debug)]
pub(crate) enum Before {
    /// This input is new here.
    Nothing,
    /// Its entry is to be replaced.
    Forget(Entry),
    /// Its entry is to be continued.
    Continue(Entry),
}

/// Chooses among the entries of the table; `fresh` is what a new entry would be.
///
/// # Errors
/// The input was ingested before and neither --resume nor --restart says what to do, or it was read
/// with other options.
pub(crate) fn choose(
    options: &Options,
    entries: &[Entry],
    fresh: &Entry,
) -> Result<Before, Problem> {
    let is_named = |entry: &&Entry| entry.source == fresh.source;
    let is_alike = |entry: &&Entry| entry.head == fresh.head;
    let found = entries.iter().find(|entry| is_named(entry) && is_alike(entry)).or_else(|| {
        // A file that was moved is the same input, one that was changed is not: the checksum of the
        // records that were read tells them apart.
        let mut known = entries.iter().rev().filter(|_| options.resume);
        known.clone().find(is_alike).or_else(|| known.find(is_named))
    });
    let Some(entry) = found.cloned() else { return Ok(Before::Nothing) };
    let position = entry.place.position.max(entry.beyond);
    if options.restart || position == 0 {
        return Ok(Before::Forget(entry));
    }
    let Entry { source, target, reading, .. } = &entry;
    if options.resume {
        if *reading == fresh.reading {
            return Ok(Before::Continue(entry));
        }
        return Err(Problem::environment(format!(
            "the ingest of {source} into {target} was begun with other options ({reading}; now {}): give the same with --resume",
            fresh.reading
        )));
    }
    let records = counted(position, "record");
    Err(Problem::environment(if entry.finished {
        format!(
            "{source} is in {target} already, to its end ({records}): --resume adds what was appended since, \
             --restart inserts every record again"
        )
    } else {
        format!(
            "the ingest of {source} into {target} was interrupted behind record {position}: --resume continues it, \
             --restart begins at the first record again; rows that are in the table stay"
        )
    }))
}
