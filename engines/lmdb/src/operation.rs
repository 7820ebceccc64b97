//! Transactions as plain data: puts, deletes and swaps, and what they return.

use std::ops::Bound;

use heed::types::Bytes;

use crate::Transaction;

/// A table of bytes. Any typed [`heed::Database`] becomes one with `remap_types`.
pub type Table = heed::Database<'static, Bytes, Bytes>;

/// One operation on a table.
#[derive(Debug, Clone)]
pub struct Operation {
    table: Table,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    Put { key: Vec<u8>, value: Vec<u8> },
    Delete { key: Vec<u8> },
    DeleteRange { from: Bound<Vec<u8>>, to: Bound<Vec<u8>> },
    Swap { key: Vec<u8>, expected: Option<Vec<u8>>, new: Option<Vec<u8>> },
}

/// What one operation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationResult {
    /// The value is set.
    Put,
    /// Keys that were removed.
    Deleted(u64),
    /// The value was the expected one, and is now the new one.
    Swapped,
    /// The value was another, this one, and still is.
    Differed(Option<Vec<u8>>),
}

impl Operation {
    /// Sets the value of `key`.
    pub fn put(table: Table, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { table, what: What::Put { key: key.into(), value: value.into() } }
    }

    /// Removes `key`, if it is there.
    pub fn delete(table: Table, key: impl Into<Vec<u8>>) -> Self {
        Self { table, what: What::Delete { key: key.into() } }
    }

    /// Removes every key between two bounds.
    #[must_use]
    pub fn delete_range(table: Table, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Self {
        Self { table, what: What::DeleteRange { from, to } }
    }

    /// Compare and swap: where the value of `key` is `expected` (`None`: there is none), makes it
    /// `new` (`None`: removes it). Otherwise nothing happens, and the transaction goes on.
    pub fn swap(
        table: Table,
        key: impl Into<Vec<u8>>,
        expected: Option<Vec<u8>>,
        new: Option<Vec<u8>>,
    ) -> Self {
        Self { table, what: What::Swap { key: key.into(), expected, new } }
    }

    /// Memory that the operation holds, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let length = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        let bound = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.len(),
            Bound::Unbounded => 0,
        };
        let held = match &self.what {
            What::Put { key, value } => key.len() + value.len(),
            What::Delete { key } => key.len(),
            What::DeleteRange { from, to } => bound(from) + bound(to),
            What::Swap { key, expected, new } => key.len() + length(expected) + length(new),
        };
        size_of::<Self>() + held
    }

    pub(crate) fn run(&self, tx: &mut Transaction<'_>) -> heed::Result<OperationResult> {
        let table = self.table;
        match &self.what {
            What::Put { key, value } => table.put(tx, key, value).map(|()| OperationResult::Put),
            What::Delete { key } => Ok(OperationResult::Deleted(table.delete(tx, key)?.into())),
            What::DeleteRange { from, to } => {
                let range = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
                Ok(OperationResult::Deleted(table.delete_range(tx, &range)? as u64))
            }
            What::Swap { key, expected, new } => {
                let found = table.get(tx, key)?;
                if found != expected.as_deref() {
                    return Ok(OperationResult::Differed(found.map(<[u8]>::to_vec)));
                }
                match new {
                    Some(new) => table.put(tx, key, new)?,
                    None => drop(table.delete(tx, key)?),
                }
                Ok(OperationResult::Swapped)
            }
        }
    }
}
