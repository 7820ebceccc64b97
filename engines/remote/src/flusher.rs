//! Making durable what others committed: the server flushes our own commits as they commit.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use groupcommit_core::{Cause, Flush};

use crate::{Error, Protocol, Purpose, insist::reconnect};

/// Barriers that may fail before an error is final.
const ATTEMPTS_MAX: u32 = 3;

/// Waits until everything that is committed on the server is durable. A durable read and an
/// exclusive need it.
pub struct Flusher<P: Protocol> {
    protocol: P,
    reconnect_timeout: Duration,
    /// The server can be asked for a barrier.
    has_barrier: bool,
    session: Arc<Mutex<Option<P::Session>>>,
}

impl<P: Protocol> Clone for Flusher<P> {
    fn clone(&self) -> Self {
        Self { protocol: self.protocol.clone(), session: self.session.clone(), ..*self }
    }
}

impl<P: Protocol> fmt::Debug for Flusher<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flusher").finish_non_exhaustive()
    }
}

impl<P: Protocol> Flusher<P> {
    pub(crate) fn new(protocol: P, reconnect_timeout: Duration, has_barrier: bool) -> Self {
        Self { protocol, reconnect_timeout, has_barrier, session: Arc::default() }
    }

    /// Returns once everything that is committed now is durable. The log is written in order, so the
    /// commit of a barrier waits for everything before it. A barrier changes nothing that a caller
    /// sees, so one whose connection was lost is sent again.
    fn barrier(&self) -> Result<(), Error<P>> {
        // What an exclusive committed was durable as it returned, and durable reads are refused.
        if !self.has_barrier {
            return Ok(());
        }
        let mut kept = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut attempts, mut purpose) = (0, Purpose::Ask);
        loop {
            let mut session = match kept.take() {
                Some(session) if P::is_usable(&session) => session,
                _ => reconnect(&self.protocol, purpose, self.reconnect_timeout)?,
            };
            match self.protocol.barrier(&mut session) {
                Ok(()) => {
                    *kept = Some(session);
                    return Ok(());
                }
                Err((_, Some(next))) if attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    purpose = next;
                }
                Err((error, _)) => return Err(Error::Server(error)),
            }
        }
    }

    pub(crate) fn close(&self) {
        drop(self.session.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl<P: Protocol> Flush for Flusher<P> {
    fn flush(&self) -> Result<(), Cause> {
        self.barrier().map_err(|error| Arc::new(error) as Cause)
    }
}
