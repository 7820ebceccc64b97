//! Callers' code that the pipeline runs in passing: wakers, destructors, callbacks. Should it panic,
//! the thread that holds a role must not end with it.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    task::Waker,
};

/// Runs `code`; `false` when it panicked.
pub(crate) fn quietly(code: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(code)).map_err(drop_panic).is_ok()
}

/// Drops what a panic came with, whose own destructor may panic in turn.
pub(crate) fn drop_panic(panic: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        mem::forget(another); // there is no end to this otherwise
    }
}

/// Drops what a caller gave us.
pub(crate) fn drop_quietly<V>(value: V) {
    if mem::needs_drop::<V>() && !quietly(|| drop(value)) {
        tracing::error!("the destructor of a transaction's closure or result panicked");
    }
}

/// Calls every waker, even when one of them panics. Equal neighbouring wakers are called once.
/// To be called without a lock.
pub(crate) fn wake(mut wakers: Vec<Waker>) {
    wakers.dedup_by(|next, last| next.will_wake(last));
    for waker in wakers {
        if !quietly(|| waker.wake()) {
            tracing::error!("a waker panicked");
        }
    }
}
