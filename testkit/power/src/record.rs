//! What a writer records of its tickets, in a file that no power cut touches.
//!
//! Each record is 16 bytes, appended by one `write`: it is in the kernel's hands before the
//! transaction counts as acknowledged, so that killing the writer loses none.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::Path,
};

use anyhow::{Context, Result};

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    /// The writer opened the database; its next transaction has this number.
    Opened(u64),
    /// The transaction was acknowledged.
    Acknowledged(u64),
    /// The transaction was said to have had no effect.
    WithoutEffect(u64),
    /// The transaction was said to be unknown.
    Unknown(u64),
    /// A durable read returned this head.
    ReadDurable(u64),
    /// A transaction came to something that it may not come to: one that fails on purpose, or one whose
    /// token was there, or was not.
    WrongOutcome,
    /// The power is about to be cut. What is recorded later was not acknowledged before the cut.
    Cutting,
    /// The transaction was submitted again under its token, and not applied again.
    Repeated(u64),
}

const RECORD_BYTES: usize = 16;

impl Record {
    fn encode(self) -> [u8; RECORD_BYTES] {
        let (kind, value) = match self {
            Self::Opened(value) => (1_u64, value),
            Self::Acknowledged(value) => (2, value),
            Self::WithoutEffect(value) => (3, value),
            Self::Unknown(value) => (4, value),
            Self::ReadDurable(value) => (5, value),
            Self::WrongOutcome => (6, 0),
            Self::Cutting => (7, 0),
            Self::Repeated(value) => (8, value),
        };
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&kind.to_le_bytes());
        bytes[8..].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let kind = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
        let value = u64::from_le_bytes(bytes.get(8..)?.try_into().ok()?);
        Some(match kind {
            1 => Self::Opened(value),
            2 => Self::Acknowledged(value),
            3 => Self::WithoutEffect(value),
            4 => Self::Unknown(value),
            5 => Self::ReadDurable(value),
            6 => Self::WrongOutcome,
            7 => Self::Cutting,
            8 => Self::Repeated(value),
            _ => return None,
        })
    }
}

/// The writer's end. Any thread may append.
#[derive(Debug)]
pub(crate) struct Recorder(File);

impl Recorder {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Self(file.with_context(|| format!("cannot open {}", path.display()))?))
    }

    /// Ends the process when it cannot be written: nothing could be concluded any more.
    pub(crate) fn record(&self, record: Record) {
        if let Err(error) = (&self.0).write_all(&record.encode()) {
            eprintln!("cannot record what was acknowledged: {error}");
            std::process::exit(3);
        }
    }
}

/// The harness's end: reads what is new.
#[derive(Debug)]
pub(crate) struct Reader {
    file: File,
    read: u64,
}

impl Reader {
    /// Of a new and empty file at `path`.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let created =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path);
        let file = created.with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { file, read: 0 })
    }

    pub(crate) fn read(&mut self) -> Result<Vec<Record>> {
        self.file.seek(SeekFrom::Start(self.read))?;
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes)?;
        self.read += bytes.len() as u64;
        bytes
            .chunks(RECORD_BYTES)
            .map(|chunk| Record::decode(chunk).context("a record is damaged"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_recorded_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        let mut reader = Reader::create(&path).unwrap();
        let recorder = Recorder::open(&path).unwrap();
        let all = [
            Record::Opened(1),
            Record::Acknowledged(2),
            Record::WithoutEffect(3),
            Record::Unknown(4),
            Record::ReadDurable(u64::MAX),
            Record::WrongOutcome,
            Record::Cutting,
            Record::Repeated(5),
        ];
        all.into_iter().for_each(|record| recorder.record(record));
        assert_eq!(reader.read().unwrap(), all);
        assert_eq!(reader.read().unwrap(), []);
    }
}
