//! Threads for what blocks: opening, closing, `exclusive`, durable reads.

use std::{convert::Infallible, sync::LazyLock};

use groupcommit_bindings::groupcommit::bridge::{Bridge, Connect, Failure, Limits};

/// How many calls of the whole process block at one time; others wait without a thread.
const THREADS_MAX: usize = 64;

struct Thread;

impl Connect for Thread {
    type Connection = ();
    type Error = Infallible;

    fn connect(&self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Runs `call` on a thread of its own.
///
/// # Errors
///
/// That it panicked, or that there is no thread.
pub(crate) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure<Infallible>> {
    static THREADS: LazyLock<Bridge<Thread>> = LazyLock::new(|| {
        Bridge::new(Thread, Limits { connections: THREADS_MAX, ..Limits::default() })
    });
    THREADS.call(move |()| call()).await
}
