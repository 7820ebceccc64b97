//! SQL over HTTP on a groupcommit database: the protocol of libSQL and Turso (Hrana over HTTP), so that
//! their clients connect unchanged.
//!
//! ```text
//!  connections ──► pipeline of requests ──► program (statements with conditions)
//!                                             ├─ only reads ──► read pool
//!                                             ├─ a whole transaction ──► member of a group
//!                                             └─ anything else ──► slot: the connection alone
//! ```
//!
//! Invariants:
//! 1. Nothing that says that a write succeeded leaves the server before the write is durable.
//! 2. A program is one transaction of the pipeline, whatever it consists of; only what stays open from
//!    one request to the next, and what SQLite cannot do in a transaction, has the connection alone.
//! 3. What a client can send is bounded in size, depth and time.

mod cursor;
mod dump;
mod encode;
mod error;
mod ffi;
mod http;
mod idempotency;
mod interrupt;
mod listen;
mod memory;
mod patient;
mod pipeline;
mod program;
mod protocol;
mod response;
mod run;
mod running;
mod server;
mod slot;
mod sql;
mod streams;
mod value;
mod websocket;

use std::time::Duration;

pub use listen::{Serving, bind};

/// What a server allows.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Options {
    /// How long a transaction that spans several requests may last.
    pub transaction_timeout: Duration,
    /// How long such a transaction may wait for its next request.
    pub transaction_idle_timeout: Duration,
    /// How long a request may wait for its turn and run.
    pub request_timeout: Duration,
    /// How long a client may take to send a request, or to receive a part of a response.
    pub send_timeout: Duration,
    /// The largest body of a request, in bytes.
    pub body_bytes_max: usize,
    /// Memory that all requests and responses take at once, in bytes. A request counts for many times
    /// its length, which is what reading it may take.
    pub memory_bytes_max: usize,
    /// Connections at once.
    pub connections_max: usize,
    /// Reads at once.
    pub readers: usize,
    /// Each write commits and is flushed by itself, as in servers without group commit.
    #[cfg(feature = "experiments")]
    pub one_commit_a_request: bool,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            transaction_timeout: Duration::from_secs(5),
            transaction_idle_timeout: Duration::from_secs(1),
            request_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(30),
            body_bytes_max: 32 << 20,
            memory_bytes_max: 1 << 30,
            connections_max: 20_000,
            readers: (2 * cores).max(4),
            #[cfg(feature = "experiments")]
            one_commit_a_request: false,
        }
    }
}
