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
//!
//! A process of its own serves it. Whoever serves a disk must not use it: a page fault on it would
//! wait for a thread of the process that holds the lock which the fault needs.

mod cache;
mod fault;
mod process;
mod serve;

use std::{path::Path, time::Duration};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::companion::Companion;
pub(crate) use cache::Survivors;
pub(crate) use fault::{Fault, Kind, Operation};
pub(crate) use process::serve;

/// The file that, when created, cuts the power: how another process does it.
pub(crate) const SWITCH: &str = "power-switch";

/// Files whose name ends so are read and written past the kernel's page cache, as a loop device
/// needs it.
pub(crate) const IMAGE: &str = ".img";

/// What the process that serves a disk is told.
#[derive(Debug, Serialize, Deserialize)]
enum Order<'a> {
    Create { name: &'a str, bytes: usize },
    Mount(&'a Path),
    Unmount,
    Inject(Option<Fault>),
    CutAt(Operation, u64),
    CutAfterFault(u64),
    Cut,
    RestorePower(Survivors, u64),
    FlushTime(Duration),
    Tell,
}

/// What it answers to [`Order::Tell`].
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) has_power: bool,
    /// Faults that were injected by what was set last.
    pub(crate) faults: u64,
}

/// A disk, mounted or not.
#[derive(Debug)]
pub(crate) struct Disk(Companion);

impl Disk {
    /// An empty one, with a process that serves it.
    pub(crate) fn start() -> Result<Self> {
        Ok(Self(Companion::start(&["disk"])?))
    }

    fn order(&mut self, order: &Order<'_>) -> Result<String> {
        self.0.ask(&serde_json::to_string(order)?)
    }

    /// Creates a file of so many zeros.
    pub(crate) fn create(&mut self, name: &str, bytes: usize) -> Result<()> {
        self.order(&Order::Create { name, bytes }).map(drop)
    }

    /// Mounts it. The kernel's cache of what was there before is gone then.
    pub(crate) fn mount(&mut self, folder: &Path) -> Result<()> {
        self.order(&Order::Mount(folder)).map(drop)
    }

    /// Unmounts it, if it is mounted; nothing may be in use on it.
    pub(crate) fn unmount(&mut self) -> Result<()> {
        self.order(&Order::Unmount).map(drop)
    }

    /// Makes operations fail from now on, in place of what was set before.
    pub(crate) fn inject(&mut self, fault: Option<Fault>) -> Result<()> {
        self.order(&Order::Inject(fault)).map(drop)
    }

    /// Cuts the power at the `number`th operation of this sort from now.
    pub(crate) fn cut_at(&mut self, operation: Operation, number: u64) -> Result<()> {
        self.order(&Order::CutAt(operation, number)).map(drop)
    }

    /// Cuts the power at the `number`th flush after an injected fault.
    pub(crate) fn cut_after_fault(&mut self, number: u64) -> Result<()> {
        self.order(&Order::CutAfterFault(number)).map(drop)
    }

    pub(crate) fn cut(&mut self) -> Result<()> {
        self.order(&Order::Cut).map(drop)
    }

    /// Gives the power back after a cut: what was not flushed is gone, but for `survivors`, chosen
    /// from `seed`. Not while it is mounted.
    pub(crate) fn restore_power(&mut self, survivors: Survivors, seed: u64) -> Result<()> {
        self.order(&Order::RestorePower(survivors, seed)).map(drop)
    }

    /// How long every flush takes from now on.
    pub(crate) fn set_flush_time(&mut self, time: Duration) -> Result<()> {
        self.order(&Order::FlushTime(time)).map(drop)
    }

    pub(crate) fn tell(&mut self) -> Result<Told> {
        Ok(serde_json::from_str(&self.order(&Order::Tell)?)?)
    }
}

impl Drop for Disk {
    /// Its process unmounts it before it ends, and never by being killed.
    fn drop(&mut self) {
        self.0.end();
    }
}
