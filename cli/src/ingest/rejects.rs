//! The `--rejects FILE`: a CSV of what was rejected and why, written anew from the ledger by each run.
//!
//! The ledger in the database is what counts; the file is a view of it. That is why it holds each
//! rejected record exactly once even after a `kill -9`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::exit::Problem;
use crate::ingest::ledger::Reject;
use crate::ingest::options::Options;

/// Verdicts read from the ledger at once.
const AT_ONCE: u32 = 1_000;

/// The file being written.
pub(crate) struct RejectsFile {
    path: PathBuf,
    writer: csv::Writer<File>,
}

impl RejectsFile {
    /// The file that `options` ask for, filled with the verdicts of earlier runs: `batch` gives at
    /// most so many of them, in order, behind a record.
    ///
    /// # Errors
    /// It would overwrite the input or `database`, it cannot be written, or what `batch` fails with.
    pub(crate) fn restore(
        options: &Options,
        database: Option<&Path>,
        mut batch: impl FnMut(u64, u32) -> Result<Vec<Reject>, Problem>,
    ) -> Result<Option<Self>, Problem> {
        let Some(path) = &options.rejects else { return Ok(None) };
        let is_same = |other: &Path| matches!((path.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other);
        if [database, options.input.as_deref()].into_iter().flatten().any(is_same) {
            return Err(Problem::environment(format!(
                "--rejects {} would overwrite the input or the database: choose another file",
                path.display()
            )));
        }
        let mut file = Self::create(path)?;
        let mut after = 0;
        loop {
            let rejects = batch(after, AT_ONCE)?;
            let Some(last) = rejects.last() else { return Ok(Some(file)) };
            after = last.record;
            rejects.iter().try_for_each(|reject| file.add(reject))?;
        }
    }

    /// Creates or empties the file at `path`.
    fn create(path: &Path) -> Result<Self, Problem> {
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
