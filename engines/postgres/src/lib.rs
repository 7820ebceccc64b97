//! The PostgreSQL engine of groupcommit: transactions as plain data, many to a commit.
//!
//! ```text
//!  members ──► BEGIN  m0  m1  m2  m3 ...      sent at once, answered in one go
//!          ──► COMMIT                         once every answer is good: flushed, and replicated
//!                └──► tickets resolve             as the server is set up
//! ```
//!
//! A server merges the flushes of its connections by itself. What is left to gain is the rest of
//! what a commit costs: its round trips, its wake-ups on both sides, and a flush for every few
//! instead of every thousand. One connection is enough for that.
//!
//! # Examples
//!
//! ```no_run
//! use groupcommit_postgres::{Database, Statement};
//!
//! let db = Database::open("postgres://app@db.example.org/app")?;
//! let ticket = db.submit_statements(vec![
//!     Statement::new("UPDATE stock SET left_over = left_over - 1 WHERE id = $1", [7.into()]),
//!     Statement::new("INSERT INTO orders (item) VALUES ($1) RETURNING id", [7.into()]),
//! ]);
//! let results = ticket.wait()?; // committed and durable; or `.await`
//! println!("order {:?}", results[1].rows[0][0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attempt;
mod connect;
mod exclusive;
mod execution;
mod hosts;
mod protocol;
mod readers;
mod remedy;
mod session;
mod settle;
mod statement;
mod url;
mod value;

pub use connect::Postgres;
pub use protocol::Warning;
pub use settle::Commit;

/// A PostgreSQL database.
pub type Database = groupcommit_remote::Database<Postgres>;
/// Why a database could not be opened or used, or why a statement was refused.
pub type Error = groupcommit_remote::Error<Postgres>;
/// The connection that an exclusive is given.
pub type Exclusive = groupcommit_remote::Exclusive<Postgres>;
/// Options for opening a database.
pub type Options = groupcommit_remote::Options<Postgres>;
/// The rows of a read, as they arrive.
pub type Rows = groupcommit_remote::Rows<Postgres>;
/// The transaction that a closure runs in.
pub type Transaction<'g> = groupcommit_remote::Transaction<'g, Postgres>;
/// A commit whose outcome is not known.
pub type Unsettled = groupcommit_remote::Unsettled<Postgres>;

pub use groupcommit_core::{
    Cause, Failure, Limits, NotRun, Once, OnceError, Outcome, Rejected, Settled, Stats, Submitter,
    Summary, Terms, Ticket, Tickets, Token, TokenLimits, TokenRecord, TrySubmitError, Unknown,
};
#[cfg(feature = "experiments")]
pub use groupcommit_core::{Experiments, Formation};
pub use groupcommit_statement::{Statement, StatementResult, Value, WrongType};
pub use rustls;
pub use tokio_postgres;
