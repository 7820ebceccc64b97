//! The rows of a read of SQLite, which a thread of the bridge sends.

use std::{convert::Infallible, future::poll_fn, pin::Pin, sync::Arc, task::Poll};

use groupcommit_bridge::Failure as BridgeFailure;
use groupcommit_sqlite::Part;
use tokio::sync::mpsc;

use super::{Error, Value};
use crate::{Failure, NotRun, Rejected};

/// Sends the read, and then only says how it ended.
pub(super) type Reading =
    Pin<Box<dyn Future<Output = Result<(), BridgeFailure<Infallible>>> + Send>>;

/// The rows that a thread of the bridge reads, a few ahead.
pub(super) struct SqliteRows {
    pub(super) columns: Vec<String>,
    pub(super) parts: mpsc::Receiver<Result<Part, Failure<Error>>>,
    /// Until it has ended.
    pub(super) reading: Option<Reading>,
}

impl SqliteRows {
    pub(super) async fn part(&mut self) -> Result<Option<Part>, Failure<Error>> {
        let Self { parts, reading, .. } = self;
        // Polled first, since that is what has the thread begin.
        let part = poll_fn(|cx| {
            if let Some(running) = reading
                && let Poll::Ready(ended) = running.as_mut().poll(cx)
            {
                *reading = None;
                if let Err(failure) = ended {
                    return Poll::Ready(Some(Err(not_read(failure))));
                }
            }
            parts.poll_recv(cx)
        });
        part.await.transpose()
    }

    pub(super) async fn next(&mut self) -> Result<Option<Vec<Value>>, Error> {
        match self.part().await {
            Ok(Some(Part::Row(row))) => Ok(Some(row)),
            Ok(_) => Ok(None),
            Err(failure) => {
                Err(Error::of_failure(&failure).unwrap_or_else(|| Error::from_engine(failure)))
            }
        }
    }
}

pub(super) fn not_read(failure: BridgeFailure<Infallible>) -> Failure<Error> {
    match failure {
        BridgeFailure::Closed => Failure::NotRun(NotRun::Closed),
        BridgeFailure::Panicked(message) => Failure::Rejected(Rejected::Panicked(message)),
        other => Failure::NotRun(NotRun::Unavailable(Arc::new(other))),
    }
}
