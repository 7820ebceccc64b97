//! The promises at the level of a database: one module a promise. Promise 4 has a test binary of
//! its own (`one_by_one`), and so have the two that measure the whole process.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;

mod admission;
mod callbacks;
mod cancellation;
mod closing;
mod dropped_futures;
mod isolation;
mod load;
mod neighbours;
mod ordering;
mod races;
mod reading;
mod reentrancy;
