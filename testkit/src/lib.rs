//! What tests of all engines share; no part of a program in use.
//!
//! [`mod@conformance`] is the suite that every engine passes.

pub mod conformance;
