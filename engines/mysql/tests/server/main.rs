//! The engine against servers: throw-away ones that these tests start, and that end with them.
//!
//! Where MariaDB or Galera is neither installed nor can be, everything here is skipped, with a line
//! that says so; with `GROUPCOMMIT_SERVERS=required` it fails instead.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cluster;
mod conformance;
mod contention;
mod cuts;
mod literals;
mod reading;
mod refused;
mod server;
mod tls;
mod together;
