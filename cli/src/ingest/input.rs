//! The input as a stream of bytes: a file or standard input, gzip seen through.
//!
//! A pipe that has nothing to give reports [`std::io::ErrorKind::WouldBlock`] after a moment instead
//! of blocking on, so that the caller can look for Ctrl-C and show progress while it waits.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, IsTerminal as _, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::exit::Problem;
use crate::ingest::interrupt;
use crate::ingest::options::Options;

const BUFFER_BYTES: usize = 256 * 1024;
const IDLE_MS: i64 = 200;

/// An opened input.
pub(crate) struct Input {
    /// The decompressed bytes.
    pub(crate) bytes: Box<dyn BufRead>,
    /// How messages call it.
    pub(crate) name: String,
    /// Size of the file as stored, where it has one.
    pub(crate) size_bytes: Option<u64>,
    /// Bytes of the file as stored that were read so far.
    pub(crate) read_bytes: Arc<AtomicU64>,
}

/// Opens the input of `options` and looks at its first bytes.
///
/// # Errors
/// A missing or unreadable file, a compression other than gzip, or Ctrl-C while waiting for it.
pub(crate) fn open(options: &Options) -> Result<Input, Problem> {
    let (file, name) = match options.input.as_deref() {
        Some(path) if !options.reads_standard_input() => {
            (open_file(path)?, path.display().to_string())
        }
        given => {
            let standard = io::stdin();
            if given.is_none() && standard.is_terminal() {
                return Err(Problem::environment(
                    "no input: name a FILE, pipe records into the program, or give - to type them",
                ));
            }
            let file = standard.as_fd().try_clone_to_owned().map(File::from).map_err(|error| {
                Problem::environment(format!("cannot read standard input ({error}): is it closed?"))
            })?;
            (file, "standard input".to_owned())
        }
    };
    let unreadable = |error: &io::Error| {
        Problem::environment(format!(
            "cannot read {name} ({error}): check the file and its permissions"
        ))
    };
    let metadata = file.metadata().map_err(|error| unreadable(&error))?;
    if metadata.is_dir() {
        return Err(Problem::environment(format!("{name} is a directory: name a file in it")));
    }
    let size_bytes = metadata.is_file().then_some(metadata.len());
    let read_bytes = Arc::new(AtomicU64::new(0));
    let mut source =
        Source { file, waits: size_bytes.is_none(), read_bytes: Arc::clone(&read_bytes) };
    let mut head = Vec::with_capacity(6);
    while head.len() < 6 {
        let mut byte = [0];
        match source.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => head.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if interrupt::requested() {
                    return Err(Problem::interrupted(
                        "interrupted before the first record: nothing was ingested",
                    ));
                }
            }
            Err(error) => return Err(unreadable(&error)),
        }
    }
    if let Some((compression, command)) = foreign_compression(&head) {
        return Err(Problem::environment(format!(
            "{name} is compressed with {compression}, and only gzip is read: \
             give the output of `{command}` on standard input"
        )));
    }
    let gzip = head.starts_with(&[0x1f, 0x8b]);
    let whole = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(head).chain(source));
    let bytes: Box<dyn BufRead> = if gzip {
        Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(whole)))
    } else {
        Box::new(whole)
    };
    Ok(Input { bytes, name, size_bytes, read_bytes })
}

fn open_file(path: &Path) -> Result<File, Problem> {
    File::open(path).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::NotFound => "check the path",
            io::ErrorKind::PermissionDenied => "check its permissions",
            _ => "check the file",
        };
        Problem::environment(format!(
            "cannot open the input {} ({error}): {advice}",
            path.display()
        ))
    })
}

fn foreign_compression(head: &[u8]) -> Option<(&'static str, &'static str)> {
    let known: [(&[u8], _, _); 4] = [
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd", "zstd -dc FILE"),
        (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz", "xz -dc FILE"),
        (b"BZh", "bzip2", "bzip2 -dc FILE"),
        (b"PK\x03\x04", "zip", "unzip -p FILE"),
    ];
    known
        .into_iter()
        .find(|(magic, ..)| head.starts_with(magic))
        .map(|(_, name, command)| (name, command))
}

/// The file itself; counts what was read, and never waits long on a pipe.
struct Source {
    file: File,
    waits: bool,
    read_bytes: Arc<AtomicU64>,
}

impl Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.waits {
            let mut descriptors = [PollFd::new(&self.file, PollFlags::IN)];
            let moment = Timespec { tv_sec: 0, tv_nsec: IDLE_MS * 1_000_000 };
            match poll(&mut descriptors, Some(&moment)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let count = self.file.read(into)?;
        self.read_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_compressions_are_told_apart() {
        assert_eq!(foreign_compression(b"BZh91AY").map(|found| found.0), Some("bzip2"));
        assert_eq!(foreign_compression(b"year,mon"), None);
        assert_eq!(foreign_compression(&[0x1f, 0x8b]), None);
    }
}
