//! The SQLite engine of groupcommit: durable asynchronous transactions on an ordinary database.
//!
//! ```text
//!  members ──► BEGIN IMMEDIATE; m0; m1; m2; ...; COMMIT      frames in the -wal file, no sync
//!                                          └──► fdatasync(-wal) ──► tickets resolve
//!                       the next group is executed meanwhile
//! ```
//!
//! The database is in write-ahead-log mode at `synchronous=NORMAL`, and the log is flushed through
//! a descriptor of our own. It stays an ordinary SQLite file that other programs can use.
//!
//! # Examples
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("app.db");
//! use groupcommit_sqlite::Database;
//!
//! let db = Database::open(path)?;
//! db.transact(|tx| tx.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)", ()))?;
//! let tickets: Vec<_> = (0..100_i64)
//!     .map(|id| db.submit(move |tx| tx.execute("INSERT INTO t VALUES (?1, 'a')", [id])))
//!     .collect();
//! for ticket in tickets {
//!     ticket.wait()?; // on disk
//! }
//! let count: i64 = db.read(|conn| conn.query_row("SELECT count(*) FROM t", (), |row| row.get(0)))?;
//! assert_eq!(count, 100);
//! db.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checkpoint;
mod code;
mod connection;
mod database;
mod engine;
mod error;
mod ffi;
mod guard;
mod load;
mod open;
mod pieces;
mod readers;
mod recovery;
mod statement;
mod tokens;
mod transaction;
mod wal;

pub use code::code_name;
pub use database::{Database, WalStats};
pub use error::Error;
pub use load::{LoadError, LoadProgress};
pub use open::Options;
pub use statement::{Parameters, Part, read_each, run_statement, step_on};
pub use transaction::Transaction;

pub use groupcommit_core::{
    Cause, Failure, Limits, NotRun, Once, OnceError, Outcome, Rejected, Stats, Submitter, Summary,
    Terms, Ticket, Tickets, Token, TokenLimits, TokenRecord, TrySubmitError, Unknown,
};
#[cfg(feature = "experiments")]
pub use groupcommit_core::{Experiments, Formation};
pub use groupcommit_medium::Warning;
pub use groupcommit_statement::{Statement, StatementResult, Value, WrongType};
pub use rusqlite;
