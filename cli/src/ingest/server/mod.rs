//! Ingest into a server: the same promises, with transactions that are plain data.
//!
//! ```text
//! record N ──► one transaction: its row, and N in `_groupcommit_decided`
//!         its row is refused ──► another: its verdict, and N in `_groupcommit_decided`
//! every so many records ──► another: the position moves over them, and they leave that table
//! ```
//!
//! 1. A record is decided exactly once: with its row or its verdict its number is inserted under a
//!    key, which nobody inserts twice.
//! 2. Records are submitted in order, and commit in order but for those that are refused, whose
//!    verdicts follow. After an interruption what is decided is known record by record, so there
//!    may be gaps, and `--resume` fills them.
//! 3. A failure of the server or of the way to it is never a verdict on a record.

mod decide;
mod ledger;
mod run;
mod table;

pub(crate) use run::run;
