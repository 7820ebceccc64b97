//! The `--rejects FILE`: a CSV of what was rejected and why, written anew from the ledger by each run.
//!
//! The ledger in the database is what counts; the file is a view of it. That is why it holds each
//! rejected record exactly once even after a `kill -9`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::exit::Problem;
use crate::ingest::ledger::Reject;

/// The file being written.
pub(crate) struct RejectsFile {
    path: PathBuf,
    writer: csv::Writer<File>,
}

impl RejectsFile {
    /// Creates or empties the file at `path`.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(crate) fn create(path: &Path) -> Result<Self, Problem> {
        let file = File::create(path).map_err(|error| {
            Problem::environment(format!(
                "cannot write the rejects file {} ({error}): choose another place with --rejects",
                path.display()
            ))
        })?;
        let mut rejects =
            RejectsFile { path: path.to_owned(), writer: csv::Writer::from_writer(file) };
        let header = rejects.writer.write_record(["record", "line", "reason", "content"]);
        rejects.told(header)?;
        Ok(rejects)
    }

    /// Adds a rejected record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn add(&mut self, reject: &Reject) -> Result<(), Problem> {
        let (record, line) = (reject.record.to_string(), reject.line.to_string());
        let written = self.writer.write_record([&record, &line, &reject.reason, &reject.content]);
        self.told(written)
    }

    /// Hands what was added to the operating system.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn flush(&mut self) -> Result<(), Problem> {
        let flushed = self.writer.flush();
        self.told(flushed.map_err(csv::Error::from))
    }

    /// Flushes the file to disk.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn finish(mut self) -> Result<(), Problem> {
        self.flush()?;
        let synced = self.writer.get_ref().sync_all();
        // A pipe or a device has nothing to sync, and says so.
        let synced = synced.or_else(|error| {
            if error.kind() == io::ErrorKind::InvalidInput { Ok(()) } else { Err(error) }
        });
        self.told(synced.map_err(csv::Error::from))
    }

    fn told<T>(&self, result: Result<T, csv::Error>) -> Result<T, Problem> {
        result.map_err(|error| {
            Problem::environment(format!(
                "cannot write the rejects file {} ({error}): the rejected records are also in the table \
                 _groupcommit_rejects, and --resume writes the file anew",
                self.path.display()
            ))
        })
    }
}
