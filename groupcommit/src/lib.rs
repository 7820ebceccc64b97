//! Adaptive asynchronous transactions for the database you already use.

pub use groupcommit_core::{
    Cause, Failure, Limits, NotRun, Outcome, Refused, Rejected, Stats, Summary, Ticket, Unknown,
};

#[cfg(feature = "sqlite")]
pub use groupcommit_sqlite as sqlite;
