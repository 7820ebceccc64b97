//! Durable asynchronous transactions for the database you already use, many of which share one
//! flush.
//!
//! You submit a transaction and get a [`Ticket`] at once. The ticket resolves only when the
//! transaction is committed *and* flushed to disk. Whatever waits at the same moment shares one
//! commit and one flush: an idle database commits at once, a loaded one forms larger groups. There
//! is nothing to tune, and durability is never traded away.
//!
//! ```text
//! submit ──► admission ──► execute ──────────► flush ───────────► resolve
//!            bounded       group k+1 runs ...  while group k is   tickets in order
//!            count, bytes                      being flushed
//! ```
//!
//! # A first use
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("app.db");
//! use groupcommit::sqlite::Database;
//!
//! let db = Database::open(path)?;
//! db.transact(|tx| tx.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)", ()))?;
//!
//! let ticket = db.submit(|tx| tx.execute("INSERT INTO t VALUES (?1, ?2)", (1, "a")));
//! let rows = ticket.wait()?; // on disk
//! assert_eq!(rows, 1);
//!
//! let names: i64 = db.read(|conn| conn.query_row("SELECT count(*) FROM t", (), |row| row.get(0)))?;
//! assert_eq!(names, 1);
//! db.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # In async code
//!
//! A ticket is a [`Future`] that needs no particular runtime. `submit` blocks while admission is
//! full; `submit_async` and `transact_async` wait for room without blocking the thread.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("app.db");
//! use groupcommit::{Failure, sqlite::{Database, rusqlite}};
//!
//! async fn record(db: &Database, page: String) -> Result<i64, Failure<rusqlite::Error>> {
//!     db.transact_async(move |tx| {
//!         tx.execute("INSERT INTO visits (page) VALUES (?1)", [&page])?;
//!         Ok(tx.last_insert_rowid())
//!     })
//!     .await // on disk
//! }
//!
//! let db = Database::open(path)?;
//! db.transact(|tx| tx.execute("CREATE TABLE visits (id INTEGER PRIMARY KEY, page TEXT)", ()))?;
//! let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! assert_eq!(runtime.block_on(record(&db, "/".to_owned()))?, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a transaction can come to
//!
//! | outcome | type | what the caller may do |
//! |---|---|---|
//! | committed | `Ok(value)` | rely on it: it is on disk |
//! | rejected | [`Failure::Rejected`] | mend the transaction; it was rolled back |
//! | not run | [`Failure::NotRun`] | submit it again: it had no effect and never will |
//! | unknown | [`Failure::Unknown`] | open the database again and look |
//!
//! A transaction that fails does so alone: its neighbours commit, each exactly once.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("app.db");
//! use groupcommit::{Failure, Rejected, sqlite::Database};
//!
//! let db = Database::open(path)?;
//! db.transact(|tx| tx.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)", ()))?;
//! let tickets = [1, 1, 2].map(|id| db.submit(move |tx| tx.execute("INSERT INTO t VALUES (?1)", [id])));
//! let [first, again, other] = tickets.map(|ticket| ticket.wait());
//! assert_eq!(first?, 1);
//! assert!(matches!(again, Err(Failure::Rejected(Rejected::Caller(_)))));
//! assert_eq!(other?, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Closures may run more than once
//!
//! When a neighbour makes the engine roll a group back, the others run again. The effect of each on
//! the database lands exactly once; what a closure does to the world outside the database it should
//! do after its ticket has resolved.
//!
//! # Engines
//!
//! One feature an engine:
//!
//! | feature | module | on by default |
//! |---|---|---|
//! | `sqlite` | [`sqlite`] | yes |
//! | `lmdb` | `lmdb` | no |
//! | `rocksdb` | `rocksdb` | no: it compiles C++ for many minutes |
//! | `mysql` | `mysql` | no |
//! | `postgres` | `postgres` | no |
//!
//! [`sql`] opens any of those that speak SQL by a URL, with the same statements, values and errors;
//! [`bridge`] puts a blocking client of any kind behind an asynchronous interface.
//!
//! An engine's module re-exports the binding that its transactions are written with
//! (`sqlite::rusqlite`), so both sides use the same version.
//!
//! # Metrics
//!
//! Counters, gauges and histograms go to the [`metrics`](https://docs.rs/metrics) facade, labelled
//! with the database's path; a recorder has to be installed before a database is opened.
//! `Database::stats` returns the same as a snapshot, [`Stats`]. Groups and flushes are
//! [`tracing`](https://docs.rs/tracing) spans.

pub use groupcommit_core::{
    Cause, Failure, Limits, NotRun, Once, OnceError, Outcome, Rejected, Stats, Submit, Submitter,
    Summary, Terms, Ticket, Tickets, Token, TokenLimits, TokenRecord, TransactionOf,
    TrySubmitError, Unknown,
};

#[cfg(feature = "_sql")]
pub mod sql;

#[cfg(feature = "bridge")]
pub use groupcommit_bridge as bridge;
#[cfg(feature = "lmdb")]
pub use groupcommit_lmdb as lmdb;
#[cfg(feature = "mysql")]
pub use groupcommit_mysql as mysql;
#[cfg(feature = "postgres")]
pub use groupcommit_postgres as postgres;
#[cfg(feature = "rocksdb")]
pub use groupcommit_rocksdb as rocksdb;
#[cfg(feature = "sqlite")]
pub use groupcommit_sqlite as sqlite;

/// The examples of the README, compiled.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../README.md")]
struct Readme;
