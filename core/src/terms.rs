//! What goes with a transaction on its way in, and what comes back when it is not admitted.

use std::{fmt, time::Duration};

use crate::outcome::NotRun;

/// The terms on which a transaction is submitted.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Terms {
    /// See [`deadline`](Self::deadline()).
    pub deadline: Option<Duration>,
    /// See [`bytes`](Self::bytes()).
    pub bytes: usize,
}

impl Terms {
    /// No deadline, and no memory behind pointers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The transaction is not run, or is stopped where its engine can stop it and rolled back, once
    /// this time has passed since its submission; its ticket then resolves to
    /// [`NotRun::DeadlinePassed`] when its turn comes.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Memory in bytes that the transaction holds behind pointers, added to what was said before and
    /// counted against [`Limits::bytes`](crate::Limits::bytes). The closure's own size is counted
    /// anyway.
    #[must_use]
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = self.bytes.saturating_add(bytes);
        self
    }
}

/// A transaction that was not admitted, with its closure given back.
pub struct TrySubmitError<F> {
    /// Why.
    pub reason: NotRun,
    /// The closure, to submit again.
    pub closure: F,
}

impl<F> fmt::Debug for TrySubmitError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrySubmitError").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for TrySubmitError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not run: {}", self.reason)
    }
}

impl<F> std::error::Error for TrySubmitError<F> {}
