//! Shutting down a file system without flushing its journal: what was flushed is on its device,
//! everything else is gone, and every later operation fails.
#![expect(unsafe_code, reason = "an ioctl that no safe interface offers; the block says why")]

use std::{fs::File, io, os::fd::AsRawFd, path::Path};

/// `EXT4_GOING_FLAGS_NOLOGFLUSH`, from `linux/fs/ext4/ext4.h`.
const WITHOUT_LOG_FLUSH: u32 = 2;

// `EXT4_IOC_SHUTDOWN`, which is `_IOR('X', 125, __u32)` although it only reads.
nix::ioctl_read!(ext4_shutdown, b'X', 125, u32);

/// Shuts down the file system that holds `path`. To do it again does nothing.
pub(crate) fn shut_down(path: &Path) -> io::Result<()> {
    let folder = File::open(path)?;
    let mut flags = WITHOUT_LOG_FLUSH;
    // SAFETY: the descriptor is open, and the kernel reads one `u32` through a pointer to one that
    // lives beyond the call.
    unsafe { ext4_shutdown(folder.as_raw_fd(), &raw mut flags) }?;
    Ok(())
}
