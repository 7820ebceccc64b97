//! A transaction lent to Python, which knows no lifetimes.
#![expect(unsafe_code, reason = "an object of Python's cannot hold a reference")]

use std::{
    marker::PhantomData,
    ptr::NonNull,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, ThreadId},
};

use groupcommit_bindings::groupcommit::sqlite::Transaction;

/// Where the transaction is, while it is lent.
struct Slot(Mutex<Option<NonNull<Transaction<'static>>>>);

// SAFETY: the pointer is followed only on the thread that lent it, see `Lent::with`; other threads
// can only see whether there is one.
unsafe impl Send for Slot {}
// SAFETY: as above; the mutex orders the accesses to the pointer itself.
unsafe impl Sync for Slot {}

/// A transaction that Python code holds.
pub(crate) struct Lent {
    slot: Arc<Slot>,
    thread: ThreadId,
}

/// Until it is dropped, the transaction is lent.
pub(crate) struct UntilEnd<'a, 'g> {
    slot: Arc<Slot>,
    lent: PhantomData<&'a mut Transaction<'g>>,
}

impl Lent {
    /// REQUIRES: the second value is dropped before `tx` is used again, which its lifetime ensures
    /// unless it is forgotten; it is not.
    pub(crate) fn new<'a, 'g>(tx: &'a mut Transaction<'g>) -> (Self, UntilEnd<'a, 'g>) {
        let slot = Arc::new(Slot(Mutex::new(Some(NonNull::from(tx).cast()))));
        (
            Self { slot: slot.clone(), thread: thread::current().id() },
            UntilEnd { slot, lent: PhantomData },
        )
    }

    /// Uses the transaction; `None` when it is no longer lent, or on another thread.
    pub(crate) fn with<R>(&self, run: impl FnOnce(&Transaction<'_>) -> R) -> Option<R> {
        if thread::current().id() != self.thread {
            return None;
        }
        let lent = *self.slot.0.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: while the slot is filled, `UntilEnd` borrows the transaction, which therefore lives
        // and is used through this alone. It is emptied on this thread, which is here. The shared
        // reference ends with the call, and so may not outlive the transaction.
        lent.map(|tx| run(unsafe { tx.as_ref() }))
    }
}

impl Drop for UntilEnd<'_, '_> {
    fn drop(&mut self) {
        *self.slot.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
