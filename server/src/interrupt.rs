//! Interrupting what runs on a connection, and nothing that runs on it later.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use groupcommit::sqlite::rusqlite::{Connection, InterruptHandle};

/// Interrupts a run while it lasts. Clones are for the same run.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<Mutex<Option<InterruptHandle>>>);

impl Interrupt {
    /// Runs `run`, which can be interrupted until it returns.
    pub(crate) fn during<T>(&self, connection: &Connection, run: impl FnOnce() -> T) -> T {
        *self.handle() = Some(connection.get_interrupt_handle());
        let value = run();
        *self.handle() = None;
        value
    }

    pub(crate) fn interrupt(&self) {
        if let Some(handle) = &*self.handle() {
            handle.interrupt();
        }
    }

    fn handle(&self) -> MutexGuard<'_, Option<InterruptHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Interrupts when it is dropped: with the future of a client that is gone, for example.
pub(crate) struct InterruptOnDrop(pub(crate) Interrupt);

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        self.0.interrupt();
    }
}
