//! Which operation on a disk fails, and how.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// What can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Operation {
    Write,
    Flush,
}

/// How it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// EIO.
    InputOutput,
    /// ENOSPC.
    NoSpace,
    /// Half of it is written.
    Short,
}

/// A fault to inject.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Fault {
    /// How the names of the files end that it strikes.
    file: String,
    operation: Operation,
    kind: Kind,
    /// Operations until the first that fails, with it.
    left: u64,
    /// Whether every later one fails too.
    lasts: bool,
    /// Writes that begin here, in bytes from the file's beginning, are not counted and do not fail.
    spared: Range<usize>,
}

impl Fault {
    /// The `number`th operation from now fails, and no other.
    pub(crate) fn once(file: &str, operation: Operation, number: u64, kind: Kind) -> Self {
        Self { file: file.to_owned(), operation, kind, left: number, lasts: false, spared: 0..0 }
    }

    /// The `number`th operation from now and every later one fail.
    pub(crate) fn lasting(file: &str, operation: Operation, number: u64, kind: Kind) -> Self {
        Self { lasts: true, ..Self::once(file, operation, number, kind) }
    }

    /// Of the writes, only those that begin outside of `spared` are counted and fail.
    pub(crate) fn sparing(self, spared: Range<usize>) -> Self {
        Self { spared, ..self }
    }

    /// How this operation fails, if it does; a write begins at `offset`.
    pub(crate) fn strikes(
        &mut self,
        name: &str,
        operation: Operation,
        offset: usize,
    ) -> Option<Kind> {
        let is_meant = operation == self.operation && name.ends_with(&self.file);
        let is_spared = operation == Operation::Write && self.spared.contains(&offset);
        if !is_meant || is_spared || self.left == 0 {
            return None;
        }
        self.left -= 1;
        let strikes = self.left == 0;
        if strikes && self.lasts {
            self.left = 1;
        }
        strikes.then_some(self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strikes_the_file_and_the_number_that_it_is_meant_for() {
        let strikes = |mut fault: Fault| -> Vec<bool> {
            (0..4).map(|_| fault.strikes("a.db-wal", Operation::Write, 7).is_some()).collect()
        };
        let kind = Kind::InputOutput;
        assert_eq!(
            strikes(Fault::once("-wal", Operation::Write, 2, kind)),
            [false, true, false, false]
        );
        assert_eq!(
            strikes(Fault::lasting("-wal", Operation::Write, 2, kind)),
            [false, true, true, true]
        );
        assert_eq!(strikes(Fault::lasting(".db", Operation::Write, 1, kind)), [false; 4]);
        assert_eq!(strikes(Fault::lasting("-wal", Operation::Flush, 1, kind)), [false; 4]);
        let sparing = |spared| Fault::lasting("-wal", Operation::Write, 1, kind).sparing(spared);
        assert_eq!(strikes(sparing(0..8)), [false; 4]);
        assert_eq!(strikes(sparing(8..16)), [true; 4]);
    }
}
