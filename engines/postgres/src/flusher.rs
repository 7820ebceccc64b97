//! Making durable what others committed: the server flushes our own commits as they commit.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::{
    Error,
    engine::reconnect,
    session::{Connector, Session, is_lost},
};

/// Waits for a flush of all that is committed on the server. It is needed for what a caller has
/// read, and after an exclusive.
#[derive(Clone)]
pub struct Flusher {
    connector: Connector,
    reconnect_max: Duration,
    session: Arc<Mutex<Option<Session>>>,
}

impl Flusher {
    pub(crate) fn new(connector: Connector, reconnect_max: Duration) -> Self {
        Self { connector, reconnect_max, session: Arc::default() }
    }

    /// Returns once all that is committed now is durable. A barrier whose connection was lost is
    /// tried again on another: it says something about the log, and changes nothing in the database.
    pub(crate) fn barrier(&self) -> Result<(), Error> {
        let mut kept = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let mut attempts_left = 3_u8;
        loop {
            let session = match kept.take() {
                Some(session) if session.is_there() => session,
                _ => reconnect(&self.connector, self.reconnect_max)?,
            };
            match session.block_on(session.barrier()) {
                Ok(()) => {
                    *kept = Some(session);
                    return Ok(());
                }
                Err(error) if is_lost(&error) && attempts_left > 0 => attempts_left -= 1,
                Err(error) => return Err(Error::Server(error)),
            }
        }
    }

    pub(crate) fn close(&self) {
        drop(self.session.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
