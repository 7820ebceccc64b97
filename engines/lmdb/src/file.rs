//! Flushing the data file through a descriptor of our own.
//!
//! A commit syncs its pages itself and leaves the meta page that leads to them in the page cache.
//! One `fdatasync` of the file then makes every commit durable that returned before it.
//!
//! Invariants:
//! 1. The descriptor is opened before the environment writes through its own. The operating system
//!    reports a failed write-back once to each open file description, and LMDB syncs through its
//!    own inside the next commit: on a shared one, that commit could take the report of a lost meta
//!    page away from the flush that has to fail because of it.
//! 2. The descriptor is of the file that LMDB writes, and that file and its locks are at their paths:
//!    device and inode are compared at every flush. Another process that found other locks would write
//!    at the same time.
//! 3. What an earlier process left in the page cache is flushed before the first acknowledgement,
//!    and the meta pages are read from the disk again: after a failed write-back they could be
//!    readable without being there.

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use groupcommit_core::{Cause, Flush};
use groupcommit_medium::{Identity, folder_of};
#[cfg(target_os = "linux")]
use rustix::fs::{Advice, fadvise};

use crate::Error;

/// What is dropped from the page cache on opening: the two meta pages, and what lies in the same
/// unit of the cache with them, however large its units are.
#[cfg(target_os = "linux")]
const META_BYTES: u64 = 4 << 20;

/// The data file of one environment, open for flushing.
#[derive(Debug)]
pub(crate) struct DataFile {
    file: File,
    path: PathBuf,
    /// What has to stay where it was found: the data file, and the file of its locks.
    places: Vec<(PathBuf, Identity)>,
    /// Flushes that succeed before one is made to fail; for tests of what happens then.
    #[cfg(test)]
    pub(crate) flushes_until_failure: std::sync::atomic::AtomicI64,
}

impl DataFile {
    /// Opens the data file at `path`, creating an empty one if it is missing, and makes what is in
    /// it durable, with its directory entry.
    pub(crate) fn open(path: PathBuf) -> Result<Self, Error> {
        let failed = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { doing, path, source }
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed("open the data file", &path))?;
        file.sync_all().map_err(failed("flush the data file", &path))?;
        #[cfg(target_os = "linux")]
        fadvise(&file, 0, std::num::NonZeroU64::new(META_BYTES), Advice::DontNeed)
            .map_err(|error| failed("read the meta pages anew of", &path)(error.into()))?;
        let identity = Identity::of_file(&file).map_err(failed("look at", &path))?;
        sync_folder_of(&path)?;
        Ok(Self {
            file,
            places: vec![(path.clone(), identity)],
            path,
            #[cfg(test)]
            flushes_until_failure: i64::MAX.into(),
        })
    }

    /// Has flushes look after the file of locks as well, which is there once the environment is open.
    pub(crate) fn watch(&mut self, locks: PathBuf) -> Result<(), Error> {
        match Identity::of(&locks) {
            Ok(identity) => self.places.push((locks, identity)),
            Err(source) => return Err(Error::Io { doing: "look at", path: locks, source }),
        }
        Ok(())
    }

    /// Fails when the data file or its locks are no longer at their paths.
    pub(crate) fn check_in_place(&self) -> Result<(), Error> {
        for (path, identity) in &self.places {
            match identity.is_at(path) {
                Ok(true) => {}
                Ok(false) => return Err(Error::Replaced(path.clone())),
                Err(source) => {
                    return Err(Error::Io { doing: "look at", path: path.clone(), source });
                }
            }
        }
        Ok(())
    }

    /// Size of the file in bytes.
    pub(crate) fn bytes(&self) -> Result<u64, Error> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(|source| Error::Io {
            doing: "look at",
            path: self.path.clone(),
            source,
        })
    }

    /// Makes everything durable that was written before.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        let io_error = |source: io::Error| Error::Io {
            doing: "flush the data file",
            path: self.path.clone(),
            source,
        };
        #[cfg(test)]
        if self.flushes_until_failure.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) == 0 {
            return Err(io_error(io::Error::other("a flush that a test made fail")));
        }
        self.file.sync_data().map_err(io_error)?;
        self.check_in_place()
    }
}

/// Makes the directory entry of `path` durable.
pub(crate) fn sync_folder_of(path: &Path) -> Result<(), Error> {
    groupcommit_medium::sync_folder_of(path).map_err(|source| Error::Io {
        doing: "flush the folder",
        path: folder_of(path).to_owned(),
        source,
    })
}

/// The flusher that the pipeline calls.
#[derive(Debug, Clone)]
pub struct DataFlusher(pub(crate) Arc<DataFile>);

impl Flush for DataFlusher {
    fn flush(&self) -> Result<(), Cause> {
        self.0.flush().map_err(|error| Arc::new(error) as Cause)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// None of these can be synced, and the system says so.
    #[test]
    fn the_file_and_its_folder_are_synced() {
        let null = Path::new("/dev/null");
        let file = DataFile {
            file: File::options().write(true).open(null).unwrap(),
            path: null.to_owned(),
            places: Vec::new(),
            flushes_until_failure: i64::MAX.into(),
        };
        let failed = file.flush().unwrap_err();
        assert!(matches!(failed, Error::Io { doing: "flush the data file", .. }), "{failed}");
        let failed = DataFile::open(null.to_owned()).unwrap_err();
        assert!(matches!(failed, Error::Io { doing: "flush the data file", .. }), "{failed}");
        let failed = sync_folder_of(Path::new("/proc/self/comm")).unwrap_err();
        assert!(matches!(failed, Error::Io { doing: "flush the folder", .. }), "{failed}");
    }
}
