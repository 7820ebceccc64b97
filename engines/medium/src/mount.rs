//! What is mounted where.

use std::{fs, path::Path};

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// What is mounted, such as `/dev/nvme0n1p2`.
    pub device: String,
    /// Where it is mounted.
    pub point: String,
    /// Its type, such as `ext4`.
    pub kind: String,
    /// Options of the mount and of the file system, separated by commas.
    pub options: String,
}

impl Mount {
    /// The mount that holds `folder`; `None` where the system does not say.
    #[must_use]
    pub fn of(folder: &Path) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        Self::find(&mounts, &folder.canonicalize().ok()?)
    }

    /// The longest mount point that holds `folder`, and among equals the last, which covers the others.
    fn find(mounts: &str, folder: &Path) -> Option<Self> {
        mounts
            .lines()
            .filter_map(Self::parse)
            .filter(|mount| folder.starts_with(&mount.point))
            .max_by_key(|mount| mount.point.len())
    }

    /// `/dev/vda /mount ext4 rw,noatime 0 0`
    fn parse(line: &str) -> Option<Self> {
        // Blanks, tabs, line ends and backslashes are written in octal.
        let mut fields = line.split(' ').map(|field| {
            let field = field.replace("\\040", " ").replace("\\011", "\t");
            field.replace("\\012", "\n").replace("\\134", "\\")
        });
        let (device, point, kind) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Self { device, point, kind, options: fields.next()? })
    }
}

/// Whether a mount with these options does not pass flushes on to the device.
#[must_use]
pub fn is_without_barriers(options: &str) -> bool {
    options.split(',').any(|option| matches!(option, "nobarrier" | "barrier=0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
/dev/vda / ext4 rw,relatime,errors=remount-ro 0 0
tmpfs /tmp tmpfs rw,nosuid,size=100k 0 0
/dev/vdb /srv/my\\040data xfs rw,noatime,nobarrier 0 0
/dev/vdc /srv ext4 ro,barrier=1 0 0
/dev/vdd /srv ext4 ro,barrier=0 0 0
";

    #[test]
    fn the_innermost_mount_is_found_and_whether_it_has_barriers() {
        for (folder, device, without_barriers) in [
            ("/home/a", "/dev/vda", false),
            ("/tmpx", "/dev/vda", false),
            ("/tmp/x", "tmpfs", false),
            ("/srv/my data/x", "/dev/vdb", true),
            ("/srv", "/dev/vdd", true),
        ] {
            let mount = Mount::find(MOUNTS, Path::new(folder)).unwrap();
            assert_eq!(
                (&*mount.device, is_without_barriers(&mount.options)),
                (device, without_barriers)
            );
        }
        assert_eq!(Mount::find("nonsense\n", Path::new("/")), None);
    }
}
