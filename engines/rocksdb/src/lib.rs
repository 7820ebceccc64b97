//! The RocksDB engine of groupcommit: durable asynchronous transactions on an ordinary database.
//!
//! ```text
//!  members ──► puts and deletes, in order ──► one write batch ──► DB::write   log, no sync
//!                                                  └──► flush_wal(sync) ──► tickets resolve
//!                       the next group is executed meanwhile
//! ```
//!
//! The members of a group leave one write batch, which RocksDB writes into its log and its
//! memtables at once. What a member does is noted first; a member that fails is struck out of the
//! notes, and a member that reads sees the notes over the database.
//!
//! # Examples
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("store");
//! use groupcommit_rocksdb::Database;
//!
//! let db = Database::open(path)?;
//! let tickets: Vec<_> = (0..100_u64)
//!     .map(|id| db.submit(move |tx| tx.put(id.to_be_bytes(), "a")))
//!     .collect();
//! for ticket in tickets {
//!     ticket.wait()?; // on disk
//! }
//! let last = db.read(|snapshot| snapshot.get(99_u64.to_be_bytes()))?;
//! assert_eq!(last.as_deref(), Some(&b"a"[..]));
//! db.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod database;
mod engine;
mod error;
mod exclusive;
mod families;
mod ffi;
mod log;
mod open;
mod place;
mod settings;
mod snapshot;
mod store;
mod tokens;
mod transaction;
mod unlogged;
mod view;
mod write;

pub use database::Database;
pub use error::Error;
pub use exclusive::Exclusive;
pub use open::Options;
pub use snapshot::Snapshot;
pub use transaction::{Entries, Transaction};
pub use unlogged::{NotDurable, UnloggedDatabase};
pub use write::{Write, WriteResult};

pub use groupcommit_core::{
    Cause, Failure, Limits, NotRun, Once, OnceError, Outcome, Rejected, Stats, Submitter, Summary,
    Terms, Ticket, Tickets, Token, TokenLimits, TokenRecord, TrySubmitError, Unknown,
};
#[cfg(feature = "experiments")]
pub use groupcommit_core::{Experiments, Formation};
pub use groupcommit_medium::Warning;
pub use rocksdb;
