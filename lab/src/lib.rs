//! The lab: published experiments on durable transactions, run on whatever machine and disk it is
//! started on.
//!
//! Measuring and drawing are apart. An experiment ([`mod@write`], [`mixed`], [`threads`], [`load`], [`web`], or
//! [`all`] of them) carries a workload ([`workload`]) to each of its settings ([`setting`]) and saves
//! records ([`measurement`]) together with the environment ([`environment`]) they belong to. Warnings
//! ([`quality`]) and a report ([`mod@report`]) are made from the records alone.
//!
//! ```text
//! workload, ──► driver, ──► engine: sqlite, lmdb, ... ────► completions ──► measure
//! operations    open_loop       (conditions)                (per thread)   (verify, statistics)
//!                                                                               │
//!                     quality, report  ◄──  measurement (results.json)  ◄── session
//! ```
//!
//! Two times are recorded and never mixed up: *latency*, what a caller waits from submit to
//! resolved, and *completion interval*, the time between completions, which is the reciprocal of
//! throughput.

pub mod all;
pub mod compare;
pub mod condition;
mod cpu_time;
mod database;
mod driver;
pub mod engine;
pub mod environment;
mod error;
pub mod file_system;
mod flush_delay;
pub mod flush_probe;

#[cfg(feature = "lmdb")]
mod lmdb;
pub mod load;
mod measure;
pub mod measurement;
pub mod mixed;
#[cfg(feature = "mysql")]
mod mysql;
mod open_loop;
mod operations;
mod plain_sqlite;
#[cfg(feature = "postgres")]
mod postgres;
pub mod quality;
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
pub use session::{Common, Event};
