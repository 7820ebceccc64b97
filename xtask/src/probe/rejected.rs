//! One transaction that fails among a thousand that are submitted at once: how many flushes more
//! than without it?

use std::path::Path;

use anyhow::Result;
use groupcommit::{Outcome, sqlite::Database};

use crate::{measured::Rejected, probe::HeldUp};

const TRANSACTIONS: u64 = 1_000;

pub(crate) fn measure(folder: &Path) -> Result<Rejected> {
    let (without, flushes_without) = outcomes(&folder.join("without.db"), None)?;
    anyhow::ensure!(without == [TRANSACTIONS, 0], "without a failure, all are committed");
    // In the middle, after a row of its own: the group has to be undone and run again.
    let (with, flushes) = outcomes(&folder.join("with.db"), Some(TRANSACTIONS / 2))?;
    let [committed, failed] = with;
    Ok(Rejected { transactions: TRANSACTIONS, committed, failed, flushes, flushes_without })
}

/// Transactions committed and rejected, and flushes.
fn outcomes(path: &Path, failing: Option<u64>) -> Result<([u64; 2], u64)> {
    let db = Database::open(path)?;
    db.transact(|tx| tx.execute("CREATE TABLE t (k INTEGER PRIMARY KEY)", ()))?;
    let held_up = HeldUp::new(&db)?;
    let flushes_before = db.stats().flushes;
    let tickets: Vec<_> = (0..TRANSACTIONS)
        .map(|n| {
            db.submit(move |tx| {
                tx.execute("INSERT INTO t VALUES (?1)", [n.cast_signed()])?;
                if failing == Some(n) {
                    tx.execute("INSERT INTO t VALUES (?1)", [n.cast_signed()])?;
                }
                Ok::<_, groupcommit::sqlite::rusqlite::Error>(())
            })
        })
        .collect();
    held_up.release()?;
    let mut counts = [0, 0];
    for ticket in tickets {
        match Outcome::of(&ticket.wait()) {
            Outcome::Committed => counts[0] += 1,
            Outcome::Rejected => counts[1] += 1,
            other => anyhow::bail!("a transaction came to {}", other.as_str()),
        }
    }
    let flushes = db.stats().flushes - flushes_before;
    db.close()?;
    let rows: i64 = groupcommit::sqlite::rusqlite::Connection::open(path)?.query_row(
        "SELECT count(*) FROM t",
        (),
        |row| row.get(0),
    )?;
    anyhow::ensure!(rows.cast_unsigned() == counts[0], "{rows} rows of {} committed", counts[0]);
    Ok((counts, flushes))
}
