//! What the database lies on, in a form whose power can be cut for real.
//!
//! | medium | how its power is cut | what is gone then |
//! |---|---|---|
//! | shutdown | ext4 on a loop device is told to shut down without flushing its journal | what was in the page cache or in an uncommitted journal |
//! | device | ext4 on a loop device over a disk with a write-back cache, which loses power | that, and what the device had not flushed, but for a random part of it |
//!
//! Both need root, and the programs in [`missing`].

use std::{
    fmt::Write as _,
    fs::{self, File},
    ops::Range,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::{
    disk::{Disk, IMAGE, SWITCH, Survivors},
    shutdown, sweep,
};

/// Size of the file system, in bytes.
const IMAGE_BYTES: u64 = 320 << 20;

/// Size of its blocks, in bytes.
const BLOCK_BYTES: usize = 1_024;

/// Where its journal lies, in bytes from its beginning, unless it is smaller than that.
pub(crate) const JOURNAL: Range<usize> = (64 << 20)..(68 << 20);

/// How long an unmount may take until nobody uses the file system any more.
const UNMOUNT_LIMIT: Duration = Duration::from_secs(20);

/// Which medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Kind {
    /// ext4 that is shut down without flushing its journal
    Shutdown,
    /// ext4 on a device whose write-back cache loses power
    Device,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Shutdown => "shutdown",
            Self::Device => "device",
        }
    }
}

/// The largest request that the loop device makes, in KiB: so that it reaches the disk in one piece.
/// Of a larger one that comes in several, the loop driver counts all as written as soon as the first
/// is, and a write that is made to fail would be lost without an error, which no device may do.
const REQUEST_KIB_MAX: u32 = 64;

/// What keeps this machine from cutting the power of a file system; `None` when nothing does.
pub(crate) fn missing() -> Option<String> {
    let mut missing = Vec::new();
    if !nix::unistd::geteuid().is_root() {
        missing.push("root (to mount)".to_owned());
    }
    for (program, package) in [("losetup", "util-linux"), ("mkfs.ext4", "e2fsprogs")] {
        let mut asked = Command::new(program);
        asked.arg("-V").stdout(Stdio::null()).stderr(Stdio::null());
        if asked.status().is_err() {
            missing.push(format!("{program} (package {package})"));
        }
    }
    for device in ["/dev/loop-control", "/dev/fuse"] {
        if !Path::new(device).exists() {
            missing.push(device.to_owned());
        }
    }
    (!missing.is_empty()).then(|| missing.join(", "))
}

/// A file system that can lose power. Unmounted and removed when dropped.
#[derive(Debug)]
pub(crate) struct Medium {
    kind: Kind,
    folder: tempfile::TempDir,
    image_bytes: u64,
    /// What a device lies on.
    disk: Option<Disk>,
    loop_device: Option<String>,
    is_mounted: bool,
}

impl Medium {
    /// A new file system, mounted; its image lies in a folder made in `parent`.
    pub(crate) fn new(kind: Kind, parent: &Path) -> Result<Self> {
        Self::with_size(kind, parent, IMAGE_BYTES)
    }

    pub(crate) fn with_size(kind: Kind, parent: &Path, image_bytes: u64) -> Result<Self> {
        let folder = sweep::folder_in(parent)?;
        for name in ["mnt", "fuse"] {
            fs::create_dir(folder.path().join(name))?;
        }
        let mut medium =
            Self { kind, folder, image_bytes, disk: None, loop_device: None, is_mounted: false };
        medium.start_anew()?;
        Ok(medium)
    }

    /// Where the file system is mounted.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    /// A folder that no power cut touches.
    pub(crate) fn outside(&self) -> &Path {
        self.folder.path()
    }

    /// What a device lies on.
    pub(crate) fn disk(&mut self) -> Option<&mut Disk> {
        self.disk.as_mut()
    }

    fn fuse(&self) -> PathBuf {
        self.folder.path().join("fuse")
    }

    fn image(&self) -> PathBuf {
        let name = format!("disk{IMAGE}");
        match self.kind {
            Kind::Shutdown => self.folder.path().join(name),
            Kind::Device => self.fuse().join(name),
        }
    }

    /// How a program cuts the power.
    pub(crate) fn switch(&self) -> Switch {
        match self.kind {
            Kind::Shutdown => Switch::Shutdown(self.path()),
            Kind::Device => Switch::File(self.fuse().join(SWITCH)),
        }
    }

    /// A new and empty file system in place of what was there, mounted.
    pub(crate) fn start_anew(&mut self) -> Result<()> {
        self.take_down()?;
        match self.kind {
            Kind::Shutdown => {
                let image = self.image();
                let _none_yet = fs::remove_file(&image);
                File::create(&image)
                    .and_then(|file| file.set_len(self.image_bytes))
                    .with_context(|| format!("cannot create {}", image.display()))?;
            }
            Kind::Device => {
                let mut disk = Disk::start()?;
                disk.create(&format!("disk{IMAGE}"), usize::try_from(self.image_bytes)?)?;
                self.disk = Some(disk);
            }
        }
        self.attach()?;
        let device = self.loop_device.clone().unwrap_or_default();
        let options = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        let block = BLOCK_BYTES.to_string();
        let mut journal = format!("size={}", JOURNAL.len() >> 20);
        if self.image_bytes > JOURNAL.end as u64 {
            write!(journal, ",location={}", JOURNAL.start / BLOCK_BYTES)?;
        }
        run(
            "mkfs.ext4",
            &[
                "-q", "-F", "-m", "0", "-N", "256", "-b", &block, "-J", &journal, "-E", options,
                &device,
            ],
        )?;
        self.mount()
    }

    /// Cuts the power, if nobody has yet, takes everything down, and gives the power back: only
    /// what was durable is there, and ext4 has recovered its journal.
    pub(crate) fn cycle_power(&mut self, survivors: Survivors, seed: u64) -> Result<()> {
        match &mut self.disk {
            None => self.switch().cut()?,
            Some(disk) => disk.cut()?,
        }
        self.take_down()?;
        if let Some(disk) = &mut self.disk {
            disk.restore_power(survivors, seed)?;
        }
        self.attach()?;
        self.mount()
    }

    fn attach(&mut self) -> Result<()> {
        let folder = self.fuse();
        if let Some(disk) = &mut self.disk {
            disk.mount(&folder)?;
        }
        let image = self.image();
        let said = run("losetup", &["--find", "--show", &image.display().to_string()])?;
        let device = said.trim().to_owned();
        let limit =
            format!("/sys/block/{}/queue/max_sectors_kb", device.trim_start_matches("/dev/"));
        self.loop_device = Some(device);
        std::fs::write(&limit, REQUEST_KIB_MAX.to_string())
            .with_context(|| format!("cannot write {limit}"))
    }

    fn mount(&mut self) -> Result<()> {
        let device = self.loop_device.as_deref().unwrap_or_default();
        mount(Some(device), &self.path(), Some("ext4"), MsFlags::MS_NOATIME, None::<&str>)
            .with_context(|| format!("cannot mount {device}"))?;
        self.is_mounted = true;
        Ok(())
    }

    /// Unmounts and detaches everything. Nothing is written that the power cut took away.
    fn take_down(&mut self) -> Result<()> {
        if self.is_mounted {
            let path = self.path();
            unmount_patiently(&path)?;
            self.is_mounted = false;
        }
        if let Some(device) = self.loop_device.take() {
            run("losetup", &["--detach", &device])?;
        }
        self.disk.as_mut().map_or(Ok(()), Disk::unmount)
    }
}

impl Drop for Medium {
    fn drop(&mut self) {
        if self.take_down().is_err() {
            let _best_effort = umount2(&self.path(), MntFlags::MNT_DETACH);
            let _best_effort = umount2(&self.fuse(), MntFlags::MNT_DETACH);
        }
    }
}

/// How a program cuts the power of a medium.
#[derive(Debug, Clone)]
pub(crate) enum Switch {
    /// Shuts down the file system that is mounted here.
    Shutdown(PathBuf),
    /// Creates this file.
    File(PathBuf),
}

impl Switch {
    pub(crate) fn cut(&self) -> Result<()> {
        match self {
            Self::Shutdown(path) => shutdown::shut_down(path)
                .with_context(|| format!("cannot shut down {}", path.display())),
            Self::File(path) => {
                // Without power not even this file can be opened twice.
                let _cut = File::create(path);
                Ok(())
            }
        }
    }
}

/// Tries again while somebody still uses the file system, as a process does that is just dying.
pub(crate) fn unmount_patiently(path: &Path) -> Result<()> {
    let began = Instant::now();
    loop {
        match umount2(path, MntFlags::empty()) {
            Err(nix::Error::EBUSY) if began.elapsed() < UNMOUNT_LIMIT => {
                thread::sleep(Duration::from_millis(2));
            }
            done => {
                return done.with_context(|| format!("cannot unmount {}", path.display()));
            }
        }
    }
}

/// What a program writes to standard output.
fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{program} {} failed: {}", arguments.join(" "), said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
