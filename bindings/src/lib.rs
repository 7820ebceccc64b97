//! What the packages of other languages share: opening by a path or a URL, delivering outcomes to an
//! event loop, describing failures, and results that are kept with a token.
//!
//! ```text
//! loop's thread ──► Deliveries::transact ──► pipeline ──► flush ──► one wake-up of the loop
//!       └────────── Deliveries::take ◄───────────────────────────────────┘
//! ```
//!
//! Parameters become [`Value`](groupcommit::sql::Value)s on the caller's thread, and rows become the
//! language's own objects on the loop's thread: nothing of a language runs where transactions do.

mod deliveries;
mod failure;
mod kept;
mod open;
mod process;
mod read;

/// What one thread allocates is often freed by another, as are statements and results here, which this
/// allocator does without a lock.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use deliveries::{Delivered, Deliveries};
pub use failure::Description;
pub use groupcommit;
pub use groupcommit_core::block_on;
pub use kept::{Repeatable, kept_results, token};
pub use open::{Database, OpenError, Settings};
pub use process::forked;
pub use read::{Chunks, ROWS_AT_ONCE, all_rows, first_row, first_row_async};
