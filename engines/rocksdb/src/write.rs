//! Transactions as plain data: writes, and what they come to.

use std::sync::Arc;

use crate::{
    Error, Transaction,
    transaction::{FamilyName, family_of},
};

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Write {
    /// Sets the value of a key.
    Put {
        /// The column family; `None` is the default one.
        family: Option<Arc<str>>,
        /// The key.
        key: Vec<u8>,
        /// Its new value.
        value: Vec<u8>,
    },
    /// Deletes a key, if it is there.
    Delete {
        /// The column family; `None` is the default one.
        family: Option<Arc<str>>,
        /// The key.
        key: Vec<u8>,
    },
    /// Deletes every key of a range.
    DeleteRange {
        /// The column family; `None` is the default one.
        family: Option<Arc<str>>,
        /// The first key of the range.
        from: Vec<u8>,
        /// The key before which the range ends.
        to: Vec<u8>,
    },
    /// Sets or deletes a key that has the expected value; otherwise the whole transaction is
    /// rejected with [`Error::Mismatch`].
    CompareAndSwap {
        /// The column family; `None` is the default one.
        family: Option<Arc<str>>,
        /// The key.
        key: Vec<u8>,
        /// The value that it must have; `None`: it must have none.
        expected: Option<Vec<u8>>,
        /// Its new value; `None` deletes it.
        new: Option<Vec<u8>>,
    },
    /// Merges an operand into a key's value by the family's merge operator.
    Merge {
        /// The column family; `None` is the default one.
        family: Option<Arc<str>>,
        /// The key.
        key: Vec<u8>,
        /// What is merged.
        operand: Vec<u8>,
    },
}

/// What one write came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteResult {
    /// It was done.
    Done,
    /// The key had the expected value, and has the new one.
    Swapped,
}

impl Write {
    /// Sets the value of a key.
    pub fn put(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self::Put { family: None, key: key.into(), value: value.into() }
    }

    /// Deletes a key.
    pub fn delete(key: impl Into<Vec<u8>>) -> Self {
        Self::Delete { family: None, key: key.into() }
    }

    /// Deletes every key from `from` up to but without `to`.
    pub fn delete_range(from: impl Into<Vec<u8>>, to: impl Into<Vec<u8>>) -> Self {
        Self::DeleteRange { family: None, from: from.into(), to: to.into() }
    }

    /// Sets a key to `new`, or deletes it, if it has the value `expected`, or none.
    pub fn compare_and_swap(
        key: impl Into<Vec<u8>>,
        expected: Option<Vec<u8>>,
        new: Option<Vec<u8>>,
    ) -> Self {
        Self::CompareAndSwap { family: None, key: key.into(), expected, new }
    }

    /// Merges `operand` into the value of a key.
    pub fn merge(key: impl Into<Vec<u8>>, operand: impl Into<Vec<u8>>) -> Self {
        Self::Merge { family: None, key: key.into(), operand: operand.into() }
    }

    /// The same write in a column family.
    #[must_use]
    pub fn in_family(mut self, name: impl Into<Arc<str>>) -> Self {
        *self.family_mut() = Some(name.into());
        self
    }

    /// Memory that the write holds, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let held = match self {
            Self::Put { key, value, .. } => key.len() + value.len(),
            Self::Delete { key, .. } => key.len(),
            Self::DeleteRange { from, to, .. } => from.len() + to.len(),
            Self::CompareAndSwap { key, expected, new, .. } => {
                key.len() + expected.as_ref().map_or(0, Vec::len) + new.as_ref().map_or(0, Vec::len)
            }
            Self::Merge { key, operand, .. } => key.len() + operand.len(),
        };
        size_of::<Self>() + held
    }

    fn family_mut(&mut self) -> &mut FamilyName {
        match self {
            Self::Put { family, .. }
            | Self::Delete { family, .. }
            | Self::DeleteRange { family, .. }
            | Self::CompareAndSwap { family, .. }
            | Self::Merge { family, .. } => family,
        }
    }

    pub(crate) fn run(&self, tx: &mut Transaction<'_>, index: usize) -> Result<WriteResult, Error> {
        match self {
            Self::Put { family, key, value } => tx.put_cf(family_of(family), key, value)?,
            Self::Delete { family, key } => tx.delete_cf(family_of(family), key)?,
            Self::DeleteRange { family, from, to } => {
                tx.delete_range_cf(family_of(family), from, to)?;
            }
            Self::Merge { family, key, operand } => tx.merge_cf(family_of(family), key, operand)?,
            Self::CompareAndSwap { family, key, expected, new } => {
                let family = family_of(family);
                if !tx.compare_and_swap_cf(family, key, expected.as_deref(), new.as_deref())? {
                    return Err(Error::Mismatch { index, found: tx.get_cf(family, key)? });
                }
                return Ok(WriteResult::Swapped);
            }
        }
        Ok(WriteResult::Done)
    }
}
