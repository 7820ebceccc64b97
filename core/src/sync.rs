//! The synchronisation primitives of the core, from one place, so that the same code runs on the
//! standard library and, under `--cfg shuttle`, in a scheduler that explores interleavings.

#[cfg(not(shuttle))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread, thread_local,
};

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread, thread_local,
};

#[cfg(not(shuttle))]
pub(crate) use std::thread::park_timeout;

/// Where time is not the machine's, parking ends early, as it always may; whoever parks looks at its
/// own clock again.
#[cfg(shuttle)]
pub(crate) fn park_timeout(_: std::time::Duration) {
    thread::yield_now();
}

use std::sync::PoisonError;

/// Locks, and carries on after a panic elsewhere: no user code runs under a lock of the core, and
/// every critical section leaves its state whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
