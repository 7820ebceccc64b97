//! The `--rejects FILE`: a CSV of what was rejected and why, written anew from the ledger by each run.
//!
//! The ledger in the database is what counts; the file is a view of it. That is why it holds each
//! rejected record exactly once even after a `kill -9`.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::exit::Problem;
use crate::ingest::ledger::Reject;
use crate::ingest::options::{Destination, Options};
use crate::ingest::stream::Stream;

/// Verdicts read from the ledger at once.
const AT_ONCE: u32 = 1_000;

/// The file being written.
pub(crate) struct RejectsFile {
    path: PathBuf,
    writer: csv::Writer<File>,
}

impl RejectsFile {
    /// Refuses a file that is the input or the database.
    ///
    /// # Errors
    /// It would be overwritten.
    pub(crate) fn check(options: &Options, stream: &Stream) -> Result<(), Problem> {
        let Some(path) = &options.rejects else { return Ok(()) };
        if path.as_os_str() == "-" {
            return Err(Problem::environment(
                "--rejects needs a file: standard output has the summary; ./- is a file named -",
            ));
        }
        let Some(identity) = identity(path) else { return Ok(()) };
        let mut kept = vec![stream.identity];
        if let Ok(Destination::Sqlite(database) | Destination::Keyed(_, database)) =
            options.destination()
        {
            for ending in ["", "-wal", "-shm", "-journal", "/data.mdb", "/lock.mdb"] {
                let mut file = database.clone().into_os_string();
                file.push(ending);
                kept.extend(self::identity(Path::new(&file)));
            }
        }
        if kept.contains(&identity) {
            return Err(Problem::environment(format!(
                "--rejects {} would overwrite the input or the database: choose another file",
                path.display()
            )));
        }
        Ok(())
    }

    /// The file that `options` ask for, filled with the records that earlier runs rejected. `batch` returns
    /// the next of them after a record, in order, up to a number.
    ///
    /// # Errors
    /// It cannot be written, or what `batch` fails with.
    pub(crate) fn restore(
        options: &Options,
        mut batch: impl FnMut(u64, u32) -> Result<Vec<Reject>, Problem>,
    ) -> Result<Option<Self>, Problem> {
        let Some(path) = &options.rejects else { return Ok(None) };
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
        let fields =
            [record.as_bytes(), line.as_bytes(), reject.reason.as_bytes(), &reject.content];
        let written = self.writer.write_record(fields);
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

/// The device and number of an ordinary file, by which its names are known to be the same.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some((metadata.dev(), metadata.ino()))
}
