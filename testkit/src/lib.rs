//! What tests of all engines share; no part of a program in use.
//!
//! [`mod@conformance`] is the suite that every engine passes. [`history`] makes histories of writes and
//! reads with many threads, and checks them.
//! `remote` is the suite of the engines for remote databases, with the feature `remote`.
//! [`servers`] starts throw-away servers for those engines that need one. [`SetOnPanic`] ends threads of a
//! test that fails. A [`Victim`] is a process to be killed.

pub mod conformance;
pub mod history;
mod panics;
#[cfg(feature = "remote")]
pub mod remote;
pub mod servers;
mod victim;

pub use panics::SetOnPanic;
pub use victim::Victim;
