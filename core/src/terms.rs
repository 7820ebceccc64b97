//! What goes with a transaction on its way in, and what comes back when it is not admitted.

use std::time::Duration;

use crate::outcome::NotRun;

/// What a caller says of one transaction besides its closure.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms {
    /// Counted from submission; a transaction that is not committed by then is not run.
    pub deadline: Option<Duration>,
    /// Memory that the transaction holds outside its closure's own captures.
    pub bytes: usize,
}

/// A transaction that was not admitted, with its closure given back.
pub struct Refused<F> {
    /// Why.
    pub reason: NotRun,
    /// The closure, to submit again; `None` only when it was consumed.
    pub closure: Option<F>,
}

impl<F> std::fmt::Debug for Refused<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Refused").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<F> std::fmt::Display for Refused<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not run: {}", self.reason)
    }
}

impl<F> std::error::Error for Refused<F> {}
