//! Writers and readers on SQLite under the history checker.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use groupcommit::{
    Failure, Rejected, Ticket,
    sqlite::{Database, rusqlite},
};
use groupcommit_testkit::history::{self, Load, State, Store, Token};
use serde::{Deserialize, Serialize};

/// What a run came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HistoryRun {
    pub(crate) seconds: f64,
    pub(crate) writers: u64,
    pub(crate) readers: u64,
    pub(crate) rounds: u64,
    pub(crate) commits: u64,
    pub(crate) failed: u64,
    pub(crate) reads: u64,
    pub(crate) durable_reads: u64,
    pub(crate) reads_beside_commits: u64,
    pub(crate) violations: u64,
    pub(crate) flushes: u64,
    pub(crate) engine_commits: u64,
    pub(crate) wal_frames_max: u64,
    pub(crate) longest_write_ms: Vec<f64>,
    pub(crate) longest_read_ms: Vec<f64>,
}

/// Eight writers and eight readers.
pub(crate) fn load(time: Duration, writes_a_round: usize, seed: u64) -> Load {
    Load { writers: 8, readers: 8, cells: 32, writes_a_round, time, seed }
}

pub(crate) fn run(folder: &Path, load: &Load) -> Result<HistoryRun> {
    let store = SqliteStore::new(folder)?;
    let mut wal_frames_max = 0;
    let mut said = 0.0;
    let summary = history::drive(&store, load, |summary| {
        wal_frames_max = wal_frames_max.max(store.db.wal().frames);
        if summary.seconds - said > 10.0 {
            said = summary.seconds;
            let (commits, reads) = (summary.commits, summary.reads + summary.durable_reads);
            eprintln!("history: {said:.0} s, {commits} commits, {reads} reads, all explained");
        }
    })
    .context("the history cannot be explained: a promise is broken")?;
    let stats = store.db.stats();
    store.db.close()?;
    Ok(HistoryRun {
        seconds: summary.seconds,
        writers: load.writers as u64,
        readers: load.readers as u64,
        rounds: summary.rounds,
        commits: summary.commits,
        failed: summary.failed,
        reads: summary.reads,
        durable_reads: summary.durable_reads,
        reads_beside_commits: summary.reads_beside_commits,
        violations: 0,
        flushes: stats.flushes,
        engine_commits: stats.commits,
        wal_frames_max,
        longest_write_ms: summary.longest_write_ms,
        longest_read_ms: summary.longest_read_ms,
    })
}

struct SqliteStore {
    db: Database,
    /// Transactions that were durable before the first of the workload.
    before: u64,
}

/// Why a write fails.
#[derive(Debug)]
enum Stop {
    Asked,
    Sqlite(#[expect(dead_code, reason = "shown where a write fails")] rusqlite::Error),
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl SqliteStore {
    fn new(folder: &Path) -> Result<Self> {
        let db = Database::open(folder.join("history.db"))?;
        db.transact(|tx| {
            tx.execute_batch(
                "CREATE TABLE head (id INTEGER PRIMARY KEY, n INTEGER);
                 CREATE TABLE cell (id INTEGER PRIMARY KEY, token INTEGER, rest BLOB);
                 INSERT INTO head VALUES (0, 0);
                 WITH RECURSIVE c (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 31)
                 INSERT INTO cell SELECT i, 0, zeroblob(500) FROM c;",
            )
        })?;
        let before = db.stats().committed;
        Ok(Self { db, before })
    }
}

impl Store for SqliteStore {
    type Pending = Ticket<i64, Stop>;

    fn submit(&self, token: Token, cells: &[u16], fails: bool) -> Self::Pending {
        let cells = cells.to_vec();
        let token = token.cast_signed();
        self.db.submit(move |tx| {
            // The cells first: who saw a member half done would see them without the position.
            for cell in &cells {
                tx.execute(
                    "UPDATE cell SET token = ?1, rest = randomblob(500) WHERE id = ?2",
                    (token, cell),
                )?;
            }
            tx.execute("UPDATE head SET n = n + 1", ())?;
            if fails {
                return Err(Stop::Asked);
            }
            Ok(tx.query_row("SELECT n FROM head", (), |row| row.get(0))?)
        })
    }

    fn wait(&self, pending: Self::Pending) -> Option<u64> {
        match pending.wait() {
            Ok(position) => Some(position.cast_unsigned()),
            Err(Failure::Rejected(Rejected::Caller(Stop::Asked))) => None,
            Err(failure) => panic!("a write failed: {failure:?}"),
        }
    }

    fn read(&self, durable: bool) -> State {
        let read = |conn: &rusqlite::Connection| {
            let position: i64 =
                conn.prepare_cached("SELECT n FROM head")?.query_row((), |row| row.get(0))?;
            let mut cells = conn.prepare_cached("SELECT token FROM cell ORDER BY id")?;
            let cells = cells
                .query_map((), |row| row.get::<_, i64>(0).map(i64::cast_unsigned))?
                .collect::<rusqlite::Result<_>>()?;
            Ok::<_, rusqlite::Error>(State { position: position.cast_unsigned(), cells })
        };
        let seen = if durable { self.db.read_durable(read) } else { self.db.read(read) };
        seen.unwrap_or_else(|failure| panic!("a read failed: {failure:?}"))
    }

    fn durable(&self) -> u64 {
        self.db.stats().committed - self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_read_beside_eight_writers_is_explained() {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path(), &load(Duration::ZERO, 250, 7)).unwrap();
        assert_eq!((run.rounds, run.commits + run.failed), (1, 2_000));
        assert!(run.failed > 0 && run.reads > 0 && run.durable_reads > 0, "{run:?}");
    }
}
