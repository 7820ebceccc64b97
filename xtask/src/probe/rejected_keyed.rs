//! One transaction that fails among a thousand that are submitted at once, on the key-value engines.

use std::{io, path::Path, sync::mpsc};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use groupcommit::{Outcome, Submit, TransactionOf, lmdb, rocksdb};

use crate::measured::Rejected;

const TRANSACTIONS: u64 = 1_000;

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Engine {
    Lmdb,
    Rocksdb,
}

pub(super) fn measure(engine: Engine, folder: &Path) -> Result<Rejected> {
    let outcomes = match engine {
        Engine::Lmdb => on_lmdb,
        Engine::Rocksdb => on_rocksdb,
    };
    let (without, flushes_without) = outcomes(&folder.join("without"), None)?;
    ensure!(without == [TRANSACTIONS, 0], "without a failure, all are committed");
    let (with, flushes) = outcomes(&folder.join("with"), Some(TRANSACTIONS / 2))?;
    let [committed, failed] = with;
    Ok(Rejected { transactions: TRANSACTIONS, committed, failed, flushes, flushes_without })
}

/// Transactions committed and rejected, and flushes.
type Outcomes = ([u64; 2], u64);

/// A database that one row can be put into.
trait Puts: Submit {
    fn put(tx: &mut TransactionOf<'_, Self>, key: u64) -> io::Result<()>;
}

impl Puts for lmdb::Database {
    fn put(tx: &mut lmdb::Transaction<'_>, key: u64) -> io::Result<()> {
        let table = tx.main_table();
        table.put(tx, &key.to_be_bytes(), b"value").map_err(io::Error::other)
    }
}

impl Puts for rocksdb::Database {
    fn put(tx: &mut rocksdb::Transaction<'_>, key: u64) -> io::Result<()> {
        tx.put(key.to_be_bytes(), b"value").map_err(io::Error::other)
    }
}

fn on_lmdb(path: &Path, failing: Option<u64>) -> Result<Outcomes> {
    let db = lmdb::Database::open(path)?;
    let counts = outcomes(&db, failing)?;
    let table = db.main_table();
    let rows = db.read(|tx| table.len(tx))?;
    ensure!(rows == counts.0[0], "{rows} rows of {} committed", counts.0[0]);
    db.close()?;
    Ok(counts)
}

fn on_rocksdb(path: &Path, failing: Option<u64>) -> Result<Outcomes> {
    let db = rocksdb::Database::open(path)?;
    let counts = outcomes(&db, failing)?;
    let rows = db.read(|snapshot| {
        let entries = snapshot.iterator(rocksdb::rocksdb::IteratorMode::Start);
        Ok::<_, rocksdb::Error>(entries.count() as u64)
    })?;
    ensure!(rows == counts.0[0], "{rows} rows of {} committed", counts.0[0]);
    db.close()?;
    Ok(counts)
}

/// Submits all at once; the failing one fails after it has written a row of its own.
fn outcomes<D: Puts>(db: &D, failing: Option<u64>) -> Result<Outcomes> {
    // Holds the database up: what is submitted meanwhile is queued.
    let (let_go, held) = mpsc::channel::<()>();
    let (started, has_started) = mpsc::channel();
    let first = db.submit(move |_| {
        let _nobody_listens = started.send(());
        let _until_let_go = held.recv();
        Ok::<_, io::Error>(())
    });
    has_started.recv().context("nothing is executed")?;
    let flushes_before = db.stats().flushes;
    let tickets: Vec<_> = (0..TRANSACTIONS)
        .map(|key| {
            db.submit(move |tx| {
                D::put(tx, key)?;
                if failing == Some(key) { Err(io::Error::other("it was to fail")) } else { Ok(()) }
            })
        })
        .collect();
    drop(let_go);
    first.wait()?;
    let mut counts = [0, 0];
    for ticket in tickets {
        match Outcome::of(&ticket.wait()) {
            Outcome::Committed => counts[0] += 1,
            Outcome::Rejected => counts[1] += 1,
            other => anyhow::bail!("a transaction came to {}", other.as_str()),
        }
    }
    Ok((counts, db.stats().flushes - flushes_before))
}
