//! What is known to go wrong with RocksDB: each has a test that fails without its defence.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod background_failure;
mod closing;
mod column_families;
mod log_failure;
mod place;
mod poison;
mod settings;
mod unclean_stop;
mod unlogged;

use std::sync::mpsc::{self, Sender};

use groupcommit_rocksdb::{Database, Error, Ticket, rocksdb};

/// Keeps the database's execute role until it is dropped: what is submitted meanwhile is one group.
fn hold(db: &Database) -> (Sender<()>, Ticket<(), Error>) {
    let (release, held) = mpsc::channel::<()>();
    let (begun, entered) = mpsc::channel();
    let ticket = db.submit(move |_| {
        begun.send(()).unwrap();
        held.recv().ok();
        Ok(())
    });
    entered.recv().unwrap();
    (release, ticket)
}

fn value(db: &Database, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    db.read(|snapshot| snapshot.get(key)).unwrap()
}

/// Options whose merge operator appends.
fn appending() -> rocksdb::Options {
    let mut options = rocksdb::Options::default();
    options.set_merge_operator_associative("append", |_, existing, operands| {
        let mut value = existing.map_or_else(Vec::new, <[u8]>::to_vec);
        operands.iter().for_each(|operand| value.extend_from_slice(operand));
        Some(value)
    });
    options
}
