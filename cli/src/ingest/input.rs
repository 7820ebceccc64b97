//! The input as a stream of bytes in UTF-8: a file or standard input, unpacked and decoded.
//!
//! A pipe that has nothing to give reports [`std::io::ErrorKind::WouldBlock`] after a moment instead
//! of blocking on, so that the caller can look for Ctrl-C and show progress while it waits.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, IsTerminal as _, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use encoding_rs::{Encoding, UTF_8};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::exit::Problem;
use crate::ingest::decode::{Decoded, Gunzip};
use crate::ingest::interrupt;
use crate::ingest::options::Options;

const BUFFER_BYTES: usize = 256 * 1024;
const IDLE_MS: i64 = 200;

/// How far the first line is read ahead, to tell the format.
const HEAD_BYTES_MAX: usize = 4096;

/// An opened input.
pub(crate) struct Input {
    /// The bytes, unpacked and in UTF-8.
    pub(crate) bytes: Box<dyn BufRead>,
    /// The first of them: through the first line that is not blank, unless it is long.
    pub(crate) head: Vec<u8>,
    /// The encoding before that.
    pub(crate) encoding: &'static str,
    /// The file behind it: its device and number.
    pub(crate) identity: (u64, u64),
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
            let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            (open_file(path)?, whole.display().to_string())
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
    let metadata = file.metadata().map_err(|error| Stop::Unreadable(error).problem(&name))?;
    if metadata.is_dir() {
        return Err(Problem::environment(format!("{name} is a directory: name a file in it")));
    }
    let size_bytes = metadata.is_file().then_some(metadata.len());
    let read_bytes = Arc::new(AtomicU64::new(0));
    let mut source =
        Source { file, waits: size_bytes.is_none(), read_bytes: Arc::clone(&read_bytes) };
    let magic = read_head(&mut source, |head| {
        !is_part(head, FOREIGN.iter().map(|known| known.0).chain([GZIP]))
    })
    .map_err(|stop| stop.problem(&name))?;
    if let Some((compression, command)) = foreign_compression(&magic) {
        return Err(Problem::environment(format!(
            "{name} is compressed with {compression}, and only gzip is read: \
             give the output of `{command}` on standard input"
        )));
    }
    let gzip = magic.starts_with(GZIP);
    let whole = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(magic).chain(source));
    let mut bytes: Box<dyn BufRead> = if gzip {
        Box::new(BufReader::with_capacity(BUFFER_BYTES, Gunzip::new(whole)))
    } else {
        Box::new(whole)
    };
    let mark = read_head(&mut bytes, |head| !is_part(head, MARKS.into_iter()))
        .map_err(|stop| stop.problem(&name))?;
    let encoding = options.encoding.or_else(|| Encoding::for_bom(&mark).map(|found| found.0));
    let encoding = encoding.unwrap_or(UTF_8);
    let mut bytes: Box<dyn BufRead> = Box::new(Cursor::new(mark).chain(bytes));
    if encoding != UTF_8 {
        bytes = Box::new(BufReader::with_capacity(BUFFER_BYTES, Decoded::new(bytes, encoding)));
    }
    let is_line = |head: &[u8]| {
        head.len() >= HEAD_BYTES_MAX || (head.ends_with(b"\n") && !head.trim_ascii().is_empty())
    };
    let head = read_head(&mut bytes, is_line).map_err(|stop| stop.problem(&name))?;
    let identity = (metadata.dev(), metadata.ino());
    let bytes = Box::new(Cursor::new(head.clone()).chain(bytes));
    Ok(Input { bytes, head, encoding: encoding.name(), identity, name, size_bytes, read_bytes })
}

/// Why the first bytes were not read.
enum Stop {
    Interrupted,
    Unreadable(io::Error),
}

impl Stop {
    fn problem(self, name: &str) -> Problem {
        match self {
            Self::Interrupted => {
                Problem::interrupted("interrupted before the first record: nothing was ingested")
            }
            Self::Unreadable(error) => Problem::environment(format!(
                "cannot read {name} ({error}): nothing was ingested, check the file and its permissions"
            )),
        }
    }
}

/// The first bytes, one by one, until they are enough or the input ends.
fn read_head(source: &mut impl Read, is_enough: impl Fn(&[u8]) -> bool) -> Result<Vec<u8>, Stop> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !is_enough(&head) {
        match source.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => head.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if interrupt::requested() {
                    return Err(Stop::Interrupted);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Stop::Unreadable(error)),
        }
    }
    Ok(head)
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

/// What gzip files begin with.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// What other compressed files begin with, and the command that unpacks them.
const FOREIGN: [(&[u8], &str, &str); 4] = [
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd", "zstd -dc FILE"),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz", "xz -dc FILE"),
    (b"BZh", "bzip2", "bzip2 -dc FILE"),
    (b"PK\x03\x04", "zip", "unzip -p FILE"),
];

/// Byte order marks.
const MARKS: [&[u8]; 3] = [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"];

/// Whether `head` may be the first part of one of these: no more is read than that takes.
fn is_part<'a>(head: &[u8], mut of: impl Iterator<Item = &'a [u8]>) -> bool {
    of.any(|whole| whole.len() > head.len() && whole.starts_with(head))
}

fn foreign_compression(head: &[u8]) -> Option<(&'static str, &'static str)> {
    FOREIGN
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
