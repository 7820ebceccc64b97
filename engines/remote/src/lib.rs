//! The engine for databases on a server, which PostgreSQL and MySQL share: everything but the
//! protocol.
//!
//! ```text
//!   Database ──► the pipeline ──► Writer ──► an attempt ──► committed ──► Sizes: the next may be larger
//!      │                            ▲            └──► an obstacle ──► Trials: again, smaller or
//!      │                            │                                 after a pause; or never
//!      │                            └── Members beyond the size go back into the queue
//!      └──► a read ──► Lines: a few connections that reads share
//! ```
//!
//! An engine implements [`Protocol`]: how to connect, how statements travel, what an error means, and
//! what became of a commit whose answer did not arrive. Use `groupcommit-postgres` or
//! `groupcommit-mysql`, not this crate.

mod database;
mod engine;
mod error;
mod exclusive;
mod flusher;
mod insist;
pub mod lines;
mod members;
mod open;
mod protocol;
mod rows;
pub mod runtime;
mod settle;
mod sizes;
mod tokens;
mod transaction;
mod trials;

pub use database::Database;
pub use engine::{Attempt, Setback, Writer, deliver, reject, run_member};
pub use error::{Error, Unsettled, chain};
pub use exclusive::Exclusive;
pub use flusher::Flusher;
pub use insist::{insist, pause};
pub use members::{Member, Members};
pub use open::Options;
pub use protocol::{Alone, Execution, Protocol, Purpose, Readers, RowSource};
pub use rows::Rows;
pub use settle::{Trouble, settle};
pub use sizes::Sizes;
pub use tokens::TokenSql;
pub use transaction::Transaction;
pub use trials::{Next, Obstacle, Trials};
