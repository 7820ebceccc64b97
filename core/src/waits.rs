//! Which threads hold up which pipelines, and waits that would never end.
//!
//! A thread that executes a group and blocks for another pipeline holds its own up meanwhile. Two
//! pipelines that do so to each other would wait for ever. Each wait of such a thread is an edge of
//! a graph here, and one that closes a circle is refused. Other threads pay for one look at a thread
//! local.
//!
//! Invariant: the waits that are not over form no circle. A wait for a ticket is over once its group
//! is executed: only a flush is left then, which waits for nobody's code.

use std::{
    cell::{Cell, RefCell},
    sync::{Arc, Mutex, PoisonError},
};

use crate::{cell::Settle, sync::thread_local};

thread_local! {
    /// The pipelines, by address, that go on only once this thread does: more than one where a
    /// transaction of one leads in another.
    static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };

    /// The pipeline, by address, that this thread is calling back from.
    static CALLING_BACK: Cell<usize> = const { Cell::new(0) };
}

/// Nothing blocks and no user code runs under its lock.
static WAITS: Mutex<Vec<Wait>> = Mutex::new(Vec::new());

/// `holder` goes on only once `pipeline` has resolved `ticket`, or has room where there is none.
struct Wait {
    holder: usize,
    pipeline: usize,
    ticket: Option<Arc<dyn Settle>>,
}

impl Wait {
    fn is_over(&self) -> bool {
        self.ticket.as_ref().is_some_and(|ticket| ticket.is_sealed())
    }
}

/// Calls `hold`, during which the pipeline at `address` may have to wait for this thread.
pub(crate) fn holding<R>(address: usize, hold: impl FnOnce() -> R) -> R {
    struct Held;
    impl Drop for Held {
        fn drop(&mut self) {
            HELD.with(|held| held.borrow_mut().pop());
        }
    }
    HELD.with(|held| held.borrow_mut().push(address));
    let _held = Held;
    hold()
}

/// Calls `callback` of the pipeline at `address`.
pub(crate) fn calling_back<R>(address: usize, callback: impl FnOnce() -> R) -> R {
    CALLING_BACK.with(|pipeline| pipeline.set(address));
    let result = callback();
    CALLING_BACK.with(|pipeline| pipeline.set(0));
    result
}

/// The pipeline, by address, that this thread is calling back from.
pub(crate) fn called_back_from() -> Option<usize> {
    Some(CALLING_BACK.with(Cell::get)).filter(|&address| address != 0)
}

/// Whether a wait for the pipeline at `address` would be one for this thread itself.
pub(crate) fn is_endless(address: usize) -> bool {
    held().is_some_and(|held| reaches(&lock(), address, &held))
}

/// What this thread holds up; `None` for nearly every thread.
fn held() -> Option<Vec<usize>> {
    HELD.with(|held| {
        let held = held.borrow();
        (!held.is_empty()).then(|| held.clone())
    })
}

/// This thread waits for the pipeline at `address` until what is returned is dropped; `None` when
/// that would be for ever. `ticket` is asked for only where others could be held up.
pub(crate) fn begin(
    address: usize,
    ticket: impl FnOnce() -> Option<Arc<dyn Settle>>,
) -> Option<Waiting> {
    let Some(held) = held() else { return Some(Waiting { held: Vec::new() }) };
    let ticket = ticket();
    let mut waits = lock();
    if !ticket.as_ref().is_some_and(|ticket| ticket.is_sealed()) && reaches(&waits, address, &held)
    {
        return None;
    }
    let wait = |&holder| Wait { holder, pipeline: address, ticket: ticket.clone() };
    waits.extend(held.iter().map(wait));
    Some(Waiting { held })
}

/// A wait under way. A thread has one at a time.
pub(crate) struct Waiting {
    held: Vec<usize>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.held.is_empty() {
            let mut waits = lock();
            for holder in &self.held {
                let wait = waits.iter().rposition(|wait| wait.holder == *holder);
                wait.map(|index| waits.swap_remove(index));
            }
        }
    }
}

fn lock() -> std::sync::MutexGuard<'static, Vec<Wait>> {
    WAITS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the pipeline `from` waits, directly or through others, for one of `held`.
fn reaches(waits: &[Wait], from: usize, held: &[usize]) -> bool {
    let goes_on = |wait: &&Wait| wait.holder == from && !wait.is_over();
    held.contains(&from)
        || waits.iter().filter(goes_on).any(|wait| reaches(waits, wait.pipeline, held))
}
