//! Making durable what others committed: the server flushes our own commits as they commit.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::{
    Error,
    engine::reconnect,
    record::Pipeline,
    session::{Connector, Failed, NO_TABLE, Session, Use, code, is_lost, is_transient},
};

/// Waits for a flush of all that is committed on the server. It is needed for what a caller has
/// read, and after an exclusive.
#[derive(Clone)]
pub struct Flusher {
    connector: Connector,
    reconnect_max: Duration,
    /// `None` where nothing is recorded.
    record: Option<Pipeline>,
    session: Arc<Mutex<Option<Session>>>,
}

impl Flusher {
    pub(crate) fn new(
        connector: Connector,
        reconnect_max: Duration,
        record: Option<Pipeline>,
    ) -> Self {
        Self { connector, reconnect_max, record, session: Arc::default() }
    }

    /// Returns once all that is committed now is durable: the log is written in order, so a commit
    /// of our own waits for all before it. One whose connection was lost is tried again on another.
    pub(crate) fn barrier(&self) -> Result<(), Error> {
        // What an exclusive committed was durable as it returned, and who reads is refused before.
        let Some(record) = self.record else { return Ok(()) };
        let mut kept = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut attempts_left, mut used) = (3_u8, Use::Ask);
        loop {
            let mut session = match kept.take() {
                Some(session) => session,
                None => reconnect(&self.connector, used, self.reconnect_max)?,
            };
            match session.run_now(record.open().as_bytes(), |_, _| {}) {
                Ok(()) => {
                    *kept = Some(session);
                    return Ok(());
                }
                Err(Failed { error, .. })
                    if (is_lost(&error) || is_transient(&error)) && attempts_left > 0 =>
                {
                    attempts_left -= 1;
                }
                // The table was dropped; whoever writes makes it anew.
                Err(Failed { error, .. }) if code(&error) == Some(NO_TABLE) && used == Use::Ask => {
                    used = Use::Write;
                }
                Err(Failed { error, .. }) => return Err(Error::Server(error)),
            }
        }
    }

    pub(crate) fn close(&self) {
        drop(self.session.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
