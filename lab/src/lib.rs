//! The lab: published experiments on durable transactions, run on whatever machine and disk it is
//! started on.
//!
//! Measuring and drawing are apart. An experiment ([`mod@write`], [`mixed`], [`threads`], [`load`],
//! [`large`], [`wal`], [`web`], or [`all`] of them) carries a workload ([`workload`]) to each of its settings
//! ([`setting`]) and saves records ([`measurement`]) together with the environment ([`environment`])
//! they belong to; warnings ([`quality`]) and a report ([`mod@report`]) are made from the
//! records alone.
//!
//! ```text
//! workload ──► driver, ──► adapter: sqlite, lmdb, ... ───► completions ──► measure
//!              open_loop   (conditions)                    (per thread)   (verify, statistics)
//!                                                                              │
//!                    quality, report  ◄──  measurement (results.json)  ◄── session
//! ```
//!
//! Two times are recorded and never mixed up: *latency*, what a caller waits from submit to
//! resolved, and *completion interval*, the time between completions, which is the reciprocal of
//! throughput.

mod adapter;
pub mod all;
mod client;
pub mod compare;
pub mod condition;
mod cpu_time;
mod driver;
pub mod engine;
pub mod environment;
mod error;
pub mod file_system;
mod flush_delay;
pub mod flush_probe;
pub mod large;
#[cfg(feature = "lmdb")]
mod lmdb;
pub mod load;
mod measure;
pub mod measurement;
pub mod mixed;
#[cfg(feature = "mysql")]
mod mysql;
mod open_loop;
pub mod options;
#[cfg(feature = "postgres")]
mod postgres;
pub mod quality;
#[cfg(feature = "_remote")]
mod remote;
pub mod report;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod server;
mod session;
pub mod setting;
mod sqlite;
pub mod statistics;
pub mod threads;
pub mod wal;
pub mod web;
pub mod workload;
pub mod write;

pub use error::LabError;
pub use options::{Common, parse};
pub use session::{Event, Experiment, Session, run};
