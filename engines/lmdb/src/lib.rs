//! The LMDB engine of groupcommit: durable asynchronous transactions on an ordinary environment.
//!
//! ```text
//!  members ──► begin; m0; m1; m2; ...; commit        pages written and synced, then the meta page
//!                                       └──► fdatasync(data.mdb) ──► tickets resolve
//!                       the next group is executed meanwhile
//! ```
//!
//! The environment is opened with `MDB_NOMETASYNC`: a commit syncs its pages before it writes the
//! meta page that leads to them, and the meta page is synced by the flush. So a power cut takes back
//! whole groups at most, none of them acknowledged, and never leaves a torn tree. It stays an
//! ordinary LMDB environment that other programs can use.
//!
//! Members of a group share one write transaction. When one fails after it wrote, the group runs
//! again with a nested transaction round each member; what a closure does twice then is undone
//! before.
//!
//! # Examples
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("app");
//! use groupcommit_lmdb::{Database, heed::types::Bytes};
//!
//! let db = Database::open(path)?;
//! let names = db.table::<Bytes, Bytes>("names")?;
//! let tickets: Vec<_> = (0..100_u32)
//!     .map(|id| db.submit(move |tx| names.put(tx, &id.to_be_bytes(), b"a")))
//!     .collect();
//! for ticket in tickets {
//!     ticket.wait()?; // on disk
//! }
//! assert_eq!(db.read(|tx| names.len(tx))?, 100);
//! db.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod database;
mod engine;
mod environment;
mod error;
mod exclusive;
mod ffi;
mod file;
mod gate;
mod open;
mod operation;
mod tokens;
mod transaction;

pub use database::Database;
pub use error::Error;
pub use exclusive::Exclusive;
pub use open::Options;
pub use operation::{Operation, OperationResult, Table};
pub use transaction::Transaction;

pub use groupcommit_core::{
    Cause, Failure, Limits, NotRun, Once, OnceError, Outcome, Rejected, Stats, Submitter, Summary,
    Terms, Ticket, Tickets, Token, TokenLimits, TokenRecord, TrySubmitError, Unknown,
};
#[cfg(feature = "experiments")]
pub use groupcommit_core::{Experiments, Formation};
pub use groupcommit_medium::Warning;
pub use heed;
