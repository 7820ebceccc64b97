//! What tests and endurance runs of groupcommit share.

pub mod history;
