//! Which file system a folder lies on, and whether a flush there means anything.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use groupcommit_medium::{Mount, is_without_barriers};
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
        let unknown = || Mount {
            device: "unknown".to_owned(),
            point: "unknown".to_owned(),
            kind: "unknown".to_owned(),
            options: "unknown".to_owned(),
        };
        Self::on(folder.clone(), Mount::of(&folder).unwrap_or_else(unknown))
    }

    fn on(folder: PathBuf, mount: Mount) -> Self {
        let Mount { device, point, kind, options } = mount;
        Self { folder, kind, device, mount_point: point.into(), mount_options: options }
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
            _ if is_without_barriers(&self.mount_options) => Some(format!(
                "{folder} is mounted without write barriers: a flush does not survive a power cut."
            )),
            _ => None,
        }
    }
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

    #[test]
    fn memory_and_missing_barriers_are_warned_of() {
        let warning = |kind: &str, options: &str| {
            let (kind, options) = (kind.to_owned(), options.to_owned());
            let mount =
                Mount { device: "/dev/vda".to_owned(), point: "/".to_owned(), kind, options };
            FileSystem::on("/srv".into(), mount).warning()
        };
        assert!(warning("tmpfs", "rw").expect("warns").contains("a flush means nothing"));
        assert!(warning("xfs", "rw,nobarrier").expect("warns").contains("barriers"));
        assert_eq!(warning("ext4", "rw"), None);
    }
}
