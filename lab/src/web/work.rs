//! What a request asks of the database, and how long its queries take.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use groupcommit::sql::{Database, Engine, Statement, StatementsFailure, Value};

use crate::error::{Cause, LabError};
use crate::server::{failed, integer};
use crate::setting::{Queries, WebLoad};

/// Rows that queries look through.
const ITEMS: u32 = 60_000;

/// Characters of the text of a row.
const ITEM_CHARS: usize = 100;

/// Rows that updates change.
const COUNTERS: u32 = 10_000;

/// Less important queries of a request.
const LESS: usize = 3;

/// The shortest and the longest query, alone on an idle machine.
const SHORTEST: Duration = Duration::from_micros(200);
const LONGEST: Duration = Duration::from_millis(6);

/// Rows that one statement inserts.
const ROWS_AT_ONCE: u32 = 500;

/// The queries count rows of a range by a pattern that none has, so each looks at the whole text of
/// every row in it.
const WORK: &str =
    "SELECT count(*) FROM web_item WHERE id BETWEEN {1} AND {2} AND v LIKE '%a%b%c%#%'";

/// The name of the connections that are measured, on a server that has names for them.
pub(super) const NAME: &str = "groupcommit-lab-web";

/// One transaction.
const UPDATE: &str = "UPDATE web_counter SET n = n + 1 WHERE id = {1}";

/// Where requests go, in which words, over how many connections.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) url: String,
    pub(super) read: Arc<str>,
    pub(super) update: Arc<str>,
    pub(super) connections: usize,
}

impl Place {
    pub(super) fn new(url: &str, queries: Queries, connections: usize) -> Result<Self, Cause> {
        let engine = Engine::of_url(url)?;
        let read = match (queries, engine) {
            (Queries::Work, _) => WORK,
            // The sum of the two in microseconds.
            (Queries::Wait, Engine::Mysql) => "SELECT SLEEP(({1} + {2}) / 1000000)",
            (Queries::Wait, _) => "SELECT pg_sleep(({1}::bigint + {2}::bigint) / 1e6)",
        };
        let (read, update) = (written(engine, read).into(), written(engine, UPDATE).into());
        let joint = if url.contains('?') { '&' } else { '?' };
        let url = match engine {
            Engine::Postgres => format!("{url}{joint}application_name={NAME}"),
            _ => url.to_owned(),
        };
        Ok(Self { url, read, update, connections })
    }
}

/// A query's range of rows; where it waits, the time in microseconds, and 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) from: i64,
    pub(super) to: i64,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) important: Range,
    pub(super) less: [Range; LESS],
    pub(super) counter: i64,
}

/// The data are there, and it is known how long a row takes.
#[derive(Debug)]
pub(super) struct Work {
    ns_per_row: f64,
    seed: u64,
}

/// A statement with the engine's own placeholders.
fn statement(engine: Engine, sql: &str, params: &[i64]) -> Statement {
    Statement::new(written(engine, sql), params.iter().map(|&param| param.into()))
}

/// SQL with the engine's own placeholders.
fn written(engine: Engine, sql: &str) -> String {
    (1..=2).fold(sql.to_owned(), |sql, number| {
        sql.replace(&format!("{{{number}}}"), &engine.placeholder(number))
    })
}

impl Work {
    /// Creates the tables at `url`, and measures how long a row takes.
    pub(super) fn prepare(url: &str, seed: u64) -> Result<Self, LabError> {
        let failed = failed("prepare the data on", url);
        let database = Database::connect(url).map_err(|error| failed(error.into()))?;
        let prepared = fill(&database, seed).and_then(|()| ns_per_row(&database));
        let ns_per_row = prepared.map_err(|failure| failed(failure.into()))?;
        database.close().map_err(|error| failed(error.into()))?;
        Ok(Self { ns_per_row, seed })
    }

    /// So many requests, the same for every condition.
    pub(super) fn requests(&self, load: WebLoad, queries: Queries, count: usize) -> Vec<Request> {
        let mut random = fastrand::Rng::with_seed(self.seed.wrapping_add(4));
        (0..count)
            .map(|_| {
                let mut range = || {
                    let time = match load {
                        // So many at once would take minutes otherwise.
                        WebLoad::AtOnce => SHORTEST,
                        WebLoad::Normal | WebLoad::High => length(random.f64()),
                    };
                    if queries == Queries::Wait {
                        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
                        return Range { from: micros, to: 0 };
                    }
                    let rows = self.rows(time);
                    let from = random.u32(1..=ITEMS - rows + 1);
                    Range { from: from.into(), to: (from + rows - 1).into() }
                };
                let important = range();
                let less = std::array::from_fn(|_| range());
                Request { important, less, counter: random.u32(1..=COUNTERS).into() }
            })
            .collect()
    }

    /// Rows that take so long.
    fn rows(&self, time: Duration) -> u32 {
        let rows = time.as_nanos() as f64 / self.ns_per_row;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within the number of rows, which is small"
        )]
        let rows = rows.clamp(1.0, f64::from(ITEMS)) as u32;
        rows
    }
}

/// Updates that the counters hold.
pub(super) fn counted(url: &str) -> Result<u64, LabError> {
    let failed = failed("count the updates on", url);
    let database = Database::connect(url).map_err(|error| failed(error.into()))?;
    let sum = format!("SELECT CAST(sum(n) AS {}) FROM web_counter", integer(&database));
    let found =
        database.read(&Statement::new(sum, [])).map_err(|failure| failed(failure.into()))?;
    database.close().map_err(|error| failed(error.into()))?;
    Ok(match found.rows.first().and_then(|row| row.first()) {
        Some(Value::Int(sum)) => sum.cast_unsigned(),
        _ => 0,
    })
}

/// Lengths whose logarithm is distributed evenly: short ones are the many.
fn length(share: f64) -> Duration {
    let factor = LONGEST.as_secs_f64() / SHORTEST.as_secs_f64();
    SHORTEST.mul_f64(factor.powf(share))
}

fn fill(database: &Database, seed: u64) -> Result<(), StatementsFailure> {
    let key = if database.engine() == Engine::Sqlite { "INTEGER" } else { "BIGINT" };
    let run = |sql: String| database.exclusive(vec![Statement::new(sql, [])]).map(|_| ());
    run(format!("CREATE TABLE web_item (id {key} PRIMARY KEY, v TEXT NOT NULL)"))?;
    run(format!("CREATE TABLE web_counter (id {key} PRIMARY KEY, n BIGINT NOT NULL)"))?;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut item = || -> String { (0..ITEM_CHARS).map(|_| random.lowercase()).collect() };
    insert(database, "web_item (id, v)", ITEMS, || format!("'{}'", item()))?;
    insert(database, "web_counter (id, n)", COUNTERS, || "0".to_owned())?;
    match database.engine() {
        Engine::Postgres => run("VACUUM ANALYZE".to_owned()),
        Engine::Mysql => run("ANALYZE TABLE web_item".to_owned()),
        _ => Ok(()),
    }
}

fn insert(
    database: &Database,
    table: &str,
    rows: u32,
    mut value: impl FnMut() -> String,
) -> Result<(), StatementsFailure> {
    let mut from = 1;
    while from <= rows {
        let to = rows.min(from + ROWS_AT_ONCE - 1);
        let mut sql = format!("INSERT INTO {table} VALUES ");
        for id in from..=to {
            let comma = if id == from { "" } else { ", " };
            let _infallible = write!(sql, "{comma}({id}, {})", value());
        }
        database.transact(vec![Statement::new(sql, [])])?;
        from = to + 1;
    }
    Ok(())
}

/// The time of a long query less that of a short one, by the rows between them: the least of some,
/// which is the one that was least disturbed.
fn ns_per_row(database: &Database) -> Result<f64, StatementsFailure> {
    let read = |rows: i64| statement(database.engine(), WORK, &[1, rows]);
    let least_ns = |rows: i64| {
        let mut least_ns = f64::INFINITY;
        for _ in 0..15 {
            let began = Instant::now();
            database.read(&read(rows))?;
            least_ns = least_ns.min(began.elapsed().as_nanos() as f64);
        }
        Ok::<_, StatementsFailure>(least_ns)
    };
    let (short, long) = (1_000, 20_000);
    let ns = (least_ns(long)? - least_ns(short)?) / (long - short) as f64;
    Ok(ns.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_between_the_shortest_and_the_longest_and_the_same_every_time() {
        assert_eq!(length(0.0), SHORTEST);
        assert!((length(1.0).as_secs_f64() - LONGEST.as_secs_f64()).abs() < 1e-6);
        let work = Work { ns_per_row: 150.0, seed: 7 };
        let requests = work.requests(WebLoad::Normal, Queries::Work, 500);
        assert_eq!(requests, work.requests(WebLoad::High, Queries::Work, 500));
        let rows = |range: &Range| range.to - range.from + 1;
        for request in &requests {
            for range in request.less.iter().chain([&request.important]) {
                assert!((1_333..=40_000).contains(&rows(range)), "{range:?}");
                assert!(range.from >= 1 && range.to <= i64::from(ITEMS), "{range:?}");
            }
        }
        let at_once = work.requests(WebLoad::AtOnce, Queries::Work, 10);
        let waiting = work.requests(WebLoad::Normal, Queries::Wait, 500);
        for request in waiting {
            assert!((200..=6_000).contains(&request.important.from));
        }
        assert!(at_once.iter().all(|request| rows(&request.important) == 1_333));
    }
}
