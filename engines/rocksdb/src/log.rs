//! What the members of a group did, noted in order.
//!
//! Invariants:
//! 1. The log ends at the end of an operation, and every [`Mark`] lies at one.
//! 2. Cutting the log at a mark leaves what was noted before it, and nothing else.

/// A place in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Mark {
    bytes: usize,
    operations: usize,
    ranges: usize,
}

/// One operation; `family` is its place among the database's column families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operation<'a> {
    pub(crate) kind: Kind,
    pub(crate) family: usize,
    pub(crate) key: &'a [u8],
    /// The value; of a merge its operand, of a range its end, of a deletion nothing.
    pub(crate) value: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Put,
    Delete,
    Merge,
    DeleteRange,
}

/// Bytes before an operation's key: its kind, its family, the lengths of key and value.
const HEADER_BYTES: usize = 1 + 2 + 4 + 4;

/// The operations of a group that is being executed.
#[derive(Debug, Default)]
pub(crate) struct Log {
    bytes: Vec<u8>,
    end: Mark,
}

impl Log {
    /// Notes an operation.
    ///
    /// REQUIRES: key and value are shorter than 4 GiB, and the family's number is below 65,536.
    pub(crate) fn push(&mut self, operation: Operation<'_>) {
        let Operation { kind, family, key, value } = operation;
        let mut header = [0; HEADER_BYTES];
        header[0] = kind as u8;
        header[1..3].copy_from_slice(&u16::try_from(family).unwrap_or(u16::MAX).to_le_bytes());
        header[3..7].copy_from_slice(&length(key).to_le_bytes());
        header[7..].copy_from_slice(&length(value).to_le_bytes());
        self.bytes.reserve(HEADER_BYTES + key.len() + value.len());
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.end.bytes = self.bytes.len();
        self.end.operations += 1;
        self.end.ranges += usize::from(kind == Kind::DeleteRange);
    }

    /// Where the next operation will be noted.
    pub(crate) fn end(&self) -> Mark {
        self.end
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Strikes out what was noted after `mark`.
    pub(crate) fn cut(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.end = mark;
    }

    /// Forgets everything; keeps the memory for the next group.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.end = Mark::default();
    }

    /// Whether a range was deleted after `mark`.
    pub(crate) fn has_range_after(&self, mark: Mark) -> bool {
        self.end.ranges > mark.ranges
    }

    /// Memory that the notes take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Memory that the notes between two marks take, in bytes.
    pub(crate) fn bytes_between(from: Mark, to: Mark) -> usize {
        to.bytes - from.bytes
    }

    /// Operations between two marks.
    pub(crate) fn count(from: Mark, to: Mark) -> usize {
        to.operations - from.operations
    }

    /// The operations between two marks, in the order in which they were noted.
    pub(crate) fn between(&self, from: Mark, to: Mark) -> Operations<'_> {
        Operations { left: &self.bytes[from.bytes..to.bytes] }
    }
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// Operations in turn.
#[derive(Debug)]
pub(crate) struct Operations<'a> {
    left: &'a [u8],
}

impl<'a> Iterator for Operations<'a> {
    type Item = Operation<'a>;

    fn next(&mut self) -> Option<Operation<'a>> {
        let (header, rest) = self.left.split_first_chunk::<HEADER_BYTES>()?;
        let &[kind, f0, f1, k0, k1, k2, k3, v0, v1, v2, v3] = header;
        let kind = match kind {
            0 => Kind::Put,
            1 => Kind::Delete,
            2 => Kind::Merge,
            _ => Kind::DeleteRange,
        };
        let (key, rest) = rest.split_at(u32::from_le_bytes([k0, k1, k2, k3]) as usize);
        let (value, rest) = rest.split_at(u32::from_le_bytes([v0, v1, v2, v3]) as usize);
        self.left = rest;
        Some(Operation { kind, family: u16::from_le_bytes([f0, f1]).into(), key, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation<'a>(kind: Kind, key: &'a [u8], value: &'a [u8]) -> Operation<'a> {
        Operation { kind, family: 3, key, value }
    }

    #[test]
    fn gives_back_what_was_noted_and_forgets_what_was_cut() {
        let operations = [
            operation(Kind::Put, b"a", b"1"),
            operation(Kind::Delete, b"b", b""),
            operation(Kind::Merge, b"", b"operand"),
            operation(Kind::DeleteRange, b"c", b"d"),
        ];
        let mut log = Log::default();
        operations[..2].iter().for_each(|&operation| log.push(operation));
        let mark = log.end();
        operations[2..].iter().for_each(|&operation| log.push(operation));
        assert_eq!(log.between(Mark::default(), log.end()).collect::<Vec<_>>(), operations);
        assert_eq!(log.between(mark, log.end()).collect::<Vec<_>>(), operations[2..]);
        assert!(log.has_range_after(mark));
        log.cut(mark);
        assert_eq!(log.between(Mark::default(), log.end()).collect::<Vec<_>>(), operations[..2]);
        assert_eq!(Log::count(Mark::default(), log.end()), 2);
        assert!(!log.has_range_after(Mark::default()));
    }
}
