//! What a database lies on: where a flush promises nothing, and where embedded engines cannot work.

mod identity;
mod mount;

use std::{
    io,
    path::{Path, PathBuf},
};

pub use identity::Identity;
pub use mount::{Mount, is_without_barriers};

/// A file system's magic number, name, and what it means here.
const FILE_SYSTEMS: [(i64, &str, Verdict); 9] = [
    (0x0102_1994, "tmpfs", Verdict::Volatile),
    (0x8584_58f6, "ramfs", Verdict::Volatile),
    (0x6969, "NFS", Verdict::Unusable),
    (0x517b, "SMB", Verdict::Unusable),
    (0xff53_4d42, "CIFS", Verdict::Unusable),
    (0xfe53_4d42, "SMB2", Verdict::Unusable),
    (0x0102_1997, "9p", Verdict::Unusable),
    (0x5346_414f, "AFS", Verdict::Unusable),
    (0x00c3_6400, "Ceph", Verdict::Unusable),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Nothing survives a power cut; a flush returns at once.
    Volatile,
    /// Shared memory or locks between machines do not work as an engine needs them.
    Unusable,
}

/// A reason to doubt what a flush promises here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The database lies in memory; nothing survives a power cut.
    Volatile {
        /// The kind of file system.
        file_system: &'static str,
    },
    /// The file system is mounted so that flushes are not passed on to the device.
    NoBarrier {
        /// Where it is mounted.
        mount_point: String,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Volatile { file_system } => {
                write!(f, "the database lies on {file_system}: a flush promises nothing there")
            }
            Self::NoBarrier { mount_point } => write!(
                f,
                "{mount_point} is mounted without write barriers: a flush may not reach the device"
            ),
        }
    }
}

/// The kind of a file system on which shared memory, or locks, do not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unusable(pub &'static str);

/// The file that `path` leads to, or that opening it would create: absolute, and free of symbolic
/// links.
///
/// # Errors
///
/// When the folder that should hold it does not exist: [`io::ErrorKind::NotFound`].
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found,
    }
    let folder = folder_of(path);
    // A link to a file that is missing: SQLite and its like create what it leads to.
    if let Ok(target) = path.read_link() {
        return real_path(&folder.join(target));
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(folder.canonicalize()?.join(name))
}

/// The folder that holds what `path` names.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes the directory entry of `path` durable.
///
/// # Errors
///
/// When the folder that holds it cannot be opened or flushed.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    std::fs::File::open(folder_of(path))?.sync_all()
}

/// Whether the file has more names than the one it is opened by (hard links). What an engine keeps
/// beside a file, under a name made from its name, would then not be found by who opens it by another.
///
/// # Errors
///
/// When it cannot be looked at.
pub fn has_other_names(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata(path)?.nlink() > 1)
}

/// Looks at the file system that holds `folder`.
///
/// # Errors
///
/// [`Unusable`] where an engine that shares memory between processes cannot work.
pub fn examine(folder: &Path) -> Result<Vec<Warning>, Unusable> {
    let Ok(statfs) = rustix::fs::statfs(folder) else {
        return Ok(Vec::new());
    };
    #[expect(clippy::useless_conversion, reason = "the field's width differs between platforms")]
    let magic = i64::from(statfs.f_type) & 0xffff_ffff;
    let mut warnings = Vec::new();
    match judge(magic) {
        Some((file_system, Verdict::Unusable)) => {
            return Err(Unusable(file_system));
        }
        Some((file_system, Verdict::Volatile)) => warnings.push(Warning::Volatile { file_system }),
        None => {}
    }
    if let Some(mount) = Mount::of(folder)
        && is_without_barriers(&mount.options)
    {
        warnings.push(Warning::NoBarrier { mount_point: mount.point });
    }
    Ok(warnings)
}

fn judge(magic: i64) -> Option<(&'static str, Verdict)> {
    let known = FILE_SYSTEMS.iter().find(|(known, ..)| *known == magic);
    known.map(|&(_, name, verdict)| (name, verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_where_nothing_survives_and_where_the_log_cannot_work() {
        assert_eq!(judge(0x0102_1994), Some(("tmpfs", Verdict::Volatile)));
        assert_eq!(judge(0x6969), Some(("NFS", Verdict::Unusable)));
        assert_eq!(judge(0xef53), None, "ext4 is fine");
    }

    #[test]
    fn a_link_is_followed_to_the_file_that_is_there_or_would_be_created() {
        let folder = std::env::temp_dir().join(format!("real-path-{}", std::process::id()));
        let (near, far) = (folder.join("near"), folder.join("far"));
        std::fs::create_dir_all(&near).unwrap();
        std::fs::create_dir_all(&far).unwrap();
        let (link, target) = (near.join("link"), far.join("file"));
        std::os::unix::fs::symlink("../far/file", &link).unwrap();
        let real = far.canonicalize().unwrap().join("file");
        assert_eq!(real_path(&link).unwrap(), real);
        std::fs::write(&target, "").unwrap();
        assert_eq!(real_path(&link).unwrap(), real);
        assert_eq!(real_path(&target).unwrap(), real);
        assert!(!has_other_names(&link).unwrap());
        std::fs::hard_link(&target, near.join("other")).unwrap();
        assert!(has_other_names(&link).unwrap());
        let missing = real_path(&near.join("missing").join("file")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_database_in_memory_is_warned_of() {
        let shm = Path::new("/dev/shm");
        if rustix::fs::statfs(shm).is_ok_and(|statfs| statfs.f_type == 0x0102_1994) {
            let warnings = examine(shm).unwrap();
            assert_eq!(warnings, [Warning::Volatile { file_system: "tmpfs" }]);
        }
    }
}
