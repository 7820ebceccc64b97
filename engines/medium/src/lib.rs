//! What a database lies on: where a flush promises nothing, and where embedded engines cannot work.

mod identity;

use std::path::Path;

pub use identity::Identity;

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
    if let (Ok(mounts), Ok(folder)) =
        (std::fs::read_to_string("/proc/self/mounts"), folder.canonicalize())
        && let Some(mount_point) = mounted_without_barriers(&mounts, &folder)
    {
        warnings.push(Warning::NoBarrier { mount_point });
    }
    Ok(warnings)
}

fn judge(magic: i64) -> Option<(&'static str, Verdict)> {
    let known = FILE_SYSTEMS.iter().find(|(known, ..)| *known == magic);
    known.map(|&(_, name, verdict)| (name, verdict))
}

/// The mount point that holds `folder`, if its options switch barriers off.
fn mounted_without_barriers(mounts: &str, folder: &Path) -> Option<String> {
    let (mount_point, options) = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (mount_point, options) = (fields.next()?, fields.nth(1)?);
            folder.starts_with(mount_point).then_some((mount_point, options))
        })
        .max_by_key(|(mount_point, _)| mount_point.len())?;
    let off = options.split(',').any(|option| matches!(option, "nobarrier" | "barrier=0"));
    off.then(|| mount_point.to_owned())
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
    fn finds_barriers_off_on_the_innermost_mount_only() {
        let mounts = "/dev/a / ext4 rw,barrier=0 0 0\n/dev/b /data ext4 rw,relatime 0 0\n";
        assert_eq!(mounted_without_barriers(mounts, Path::new("/srv")), Some("/".to_owned()));
        assert_eq!(mounted_without_barriers(mounts, Path::new("/data/x")), None);
        let mounts = "/dev/b /data ext4 rw,nobarrier 0 0\n";
        assert_eq!(
            mounted_without_barriers(mounts, Path::new("/data/x")),
            Some("/data".to_owned())
        );
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
