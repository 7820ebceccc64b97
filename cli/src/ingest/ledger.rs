//! What the database itself remembers about an ingest: how far it came, and what it rejected.
//!
//! 1. One row per target in `_groupcommit_ingest`. A record's own transaction advances the row's
//!    position from N - 1 to N; where that finds another position, the transaction fails. So records
//!    take effect in order, each exactly once, and the position is exact after any interruption.
//! 2. A rejected record advances the position too, and its reason is kept in `_groupcommit_rejects` by
//!    the same transaction: a verdict is as durable as a row, and comes as often, once.

use groupcommit::sqlite::rusqlite::{Connection, OptionalExtension as _, Result, Row, params};

use crate::ingest::job::Job;

/// Names that begin so are the program's own.
pub(crate) const PREFIX: &str = "_groupcommit";

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS _groupcommit_ingest (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    target   TEXT NOT NULL UNIQUE COLLATE NOCASE, -- the table, or (sql)
    source   TEXT NOT NULL,                       -- the input, as messages call it
    reading  TEXT NOT NULL,                       -- the options that decide how it is read
    position INTEGER NOT NULL,                    -- records decided: committed or rejected
    line     INTEGER NOT NULL,                    -- line of the last of them
    checksum INTEGER NOT NULL,                    -- of the input up to there
    finished INTEGER NOT NULL                     -- 1 once the end of the input was reached
);
CREATE TABLE IF NOT EXISTS _groupcommit_rejects (
    ingest   INTEGER NOT NULL,                    -- id in _groupcommit_ingest
    record   INTEGER NOT NULL,
    line     INTEGER NOT NULL,
    reason   TEXT NOT NULL,
    content  TEXT NOT NULL,                       -- the record as it stands in the input
    PRIMARY KEY (ingest, record)
) WITHOUT ROWID;
";

const ADVANCE: &str = "UPDATE _groupcommit_ingest SET position = ?2, line = ?3, checksum = ?4 \
                       WHERE id = ?1 AND position = ?2 - 1";

const REJECT: &str = "INSERT INTO _groupcommit_rejects (ingest, record, line, reason, content) VALUES (?1, ?2, ?3, ?4, ?5)";

/// How far an ingest came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its number in the database.
    pub(crate) id: i64,
    /// The input, as messages call it.
    pub(crate) source: String,
    /// The options that decide how the input is read.
    pub(crate) reading: String,
    /// Records decided.
    pub(crate) position: u64,
    /// Line of the last of them.
    pub(crate) line: u64,
    /// Checksum of the input up to there.
    pub(crate) checksum: u32,
    /// Records rejected among them.
    pub(crate) rejected: u64,
    /// Whether the end of the input was reached.
    pub(crate) finished: bool,
}

/// A count in a column; SQLite's integers are signed, and no count here comes near the difference.
fn count(row: &Row<'_>, column: usize) -> Result<u64> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

/// The entry for `target`, if an ingest was ever begun.
pub(crate) fn find(connection: &Connection, target: &str) -> Result<Option<Entry>> {
    let known: bool = connection.query_row(
        "SELECT count(*) > 0 FROM sqlite_schema WHERE name = '_groupcommit_ingest'",
        [],
        |row| row.get(0),
    )?;
    if !known {
        return Ok(None);
    }
    connection
        .query_row(
            "SELECT id, source, reading, position, line, checksum, finished, \
             (SELECT count(*) FROM _groupcommit_rejects WHERE ingest = id) \
             FROM _groupcommit_ingest WHERE target = ?1",
            [target],
            |row| {
                Ok(Entry {
                    id: row.get(0)?,
                    source: row.get(1)?,
                    reading: row.get(2)?,
                    position: count(row, 3)?,
                    line: count(row, 4)?,
                    checksum: row.get(5)?,
                    finished: row.get(6)?,
                    rejected: count(row, 7)?,
                })
            },
        )
        .optional()
}

/// Begins an ingest into `target`, forgetting the one before.
pub(crate) fn begin(
    connection: &Connection,
    target: &str,
    source: &str,
    reading: &str,
) -> Result<Entry> {
    connection.execute_batch(SCHEMA)?;
    connection.execute(
        "DELETE FROM _groupcommit_rejects WHERE ingest IN (SELECT id FROM _groupcommit_ingest WHERE target = ?1)",
        [target],
    )?;
    connection.execute("DELETE FROM _groupcommit_ingest WHERE target = ?1", [target])?;
    let id = connection.query_row(
        "INSERT INTO _groupcommit_ingest (target, source, reading, position, line, checksum, finished) \
         VALUES (?1, ?2, ?3, 0, 0, 0, 0) RETURNING id",
        [target, source, reading],
        |row| row.get(0),
    )?;
    Ok(Entry {
        id,
        source: source.to_owned(),
        reading: reading.to_owned(),
        position: 0,
        line: 0,
        checksum: 0,
        rejected: 0,
        finished: false,
    })
}

/// Advances the position to this job's record; false if the record before is not the last one decided.
pub(crate) fn advance(connection: &Connection, id: i64, job: &Job) -> Result<bool> {
    let mut statement = connection.prepare_cached(ADVANCE)?;
    let changed = statement.execute(params![
        id,
        job.record.cast_signed(),
        job.line.cast_signed(),
        job.checksum
    ])?;
    Ok(changed == 1)
}

/// Keeps the verdict that this job's record is rejected.
pub(crate) fn reject(connection: &Connection, id: i64, job: &Job, reason: &str) -> Result<()> {
    connection.prepare_cached(REJECT)?.execute(params![
        id,
        job.record.cast_signed(),
        job.line.cast_signed(),
        reason,
        job.raw()
    ])?;
    Ok(())
}

/// Notes that the end of the input was reached at `position`; false if the position is another.
pub(crate) fn finish(connection: &Connection, id: i64, position: u64) -> Result<bool> {
    let changed = connection.execute(
        "UPDATE _groupcommit_ingest SET finished = 1 WHERE id = ?1 AND position = ?2",
        params![id, position.cast_signed()],
    )?;
    Ok(changed == 1)
}

/// A verdict as it was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reject {
    /// Number of the record, from 1.
    pub(crate) record: u64,
    /// Line on which it begins, from 1.
    pub(crate) line: u64,
    /// Why it was rejected.
    pub(crate) reason: String,
    /// The record as it stands in the input.
    pub(crate) content: String,
}

/// At most `count_max` verdicts behind record `after`, in order.
pub(crate) fn rejects(
    connection: &Connection,
    id: i64,
    after: u64,
    count_max: u32,
) -> Result<Vec<Reject>> {
    connection
        .prepare_cached(
            "SELECT record, line, reason, content FROM _groupcommit_rejects \
             WHERE ingest = ?1 AND record > ?2 ORDER BY record LIMIT ?3",
        )?
        .query_map(params![id, after.cast_signed(), count_max], |row| {
            Ok(Reject {
                record: count(row, 0)?,
                line: count(row, 1)?,
                reason: row.get(2)?,
                content: row.get(3)?,
            })
        })?
        .collect()
}
