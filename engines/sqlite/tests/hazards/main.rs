//! What is known to go wrong when transactions of several callers share a commit and a flush of
//! SQLite. One module a hazard; each test fails without the defence.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;

mod counters;
mod cursors;
mod failed_commits;
mod foreign_keys;
mod full_disk;
mod idle;
mod interrupted;
mod io_errors;
mod large_group;
mod log_growth;
mod opening;
mod other_writers;
mod panics;
mod partial_rows;
mod refused;
mod replaced_file;
mod replaced_log;
mod rolled_back;
mod savepoints;
mod schema_changes;
mod settings;
mod traces;
mod unclean_stop;
mod virtual_tables;
