//! What tests of all engines share; no part of a program in use.
//!
//! [`mod@conformance`] is the suite that every engine passes. [`history`] makes histories of writes and
//! reads with many threads, and checks them.

pub mod conformance;
pub mod history;
