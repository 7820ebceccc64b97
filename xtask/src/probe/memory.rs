//! Memory of transactions that are queued: what the process holds more once they are submitted.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use groupcommit::{Limits, sqlite::Database};

use crate::{measured::Memory, probe::HeldUp};

const TRANSACTIONS: usize = 200_000;

/// A value as in the published experiment: an integer key and a text of 36 characters.
const TEXT_BYTES: usize = 36;

pub(crate) fn measure(folder: &Path) -> Result<Memory> {
    let limits = Limits::new(2 * TRANSACTIONS, usize::MAX);
    let db = Database::options().limits(limits).open(folder.join("memory.db"))?;
    db.transact(|tx| tx.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)", ()))?;
    let held_up = HeldUp::new(&db)?;
    let mut tickets = Vec::with_capacity(TRANSACTIONS);
    let before = resident_bytes()?;
    for key in 0..i64::try_from(TRANSACTIONS)? {
        let text = "x".repeat(TEXT_BYTES);
        tickets
            .push(db.submit(move |tx| tx.execute("INSERT INTO t VALUES (?1, ?2)", (key, &text))));
    }
    let after = resident_bytes()?;
    held_up.release()?;
    for ticket in tickets {
        ticket.wait()?;
    }
    db.close()?;
    // The closure's captures, and the text behind one of them.
    let own = size_of::<(i64, String)>() + TEXT_BYTES;
    Ok(Memory {
        transactions: TRANSACTIONS as u64,
        bytes_of_data_each: own as f64,
        bytes_resident_each: (after - before) / TRANSACTIONS as f64,
    })
}

fn resident_bytes() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status").context("needs Linux's /proc")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024.0)
}
