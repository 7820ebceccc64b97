//! What happens to open databases when the process forks: in the child they are gone. Their threads
//! do not exist there, and SQLite's locks belong to the parent.
//!
//! Invariants:
//! 1. A child neither uses nor closes what its parent had open.
//! 2. A child whose parent had a database open opens none: SQLite still counts the parent's locks on
//!    its files, and a thread of the parent's may have held any lock at that moment.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

static FORKS: AtomicU32 = AtomicU32::new(0);
static OPEN: AtomicUsize = AtomicUsize::new(0);
static IS_SPOILED: AtomicBool = AtomicBool::new(false);

/// Tells this process that it is a child of a fork that has just happened.
pub fn forked() {
    FORKS.fetch_add(1, Relaxed);
    if OPEN.swap(0, Relaxed) > 0 {
        IS_SPOILED.store(true, Relaxed);
    }
}

/// Whether this process may open databases.
pub(crate) fn may_open() -> bool {
    !IS_SPOILED.load(Relaxed)
}

/// An open database; it tells whether this process opened it.
#[derive(Debug)]
pub(crate) struct Presence {
    forks: u32,
    left: AtomicBool,
}

impl Presence {
    pub(crate) fn enter() -> Self {
        OPEN.fetch_add(1, Relaxed);
        Self { forks: FORKS.load(Relaxed), left: AtomicBool::new(false) }
    }

    pub(crate) fn is_inherited(&self) -> bool {
        self.forks != FORKS.load(Relaxed)
    }

    /// Nothing of the database is left in the process: no file, no thread that serves it.
    pub(crate) fn leave(&self) {
        if !self.is_inherited() && !self.left.swap(true, Relaxed) {
            OPEN.fetch_sub(1, Relaxed);
        }
    }
}
