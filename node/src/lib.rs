//! The native half of groupcommit's package for Node. Programs call its other half, in `lib/`.
//!
//! ```text
//!   promises ── one call a turn of the event loop ──► driver ── transactions ──► pipeline
//!   promises ◄── one call a flush: all it resolved ── driver ◄── one wake-up ────┘
//! ```
//!
//! Arguments become plain values in the call that brings them, and results become values of JavaScript
//! in the call that delivers them: nothing of JavaScript leaves its thread.

mod delivery;
mod driver;
pub mod functions;
mod node_api;
mod read;
mod statements;
pub mod stats;
mod threads;
