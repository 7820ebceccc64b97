//! The protocol as a client sees it, on a real server.
#![expect(clippy::unwrap_used, reason = "the helpers of tests are not tests to clippy")]
#![expect(clippy::needless_pass_by_value, reason = "`json!` at a call reads best without `&`")]

mod batches;
mod batons;
mod client;
mod cursors;
mod fuzz;
mod hostile;
mod keys;
mod outcomes;
mod statements;
mod transactions;
mod websockets;
