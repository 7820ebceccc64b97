//! High load: threads that keep the machine's processors busy with nothing.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// As many threads as there are cores, each of which never rests.
pub(super) struct Burning {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Burning {
    pub(super) fn begin() -> Self {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let is_over = Arc::new(AtomicBool::new(false));
        let burn = |_| {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    spin_loop();
                }
            })
        };
        Self { threads: (0..cores).map(burn).collect(), is_over }
    }
}

impl Drop for Burning {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // Nothing in it can panic.
            drop(thread.join());
        }
    }
}
