//! Ending the other threads of a test that fails.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// Sets a flag when a panic drops it.
///
/// A scope waits for its threads, also when its own closure panics. Threads that go on until they are
/// told to stop would then go on for ever; the flag tells them.
#[derive(Debug)]
pub struct SetOnPanic<'a>(pub &'a AtomicBool);

impl Drop for SetOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_scope_that_panics_ends_its_threads() {
        let ended = catch_unwind(|| {
            let stop = AtomicBool::new(false);
            thread::scope(|scope| {
                let _ends = SetOnPanic(&stop);
                scope.spawn(|| {
                    while !stop.load(Ordering::SeqCst) {
                        thread::yield_now();
                    }
                });
                panic!("a test fails");
            });
        });
        assert!(ended.is_err());
    }

    #[test]
    fn a_scope_that_ends_sets_nothing() {
        let stop = AtomicBool::new(false);
        drop(SetOnPanic(&stop));
        assert!(!stop.into_inner());
    }
}
