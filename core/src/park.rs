//! Waiting for a future on the caller's own thread, for callers without an async runtime.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use crate::{
    pool,
    sync::{park_timeout, thread},
};

struct Unparker(thread::Thread);

impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks until `future` is ready; for engines whose database is reached through futures. While a
/// thread of the pool is blocked so, another takes its place.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    // A look first: a result that is there already needs no waker.
    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return output;
    }
    let waker = Waker::from(Arc::new(Unparker(thread::current())));
    let mut cx = Context::from_waker(&waker);
    pool::while_blocked(|| {
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return output;
            }
            thread::park();
        }
    })
}

/// Calls `wait`, which blocks; for engines whose database is reached by other means than
/// [`block_on`]. While a thread of the pool is blocked so, another takes its place.
pub fn while_blocked<R>(wait: impl FnOnce() -> R) -> R {
    pool::while_blocked(wait)
}

/// Sleeps; for engines whose database asks for a pause before another attempt. As with [`block_on`],
/// another thread of the pool takes the place of one that sleeps so.
pub fn sleep(time: Duration) {
    pool::while_blocked(|| thread::sleep(time));
}

/// Blocks until `future` is ready, but gives up once nothing is `left` of its time.
pub(crate) fn block_on_until<F: Future>(
    future: F,
    left: impl Fn() -> Duration,
) -> Option<F::Output> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unparker(thread::current())));
    let mut cx = Context::from_waker(&waker);
    pool::while_blocked(|| {
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return Some(output);
            }
            let left = left();
            if left.is_zero() {
                return None;
            }
            park_timeout(left);
        }
    })
}
