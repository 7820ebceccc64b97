//! The pipeline of groupcommit: admission, execute, flush, resolve.
//!
//! ```text
//! submit ──► admission ──► execute ──────────► flush ───────────► resolve
//!            bounded       group k+1 runs ...  while group k is   tickets in order
//!            count, bytes                      being flushed
//! ```
//!
//! This crate knows no engine, does no I/O and needs no async runtime. An [`Engine`] executes
//! groups of transactions and flushes them; a [`Pipeline`] drives it and hands out [`Ticket`]s.
//! Time and threads come in through [`Clock`] and [`Spawn`].

mod admission;
mod admit;
mod cell;
mod clock;
mod engine;
mod execute;
mod fate;
mod flush;
mod formation;
mod group;
mod hold;
mod once;
mod outcome;
mod park;
mod pipeline;
mod pool;
mod quiet;
mod returns;
mod shared;
mod state;
mod stats;
mod submit;
mod sync;
mod terms;
mod ticket;
mod tickets;
mod token_map;
mod tokens;
mod waits;

pub use admission::Limits;
pub use cell::Ran;
pub use clock::{Clock, SystemClock};
pub use engine::{Engine, ExclusiveEnd, Executed, Flush};
pub use formation::{GROUP_BYTES_MAX, GROUP_EXECUTE_NS_MAX, GROUP_TRANSACTIONS_MAX};
pub use group::Group;
#[cfg(feature = "experiments")]
pub use hold::{Experiments, Formation};
pub use once::{KeepTokens, Once, OnceError};
pub use outcome::{Cause, Failure, NotRun, Outcome, Rejected, Settled, Unknown};
pub use park::{block_on, sleep, while_blocked};
pub use pipeline::{Pipeline, Settings};
pub use pool::{LINGER, SharedPool, Spawn, THREADS_MAX, Task};
pub use stats::{Stats, Summary};
pub use submit::{Submit, Submitter, TransactionOf};
pub use terms::{Terms, TrySubmitError};
pub use ticket::Ticket;
pub use tickets::Tickets;
pub use token_map::TokenMap;
pub use tokens::{Token, TokenLimits, TokenRecord};
