//! The engine against a server: a throw-away one that these tests start, and that ends with them.
//!
//! Where PostgreSQL is neither installed nor can be, everything here is skipped, with a line that
//! says so; with `GROUPCOMMIT_SERVERS=required` it fails instead.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod blocks;
mod conformance;
mod contention;
mod cuts;
mod failover;
mod full;
mod others;
mod places;
mod prepared;
mod reading;
mod refused;
mod replicated;
mod server;
mod temporary;
mod tls;
mod together;
