//! A disk that forgets: a file system in user space (FUSE) whose files live in memory behind a
//! write-back cache, which can lose power and can be made to fail.
//!
//! ```text
//!  database ──► ext4 ──► loop device ──► disk.img ┐
//!                                                 ├─► FUSE ──► Cache
//!  database ──────────────────────────────────────┘
//! ```
//!
//! Used in two ways: as a block device, by a loop device over one of its files, which puts a real
//! file system between the database and the cache that loses power; and directly, where faults are
//! meant for one of the database's files.

mod cache;
mod fault;
mod serve;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use fuser::{BackgroundSession, Config, MountOption};

use crate::medium::unmount_patiently;

pub(crate) use cache::{Cache, Survivors};
pub(crate) use fault::{Fault, Kind, Operation};

/// The file that, when written to, cuts the power: how another process does it.
pub(crate) const SWITCH: &str = "power-switch";

/// Files whose name ends so are read and written past the kernel's page cache, as a loop device
/// needs it.
pub(crate) const IMAGE: &str = ".img";

/// A disk, mounted or not.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    shared: Arc<Shared>,
    session: Option<(BackgroundSession, PathBuf)>,
}

#[derive(Debug)]
struct Shared {
    cache: Mutex<Cache>,
    /// How long a flush takes.
    flush_us: AtomicU64,
}

impl Default for Shared {
    fn default() -> Self {
        Self { cache: Mutex::new(Cache::new()), flush_us: AtomicU64::new(0) }
    }
}

impl Shared {
    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    /// What it holds. The guard must not be kept over anything that uses the mounted disk.
    pub(crate) fn cache(&self) -> MutexGuard<'_, Cache> {
        self.shared.cache()
    }

    /// Gives the power back after a cut; see [`Cache::restore_power`]. Not while it is mounted.
    pub(crate) fn restore_power(&self, survivors: Survivors, random: &mut fastrand::Rng) {
        let mut cache = self.cache();
        cache.restore_power(survivors, random);
        // The switch may never have been used.
        let _missing = cache.remove(SWITCH);
    }

    /// How long every flush takes from now on.
    pub(crate) fn set_flush_time(&self, time: Duration) {
        self.shared.flush_us.store(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Mounts it. The kernel's cache of what was there before is gone then.
    pub(crate) fn mount(&mut self, folder: &Path) -> Result<()> {
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName("groupcommit-disk".to_owned()), MountOption::NoAtime];
        config.n_threads = Some(4);
        let served = serve::Served(self.shared.clone());
        let session = fuser::spawn_mount(served, folder, &config)
            .with_context(|| format!("cannot mount a FUSE file system at {}", folder.display()))?;
        self.session = Some((session, folder.to_owned()));
        Ok(())
    }

    /// Unmounts it; nothing may be in use on it.
    pub(crate) fn unmount(&mut self) -> Result<()> {
        match self.session.take() {
            Some((session, folder)) => {
                unmount_patiently(&folder)?;
                session.join().context("cannot end the FUSE disk")
            }
            None => Ok(()),
        }
    }
}
