//! Writers and readers on SQLite under the history checker.

use std::time::Duration;

use groupcommit_sqlite::{Database, Failure, Rejected, Ticket, rusqlite};
use groupcommit_testkit::history::{self, Load, State, Store, Summary, Token};
use serde::Serialize;

use crate::{long_form, number, say};

/// What a run came to.
#[derive(Debug, Serialize)]
struct HistoryRun {
    writers: usize,
    readers: usize,
    #[serde(flatten)]
    summary: Summary,
    violations: u64,
    flushes: u64,
    engine_commits: u64,
    wal_frames_max: u64,
}

#[test]
fn every_read_beside_eight_writers_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("history.db")).unwrap();
    let store = SqliteStore::new(db);
    let load = Load {
        writers: 8,
        readers: 8,
        cells: 32,
        writes_a_round: if long_form().is_some() { 5_000 } else { 250 },
        time: long_form().unwrap_or(Duration::ZERO),
        seed: number("GROUPCOMMIT_ENDURE_SEED").unwrap_or(7),
    };
    let mut wal_frames_max = 0;
    let summary = history::drive(&store, &load, |_| {
        wal_frames_max = wal_frames_max.max(store.db.wal().frames);
    })
    .unwrap_or_else(|violation| panic!("a promise is broken: {violation}"));
    let stats = store.db.stats();
    store.db.close().unwrap();
    let written = load.writers * load.writes_a_round;
    assert_eq!(summary.commits + summary.failed, summary.rounds * written as u64);
    assert!(summary.failed > 0 && summary.reads > 0 && summary.durable_reads > 0, "{summary:?}");
    let run = HistoryRun {
        writers: load.writers,
        readers: load.readers,
        summary,
        violations: 0,
        flushes: stats.flushes,
        engine_commits: stats.commits,
        wal_frames_max,
    };
    say("history", &run);
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
    fn new(db: Database) -> Self {
        db.transact(|tx| {
            tx.execute_batch(
                "CREATE TABLE head (id INTEGER PRIMARY KEY, n INTEGER);
                 CREATE TABLE cell (id INTEGER PRIMARY KEY, token INTEGER, rest BLOB);
                 INSERT INTO head VALUES (0, 0);
                 WITH RECURSIVE c (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 31)
                 INSERT INTO cell SELECT i, 0, zeroblob(500) FROM c;",
            )
        })
        .unwrap();
        let before = db.stats().committed;
        Self { db, before }
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
