//! The synchronisation primitives of the core, from one place, so that the same code runs on the
//! standard library and, under `--cfg shuttle`, in a scheduler that explores interleavings.

#[cfg(not(shuttle))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard, atomic, mpsc},
    thread, thread_local,
};

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, atomic, mpsc},
    thread, thread_local,
};

use std::{sync::PoisonError, time::Duration};

#[cfg(not(shuttle))]
pub(crate) use std::thread::park_timeout;

/// Where time is not the machine's, parking ends early, as it always may; whoever parks looks at its
/// own clock again.
#[cfg(shuttle)]
pub(crate) fn park_timeout(_: Duration) {
    thread::yield_now();
}

/// Locks, and carries on after a panic elsewhere: no user code runs under a lock of the core, and
/// every critical section leaves its state whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for `condvar`, for so long at most; it may return sooner, for no reason.
#[cfg(not(shuttle))]
pub(crate) fn wait_timeout<'a, T>(
    condvar: &Condvar,
    _mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    at_most: Duration,
) -> MutexGuard<'a, T> {
    condvar.wait_timeout(guard, at_most).unwrap_or_else(PoisonError::into_inner).0
}

/// As above. The scheduler knows no time, so this always returns sooner, when others have run.
#[cfg(shuttle)]
pub(crate) fn wait_timeout<'a, T>(
    _condvar: &Condvar,
    mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    _at_most: Duration,
) -> MutexGuard<'a, T> {
    drop(guard);
    thread::yield_now();
    lock(mutex)
}
