//! Which file a path leads to, so that nobody flushes one that was deleted or replaced.

use std::{fs::File, io, path::Path};

/// A file's device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// The identity of the file that `path` leads to.
    ///
    /// # Errors
    ///
    /// When it leads to none, or cannot be looked at.
    #[cfg(target_os = "linux")]
    pub fn of(path: &Path) -> io::Result<Self> {
        use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
        // For nothing but the inode. To ask for times as well makes the next write change the
        // inode, and the flush after it markedly dearer: since Linux 6.13 a file whose times were
        // looked at gets fine-grained ones.
        Ok(Self::found(&statx(CWD, path, AtFlags::empty(), StatxFlags::INO)?))
    }

    /// The identity of an open file.
    ///
    /// # Errors
    ///
    /// When it cannot be looked at.
    #[cfg(target_os = "linux")]
    pub fn of_file(file: &File) -> io::Result<Self> {
        use rustix::fs::{AtFlags, StatxFlags, statx};
        Ok(Self::found(&statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::INO)?))
    }

    #[cfg(target_os = "linux")]
    fn found(found: &rustix::fs::Statx) -> Self {
        let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
        Self { device, inode: found.stx_ino }
    }

    /// The identity of the file that `path` leads to.
    ///
    /// # Errors
    ///
    /// When it leads to none, or cannot be looked at.
    #[cfg(not(target_os = "linux"))]
    pub fn of(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|found| Self::found(&found))
    }

    /// The identity of an open file.
    ///
    /// # Errors
    ///
    /// When it cannot be looked at.
    #[cfg(not(target_os = "linux"))]
    pub fn of_file(file: &File) -> io::Result<Self> {
        file.metadata().map(|found| Self::found(&found))
    }

    #[cfg(not(target_os = "linux"))]
    fn found(found: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self { device: found.dev(), inode: found.ino() }
    }

    /// Whether `path` leads to this file and not to another, or to none.
    ///
    /// # Errors
    ///
    /// When that cannot be looked at.
    pub fn is_at(self, path: &Path) -> io::Result<bool> {
        match Self::of(path) {
            Ok(found) => Ok(found == self),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_was_replaced_or_deleted_is_another() {
        let folder = std::env::temp_dir().join(format!("identity-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, other) = (folder.join("a"), folder.join("b"));
        fs::write(&path, "1").unwrap();
        fs::write(&other, "1").unwrap();
        let identity = Identity::of(&path).unwrap();
        assert_eq!(Identity::of_file(&File::open(&path).unwrap()).unwrap(), identity);
        fs::write(&path, "2").unwrap();
        assert!(identity.is_at(&path).unwrap());
        fs::rename(&other, &path).unwrap();
        assert!(!identity.is_at(&path).unwrap());
        fs::remove_dir_all(&folder).unwrap();
        assert!(!identity.is_at(&path).unwrap());
        assert!(Identity::of(&path).is_err());
    }
}
