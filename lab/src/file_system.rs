//! Which file system a folder lies on, and whether a flush there means anything.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::LabError;

/// The file system of the folder that the databases are put into. `unknown` where the system does
/// not say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystem {
    /// The folder, absolute.
    pub folder: PathBuf,
    /// Its type, such as `ext4`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is mounted, such as `/dev/nvme0n1p2`.
    pub device: String,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Options of the mount and of the file system, separated by commas.
    pub mount_options: String,
}

impl FileSystem {
    /// Looks up the file system of `folder`, which exists.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        find_mount(&mounts, &folder).unwrap_or_else(|| Self {
            folder,
            kind: "unknown".to_owned(),
            device: "unknown".to_owned(),
            mount_point: PathBuf::from("unknown"),
            mount_options: "unknown".to_owned(),
        })
    }

    /// Why figures measured here say little about durable storage; `None` on an ordinary disk.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let folder = self.folder.display();
        match self.kind.as_str() {
            "tmpfs" | "ramfs" => Some(format!(
                "{folder} is on {}, which lives in memory: a flush means nothing there, and neither do these figures \
                 for a disk. Choose a folder on a disk with --dir.",
                self.kind
            )),
            "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "virtiofs" | "fuse" | "fuseblk" => {
                Some(format!(
                    "{folder} is on {}: what a flush means there depends on the other side.",
                    self.kind
                ))
            }
            _ if self
                .mount_options
                .split(',')
                .any(|option| matches!(option, "nobarrier" | "barrier=0")) =>
            {
                Some(format!(
                    "{folder} is mounted without write barriers: a flush does not survive a power cut."
                ))
            }
            _ => None,
        }
    }
}

/// Finds the mount that holds `folder` in the text of `/proc/self/mountinfo`: the longest mount
/// point, and among equals the last, which covers the others.
fn find_mount(mounts: &str, folder: &Path) -> Option<FileSystem> {
    mounts
        .lines()
        .filter_map(parse_mount)
        .filter(|mount| folder.starts_with(&mount.mount_point))
        .max_by_key(|mount| mount.mount_point.components().count())
        .map(|mount| FileSystem { folder: folder.to_owned(), ..mount })
}

/// `36 35 98:0 /root /mount rw,noatime master:1 - ext4 /dev/vda rw,errors=continue`
fn parse_mount(line: &str) -> Option<FileSystem> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(4);
    let (mount_point, options) = (mount.next()?, mount.next()?);
    let mut file_system = file_system.split(' ');
    let (kind, device) = (file_system.next()?, file_system.next()?);
    let mut all: Vec<&str> = options.split(',').collect();
    for option in file_system.next().unwrap_or_default().split(',') {
        if !option.is_empty() && !all.contains(&option) {
            all.push(option);
        }
    }
    Some(FileSystem {
        folder: PathBuf::new(),
        kind: kind.to_owned(),
        device: unescape(device),
        mount_point: PathBuf::from(unescape(mount_point)),
        mount_options: all.join(","),
    })
}

/// Undoes the octal escapes of blanks, tabs, line ends and backslashes.
fn unescape(field: &str) -> String {
    field.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// Waits until what was written before has reached the disk, so that nobody pays for it later.
pub(crate) fn settle(folder: &Path) -> Result<(), LabError> {
    #[cfg(target_os = "linux")]
    File::open(folder)
        .and_then(|folder| rustix::fs::syncfs(folder).map_err(Into::into))
        .map_err(LabError::io("flush the file system of", folder))?;
    #[cfg(not(target_os = "linux"))]
    File::open(folder)
        .map(|_| rustix::fs::sync())
        .map_err(LabError::io("flush the file system of", folder))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,errors=remount-ro
22 21 0:20 / /tmp rw,nosuid - tmpfs tmpfs rw,size=100k
23 21 254:16 / /srv/my\\040data rw,noatime - xfs /dev/vdb rw,nobarrier
24 21 254:32 / /srv ro - ext4 /dev/vdc ro
";

    #[test]
    fn the_innermost_mount_is_found() {
        let root = find_mount(MOUNTS, Path::new("/home/a")).expect("the root");
        assert_eq!((root.kind.as_str(), root.device.as_str()), ("ext4", "/dev/vda"));
        assert_eq!(root.mount_options, "rw,relatime,errors=remount-ro");
        let data = find_mount(MOUNTS, Path::new("/srv/my data/x")).expect("the data disk");
        assert_eq!(data.device, "/dev/vdb");
        assert_eq!(data.folder, Path::new("/srv/my data/x"));
        let similar = find_mount(MOUNTS, Path::new("/tmpx")).expect("not /tmp");
        assert_eq!(similar.kind, "ext4");
    }

    #[test]
    fn memory_and_missing_barriers_are_warned_of() {
        let warning =
            |folder: &str| find_mount(MOUNTS, Path::new(folder)).expect("a mount").warning();
        assert!(warning("/tmp/x").expect("warns").contains("a flush means nothing"));
        assert!(warning("/srv/my data").expect("warns").contains("barriers"));
        assert_eq!(warning("/srv"), None);
    }

    #[test]
    fn an_unreadable_table_of_mounts_is_unknown() {
        assert_eq!(find_mount("nonsense\n", Path::new("/")), None);
    }
}
