//! What the store itself remembers about an ingest: how far it came, and what it rejected.
//!
//! Under the target's name: the place, of a fixed length, rewritten by every record. Under the name
//! with a zero behind it: what the ingest began with, written once. Rejects have the name, a zero and
//! their number as key.

use std::error::Error;
use std::fmt;

use super::store::{Space, Store, Transaction};
use crate::ingest::ledger::{Entry, Reject};

/// How far an ingest came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Records decided.
    pub(crate) position: u64,
    /// Line of the last of them.
    pub(crate) line: u64,
    /// Checksum of the input up to there.
    pub(crate) checksum: u32,
    /// Records rejected among them.
    pub(crate) rejected: u64,
    /// Whether the end of the input was reached.
    pub(crate) finished: bool,
}

/// Why a record's transaction must not be committed.
#[derive(Debug)]
pub(crate) enum Refusal<E> {
    /// The record before this one has not been decided.
    OutOfStep,
    /// The engine failed.
    Engine(E),
}

impl<E: Error> fmt::Display for Refusal<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfStep => f.write_str("the record before it has not been decided"),
            Self::Engine(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl<E: Error> Error for Refusal<E> {}

impl<E> From<E> for Refusal<E> {
    fn from(error: E) -> Self {
        Self::Engine(error)
    }
}

/// The ledger of one target.
pub(crate) struct Ledger<S: Store> {
    spaces: S::Spaces,
    target: String,
}

type Done<S, T = ()> = Result<T, Refusal<<S as Store>::Error>>;

impl<S: Store> Ledger<S> {
    pub(crate) fn new(spaces: S::Spaces, target: &str) -> Self {
        Self { spaces, target: target.to_owned() }
    }

    fn prefix(&self) -> Vec<u8> {
        [self.target.as_bytes(), b"\0"].concat()
    }

    /// The entry, if an ingest was ever begun.
    pub(crate) fn find(&self, database: &S::Database) -> Result<Option<Entry>, S::Error> {
        let key = self.target.as_bytes();
        let found = S::scan(database, &self.spaces, Space::Ledger, key, key, 2)?;
        let value = |key: &[u8]| {
            found.iter().find(|(found, _)| found == key).map(|(_, value)| value.as_slice())
        };
        let (Some(place), Some(begun)) =
            (value(key).and_then(Place::from_bytes), value(&self.prefix()))
        else {
            return Ok(None);
        };
        let begun = String::from_utf8_lossy(begun);
        let (source, reading) = begun.split_once('\0').unwrap_or((&begun, ""));
        Ok(Some(Entry {
            id: 0,
            source: source.to_owned(),
            reading: reading.to_owned(),
            position: place.position,
            line: place.line,
            checksum: place.checksum,
            rejected: place.rejected,
            finished: place.finished,
        }))
    }

    /// Begins an ingest, forgetting the one before.
    pub(crate) fn begin(
        &self,
        tx: &mut Transaction<'_, S>,
        source: &str,
        reading: &str,
    ) -> Result<Entry, S::Error> {
        let prefix = self.prefix();
        S::delete_prefix(tx, &self.spaces, Space::Rejects, &prefix)?;
        let begun = [source, reading].join("\0");
        S::put(tx, &self.spaces, Space::Ledger, &prefix, begun.as_bytes())?;
        let place = Place { position: 0, line: 0, checksum: 0, rejected: 0, finished: false };
        S::put(tx, &self.spaces, Space::Ledger, self.target.as_bytes(), &place.to_bytes())?;
        Ok(Entry {
            id: 0,
            source: source.to_owned(),
            reading: reading.to_owned(),
            position: 0,
            line: 0,
            checksum: 0,
            rejected: 0,
            finished: false,
        })
    }

    /// Moves the place from `before` on; fails if it is another.
    pub(crate) fn advance(
        &self,
        tx: &mut Transaction<'_, S>,
        before: Place,
        place: Place,
    ) -> Done<S> {
        let key = self.target.as_bytes();
        let found = S::get(tx, &self.spaces, Space::Ledger, key)?;
        let found = found.as_deref().and_then(Place::from_bytes).map(|found| found.position);
        if found != Some(before.position) {
            return Err(Refusal::OutOfStep);
        }
        Ok(S::put(tx, &self.spaces, Space::Ledger, key, &place.to_bytes())?)
    }

    /// Puts a record.
    pub(crate) fn put_record(
        &self,
        tx: &mut Transaction<'_, S>,
        key: &[u8],
        value: &[u8],
    ) -> Done<S> {
        Ok(S::put(tx, &self.spaces, Space::Records, key, value)?)
    }

    /// Keeps the verdict that a record is rejected.
    pub(crate) fn put_reject(&self, tx: &mut Transaction<'_, S>, reject: &Reject) -> Done<S> {
        let key = [&self.prefix()[..], &reject.record.to_be_bytes()].concat();
        let value = [reject.line.to_string(), reject.reason.clone(), reject.content.clone()];
        Ok(S::put(tx, &self.spaces, Space::Rejects, &key, value.join("\0").as_bytes())?)
    }

    /// At most `count_max` verdicts behind record `after`, in order.
    pub(crate) fn rejects(
        &self,
        database: &S::Database,
        after: u64,
        count_max: usize,
    ) -> Result<Vec<Reject>, S::Error> {
        let prefix = self.prefix();
        let from = [&prefix[..], &(after + 1).to_be_bytes()].concat();
        let rows = S::scan(database, &self.spaces, Space::Rejects, &prefix, &from, count_max)?;
        let reject = |(key, value): (Vec<u8>, Vec<u8>)| {
            let record = u64::from_be_bytes(key[prefix.len()..].try_into().ok()?);
            let value = String::from_utf8(value).ok()?;
            let mut parts = value.splitn(3, '\0').map(str::to_owned);
            Some(Reject {
                record,
                line: parts.next()?.parse().ok()?,
                reason: parts.next()?,
                content: parts.next()?,
            })
        };
        Ok(rows.into_iter().filter_map(reject).collect())
    }
}

impl Place {
    pub(crate) fn of(entry: &Entry) -> Self {
        let &Entry { position, line, checksum, rejected, finished, .. } = entry;
        Self { position, line, checksum, rejected, finished }
    }

    fn to_bytes(self) -> Vec<u8> {
        [
            &self.position.to_be_bytes()[..],
            &self.line.to_be_bytes(),
            &self.rejected.to_be_bytes(),
            &self.checksum.to_be_bytes(),
            &[u8::from(self.finished)],
        ]
        .concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Self {
            position: number(0)?,
            line: number(8)?,
            rejected: number(16)?,
            checksum: u32::from_be_bytes(bytes.get(24..28)?.try_into().ok()?),
            finished: *bytes.get(28)? == 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_back_as_it_was_written() {
        let place = Place {
            position: 1 << 40,
            line: 7,
            checksum: 0xdead_beef,
            rejected: 3,
            finished: true,
        };
        assert_eq!(Place::from_bytes(&place.to_bytes()), Some(place));
        assert_eq!(Place::from_bytes(&place.to_bytes()[1..]), None);
    }
}
