//! Taking away what runs left behind that were killed: mounts, loop devices, images in memory.
//!
//! Everything lies in folders whose name says the process that made them, by its number and the time
//! at which it began, since numbers are given again. What belongs to a process that lives is left
//! alone.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use nix::mount::{MntFlags, umount2};

/// What begins the names of the folders, before the process.
const PREFIX: &str = "groupcommit-power-";

/// A folder of this process in `parent`.
pub(crate) fn folder_in(parent: &Path) -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix(&format!("{PREFIX}{}-", Process::this()?))
        .tempdir_in(parent)
        .with_context(|| format!("cannot create a folder in {}", parent.display()))
}

/// The part of `path` that is such a folder of a process that has ended.
fn orphaned(path: &Path) -> Option<PathBuf> {
    let folder = path.ancestors().find(|folder| process_of(folder).is_some())?;
    let has_ended = process_of(folder).is_some_and(|process| !process.lives());
    has_ended.then(|| folder.to_owned())
}

fn process_of(folder: &Path) -> Option<Process> {
    let mut parts = folder.file_name()?.to_str()?.strip_prefix(PREFIX)?.split('-');
    Some(Process { number: parts.next()?.parse().ok()?, began: parts.next()?.parse().ok()? })
}

/// A process, told from others that have had the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    number: u32,
    /// When it began, in the system's ticks.
    began: u64,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.number, self.began)
    }
}

impl Process {
    fn this() -> Result<Self> {
        Self::living(std::process::id()).context("/proc does not know this process")
    }

    /// The one that has this number now; not a zombie, which has ended.
    fn living(number: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        // After the name, which may hold anything: the state, and as the 20th the time of the start.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let lives = !matches!(fields.next()?, "Z" | "X");
        let began = fields.nth(18)?.parse().ok()?;
        lives.then_some(Self { number, began })
    }

    fn lives(self) -> bool {
        Self::living(self.number) == Some(self)
    }
}

/// What was taken away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Swept {
    mounts: usize,
    loop_devices: usize,
    folders: usize,
}

/// Takes away what ended runs left in `parent`, and their mounts and loop devices wherever they are;
/// says so if there was anything.
pub(crate) fn sweep(parent: &Path) {
    let mut swept = orphans();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if orphaned(&entry.path()).is_some() && fs::remove_dir_all(entry.path()).is_ok() {
            swept.folders += 1;
        }
    }
    let Swept { mounts, loop_devices, folders } = swept;
    if swept != Swept::default() {
        println!(
            "swept away what runs left that were killed: {mounts} mounts, {loop_devices} loop \
             devices, {folders} folders"
        );
    }
}

/// Unmounts and detaches what lies in folders of processes that have ended.
fn orphans() -> Swept {
    let mut swept = Swept::default();
    let mounted = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounted: Vec<Mount> = mounted.lines().filter_map(Mount::of).collect();
    for mount in mounted.iter().filter(|mount| mount.is_fuse) {
        // Nobody answers any more, or too late: everybody who waits gets an error.
        let _not_mounted =
            fs::write(format!("/sys/fs/fuse/connections/{}/abort", mount.minor), "1");
    }
    // What lies on a FUSE disk before the disk itself.
    for mount in mounted.iter().rev().filter(|mount| !mount.is_fuse) {
        swept.mounts += usize::from(detach(&mount.path));
    }
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file"));
        if backing.is_ok_and(|path| orphaned(Path::new(path.trim())).is_some()) {
            let device = Path::new("/dev").join(entry.file_name());
            let mut detach = Command::new("losetup");
            detach.arg("--detach").arg(device).stderr(Stdio::null());
            swept.loop_devices += usize::from(detach.status().is_ok_and(|done| done.success()));
        }
    }
    for mount in mounted.iter().rev().filter(|mount| mount.is_fuse) {
        swept.mounts += usize::from(detach(&mount.path));
    }
    swept
}

/// Takes away the disk mounted at `path`, and what lies in the same folder if its owner has ended.
pub(crate) fn after(path: &Path) {
    orphans();
    detach(path);
    if let Some(folder) = orphaned(path) {
        let _best_effort = fs::remove_dir_all(folder);
    }
}

/// Unmounts `path` at once, whoever uses it; says whether that could be done.
fn detach(path: &Path) -> bool {
    umount2(path, MntFlags::MNT_DETACH).is_ok()
}

/// An orphaned mount.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    path: PathBuf,
    /// Of the device, by which a FUSE connection goes.
    minor: u32,
    is_fuse: bool,
}

impl Mount {
    /// From a line of `/proc/self/mountinfo`, if it is one.
    fn of(line: &str) -> Option<Self> {
        let (about, kind) = line.split_once(" - ")?;
        let mut fields = about.split(' ');
        let minor = fields.nth(2)?.split_once(':')?.1.parse().ok()?;
        let path = PathBuf::from(fields.nth(1)?);
        orphaned(&path)?;
        Some(Self { path, minor, is_fuse: kind.starts_with("fuse") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_processes_that_have_ended_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        // Another one with the same number.
        let this = Process::this().unwrap();
        let before = Process { began: this.began - 1, ..this };
        let dead = parent.path().join(format!("{PREFIX}{before}-x"));
        let other = parent.path().join("groupcommit-power");
        let own = folder_in(parent.path()).unwrap();
        for folder in [&dead, &other] {
            fs::create_dir(folder).unwrap();
        }
        assert_eq!(process_of(own.path()), Some(this));
        assert_eq!(orphaned(&dead.join("mnt")), Some(dead.clone()));
        assert_eq!(orphaned(&other), None);
        sweep(parent.path());
        assert!(!dead.exists() && other.exists() && own.path().exists());
    }

    #[test]
    fn an_orphaned_mount_is_told_from_others() {
        let line = |path: &str| {
            format!("36 35 0:43 / {path} rw,nosuid shared:1 - fuse groupcommit-disk rw")
        };
        // No process has this number: the largest is 2^22.
        let path = "/dev/shm/groupcommit-power-99999999-7-x/fuse";
        let expected = Mount { path: path.into(), minor: 43, is_fuse: true };
        assert_eq!(Mount::of(&line(path)), Some(expected));
        assert_eq!(Mount::of(&line("/dev/shm")), None);
    }
}
