//! One transaction that fails among a thousand that are submitted at once, on a server.

use anyhow::{Context, Result, bail, ensure};
use groupcommit::{
    Outcome,
    sql::{Database, Engine, Statement, Value},
};

use crate::on_servers::Rejected;

const TRANSACTIONS: u64 = 1_000;

/// The table, which nobody else has.
const TABLE: &str = "groupcommit_probe_rejected";

pub(super) fn measure(url: &str) -> Result<Rejected> {
    let db = Database::connect(url)?;
    let without = outcomes(&db, None)?;
    ensure!(
        (without.committed, without.failed) == (TRANSACTIONS, 0),
        "without a failure, all are committed"
    );
    // In the middle, after a row of its own: the group has to be undone and run again.
    let with = outcomes(&db, Some(TRANSACTIONS / 2))?;
    ensure!(with.rows == with.committed, "{} rows of {} committed", with.rows, with.committed);
    db.exclusive(vec![Statement::new(format!("DROP TABLE {TABLE}"), [])])?;
    db.close()?;
    let Outcomes { committed, failed, rows, commits } = with;
    let commits_without = without.commits;
    Ok(Rejected { transactions: TRANSACTIONS, committed, failed, rows, commits, commits_without })
}

struct Outcomes {
    committed: u64,
    failed: u64,
    rows: u64,
    /// With that of the one that held the others up, which some may have joined.
    commits: u64,
}

/// Submits all at once to an empty table; the failing one fails after it has written a row of its own.
fn outcomes(db: &Database, failing: Option<u64>) -> Result<Outcomes> {
    let run = |sql: String| db.exclusive(vec![Statement::new(sql, [])]);
    run(format!("DROP TABLE IF EXISTS {TABLE}"))?;
    run(format!("CREATE TABLE {TABLE} (k BIGINT PRIMARY KEY)"))?;
    // Holds the database up: what is submitted meanwhile is queued.
    let sleep = match db.engine() {
        Engine::Postgres => "SELECT pg_sleep(0.2)",
        Engine::Mysql => "SELECT SLEEP(0.2)",
        other => bail!("{other} is on no server"),
    };
    let commits_before = db.stats().commits;
    let first = db.submit(vec![Statement::new(sleep, [])]);
    let sql: std::sync::Arc<str> =
        format!("INSERT INTO {TABLE} (k) VALUES ({})", db.engine().placeholder(1)).into();
    let tickets: Vec<_> = (0..TRANSACTIONS)
        .map(|n| {
            let insert = Statement::new(sql.clone(), [Value::Int(n.cast_signed())]);
            let times = if failing == Some(n) { 2 } else { 1 };
            db.submit(vec![insert; times])
        })
        .collect();
    first.wait()?;
    let mut found = Outcomes { committed: 0, failed: 0, rows: 0, commits: 0 };
    for ticket in tickets {
        match Outcome::of(&ticket.wait()) {
            Outcome::Committed => found.committed += 1,
            Outcome::Rejected => found.failed += 1,
            other => bail!("a transaction came to {}", other.as_str()),
        }
    }
    found.commits = db.stats().commits - commits_before;
    let count = db.read(&Statement::new(format!("SELECT count(*) FROM {TABLE}"), []))?;
    let count = count.rows.first().and_then(|row| row.first()).context("a count has a row")?;
    let Value::Int(rows) = count else { bail!("a count is a number, and not {count:?}") };
    found.rows = rows.cast_unsigned();
    Ok(found)
}
