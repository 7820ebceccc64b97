//! One suite for every engine that is opened by a URL: the same calls, the same results and the
//! same errors. Only the SQL differs, where the databases do.
//!
//! A server is a throw-away one that these tests start, and that ends with them. Where it is neither
//! installed nor can be, its tests are skipped, with a line that says so; with
//! `GROUPCOMMIT_SERVERS=required` they fail instead.
#![cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod connecting;
mod errors;
mod places;
mod reading;
mod tokens;
mod transactions;
