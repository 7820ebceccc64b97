//! The MySQL engine of groupcommit: transactions as plain data, many to a commit, on MariaDB, Galera
//! clusters and MySQL.
//!
//! ```text
//!  members ──► START TRANSACTION; m0; m1; m2; m3 ...     one text, one round trip
//!          ──► record; COMMIT                            once every answer is good: flushed, and
//!                └──► tickets resolve                         certified by the cluster's nodes
//! ```
//!
//! The protocol knows one request at a time, but a request may hold many statements. So the
//! statements of a group are written out with their parameters and travel as one text. What a
//! parameter means does not change by that: the text is taken apart by the rules of the server, which
//! is asked as well, and each value is written as a literal of its own type.
//!
//! # Examples
//!
//! ```no_run
//! use groupcommit_mysql::{Database, Statement};
//!
//! let db = Database::open("mysql://app@db.example.org/app")?;
//! let ticket = db.submit_statements(vec![
//!     Statement::new("UPDATE stock SET left_over = left_over - 1 WHERE id = ?", [7.into()]),
//!     Statement::new("INSERT INTO orders (item) VALUES (?)", [7.into()]),
//! ]);
//! let results = ticket.wait()?; // committed and durable; or `.await`
//! println!("order {:?}", results[1].last_insert_id);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attempt;
mod connect;
mod exclusive;
mod execution;
mod literal;
mod protocol;
mod readers;
mod record;
mod session;
mod settle;
mod sql;
mod url;
mod value;

pub use connect::MySql;
pub use protocol::Warning;
pub use record::Commit;

/// A MySQL or MariaDB database, or a Galera cluster.
pub type Database = groupcommit_remote::Database<MySql>;
/// Why a database could not be opened or used, or why a statement was refused.
pub type Error = groupcommit_remote::Error<MySql>;
/// The connection that an exclusive is given.
pub type Exclusive = groupcommit_remote::Exclusive<MySql>;
/// Options for opening a database.
pub type Options = groupcommit_remote::Options<MySql>;
/// The rows of a read, as they arrive.
pub type Rows = groupcommit_remote::Rows<MySql>;
/// The transaction that a closure runs in.
pub type Transaction<'g> = groupcommit_remote::Transaction<'g, MySql>;
/// A commit whose outcome is not known.
pub type Unsettled = groupcommit_remote::Unsettled<MySql>;

pub use groupcommit_core::{
    Cause, Failure, Limits, NotRun, Once, OnceError, Outcome, Rejected, Settled, Stats, Submitter,
    Summary, Terms, Ticket, Tickets, Token, TokenLimits, TokenRecord, TrySubmitError, Unknown,
};
#[cfg(feature = "experiments")]
pub use groupcommit_core::{Experiments, Formation};
pub use groupcommit_statement::{Statement, StatementResult, Value, WrongType};
pub use mysql_async;
