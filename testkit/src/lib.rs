//! What tests of all engines share; no part of a program in use.
//!
//! [`conformance`] is the suite that every engine passes; [`servers`] starts throw-away servers for
//! those engines that need one.

pub mod conformance;
pub mod servers;
