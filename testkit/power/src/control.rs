//! The control: what this medium does to a writer that does not flush, and to plain files.
//!
//! A medium on which the first loses nothing shows nothing about one that does. The second shows
//! what a power cut may take of that which a plain `fdatasync` said was durable: nothing that it
//! said before the cut began; but where a file system is shut down while an `fdatasync` is under
//! way, the call may return success although its journal commit was dropped.

use std::{
    fmt,
    fs::File,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
};

use anyhow::{Result, bail, ensure};
use rusqlite::Connection;
use serde::Serialize;

use crate::{disk::Survivors, medium::Medium};

const ROWS: u64 = 400;

/// Power cuts in the middle of plain appending and flushing.
const CUTS: u64 = 25;

/// Bytes appended before each flush.
const BLOCK: usize = 4096;

/// What the control came to.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Control {
    /// Rows committed without a flush, and how many of them were gone.
    pub(crate) rows: u64,
    pub(crate) rows_lost: u64,
    /// Power cuts during plain appends, each followed by `fdatasync`.
    pub(crate) cuts: u64,
    /// In how many of them the last `fdatasync`, which returned success while the power was being
    /// cut, had saved nothing.
    pub(crate) cuts_untrue: u64,
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, rows_lost, cuts, cuts_untrue } = self;
        write!(
            f,
            "control: {rows_lost} of {rows} rows that were committed without a flush were gone; \
             in {cuts_untrue} of {cuts} cuts a plain fdatasync under way said success and saved \
             nothing"
        )
    }
}

pub(crate) fn run(medium: &mut Medium) -> Result<Control> {
    let rows_lost = without_flushes(medium)?;
    let mut cuts_untrue = 0;
    for number in 0..CUTS {
        cuts_untrue += u64::from(plain_flushes(medium, number)?);
    }
    Ok(Control { rows: ROWS, rows_lost, cuts: CUTS, cuts_untrue })
}

/// How many rows are gone of those that were committed without a flush.
fn without_flushes(medium: &mut Medium) -> Result<u64> {
    let path = medium.path().join("control.db");
    let connection = Connection::open(&path)?;
    let _mode: String = connection.query_row("PRAGMA journal_mode=WAL", (), |row| row.get(0))?;
    connection.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY)")?;
    let _frames: i64 =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0))?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    for id in 0..ROWS {
        connection.execute("INSERT INTO t VALUES (?1)", [id.cast_signed()])?;
    }
    medium.switch().cut()?;
    drop(connection);
    medium.cycle_power(Survivors::None, 0)?;
    let connection = Connection::open(&path)?;
    let left: i64 = connection.query_row("SELECT count(*) FROM t", (), |row| row.get(0))?;
    Ok(ROWS.saturating_sub(left.cast_unsigned()))
}

/// Cuts the power while a thread appends blocks and flushes each; `true` when one is gone whose
/// flush returned success after the cut had begun.
///
/// # Errors
///
/// When one is gone whose flush had returned before: then this medium cannot be trusted.
fn plain_flushes(medium: &mut Medium, number: u64) -> Result<bool> {
    let path = medium.path().join(format!("control-{number}"));
    let file = File::create(&path)?;
    File::open(medium.path())?.sync_all()?;
    let flushed = Arc::new(AtomicU64::new(0));
    let appender = {
        let flushed = flushed.clone();
        thread::spawn(move || {
            for block in 0.. {
                let written = file.write_all_at(&[1; BLOCK], block * BLOCK as u64);
                // One that begins after the cut is refused.
                if written.and_then(|()| file.sync_data()).is_err() {
                    return;
                }
                flushed.store(block + 1, SeqCst);
            }
        })
    };
    while flushed.load(SeqCst) < 5 + number {
        ensure!(!appender.is_finished(), "plain appends fail before the power is cut");
        thread::yield_now();
    }
    let before = flushed.load(SeqCst);
    medium.switch().cut()?;
    if appender.join().is_err() {
        bail!("the control panicked");
    }
    medium.cycle_power(Survivors::None, number)?;
    let said = flushed.load(SeqCst);
    let length = File::open(&path)?.metadata()?.len() / BLOCK as u64;
    ensure!(
        length >= before,
        "{length} of {before} blocks are there that were flushed before the power was cut"
    );
    Ok(length < said)
}
