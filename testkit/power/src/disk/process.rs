//! The process that serves a disk, until its input ends: then whoever used it is gone, in order or
//! not, and what is left of that is swept away.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use anyhow::{Context, Result, ensure};
use fuser::{BackgroundSession, Config, MountOption};

use super::{
    Order, SWITCH, Told,
    cache::ROOT,
    serve::{Served, Shared},
};
use crate::{companion::answer_all, medium::unmount_patiently, sweep};

/// Threads that serve it: more than can wait for a slow flush at once.
const THREADS: usize = 4;

struct Disk {
    shared: Arc<Shared>,
    mounted: Option<(BackgroundSession, PathBuf)>,
}

/// Does as it is told on standard input.
pub(crate) fn serve() -> Result<()> {
    let mut disk = Disk { shared: Arc::new(Shared::new()), mounted: None };
    let done = answer_all(|line| disk.obey(&serde_json::from_str(line)?));
    if let Some((_served_till_the_end, folder)) = disk.mounted.take() {
        // So that nobody waits for it.
        disk.shared.cache().cut();
        sweep::after(&folder);
    }
    done
}

impl Disk {
    fn obey(&mut self, order: &Order<'_>) -> Result<String> {
        let mut cache = self.shared.cache();
        match order {
            Order::Create { name, bytes } => {
                let inode = cache.create(ROOT, name);
                ensure!(cache.set_length(inode, *bytes).is_ok(), "cannot enlarge {name}");
            }
            Order::Inject(fault) => cache.inject(fault.clone()),
            Order::CutAt(operation, number) => cache.cut_at(*operation, *number),
            Order::CutAfterFault(number) => cache.cut_after_fault(*number),
            Order::Cut => cache.cut(),
            Order::RestorePower(survivors, seed) => {
                cache.restore_power(*survivors, &mut fastrand::Rng::with_seed(*seed));
                // The switch may never have been used.
                let _missing = cache.remove(ROOT, SWITCH);
            }
            Order::FlushTime(time) => {
                let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
                self.shared.flush_us.store(us, Relaxed);
            }
            Order::Tell => {
                let told = Told { has_power: cache.has_power(), faults: cache.faults() };
                return Ok(serde_json::to_string(&told)?);
            }
            Order::Mount(folder) => {
                drop(cache);
                self.mount(folder)?;
            }
            Order::Unmount => {
                drop(cache);
                self.unmount()?;
            }
        }
        Ok(String::new())
    }

    fn mount(&mut self, folder: &Path) -> Result<()> {
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName("groupcommit-disk".to_owned()), MountOption::NoAtime];
        config.n_threads = Some(THREADS);
        let session = fuser::spawn_mount(Served(self.shared.clone()), folder, &config)
            .with_context(|| format!("cannot mount a FUSE file system at {}", folder.display()))?;
        self.mounted = Some((session, folder.to_owned()));
        Ok(())
    }

    fn unmount(&mut self) -> Result<()> {
        let Some((_, folder)) = &self.mounted else { return Ok(()) };
        unmount_patiently(folder)?;
        if let Some((session, _)) = self.mounted.take() {
            // Nothing is served any more. That a thread learned it by an error says nothing.
            let _ended = session.join();
        }
        Ok(())
    }
}
