//! Loading many rows: the same write path, with a chunk of rows in each transaction.

use std::time::{Duration, Instant};

use groupcommit_core::{Failure, Terms, Ticket};

use crate::{Database, Value, statement::Bound};

/// Rows in one transaction of a load, unless their bytes reach [`CHUNK_BYTES`] first.
const CHUNK_ROWS: usize = 10_000;

/// Bytes of rows in one transaction of a load.
const CHUNK_BYTES: usize = 4 << 20;

/// How far a load has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadProgress {
    /// Rows that are durable.
    pub rows_durable: u64,
    /// Time since the load began.
    pub elapsed: Duration,
}

/// Why a load stopped. The rows before the failing chunk are in the database.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadError {
    /// Rows, from the first on, that are durable.
    pub rows_durable: u64,
    /// What came of the chunk of rows after those.
    pub failure: Failure<rusqlite::Error>,
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the load stopped; its first {} rows are durable, those after them are not there",
            self.rows_durable
        )?;
        if matches!(self.failure, Failure::Unknown(_)) {
            f.write_str(" or unknown")?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.failure)
    }
}

impl Database {
    /// Runs `sql`, an insert, once for every row, and returns the number of rows, all durable.
    ///
    /// Rows travel in chunks, each a transaction of its own, so other transactions go on between
    /// them; there is one statement for all and no closure, ticket or result for a row. `progress`
    /// is called after every chunk that became durable.
    ///
    /// # Durability
    ///
    /// When it returns, every row is durable. A load that stops leaves whole chunks.
    ///
    /// # Errors
    ///
    /// The first chunk that fails ends the load; [`LoadError::rows_durable`] says where to go on.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let db = groupcommit_sqlite::Database::open(folder.path().join("app.db"))?;
    /// db.exclusive(|conn| conn.execute_batch("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)"))?;
    /// let rows = (0..20_000_i64).map(|k| vec![k.into(), format!("row {k}").into()]);
    /// let loaded = db.load("INSERT INTO t VALUES (?1, ?2)", rows, |progress| {
    ///     eprintln!("{} rows are durable", progress.rows_durable);
    /// })?;
    /// assert_eq!(loaded, 20_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn load(
        &self,
        sql: &str,
        rows: impl IntoIterator<Item = Vec<Value>>,
        mut progress: impl FnMut(LoadProgress),
    ) -> Result<u64, LoadError> {
        let began = Instant::now();
        let mut rows = rows.into_iter();
        let mut rows_durable = 0;
        let mut running: Option<Ticket<u64, rusqlite::Error>> = None;
        loop {
            // Collected while the chunk before it runs, but submitted only after that is durable:
            // a load that stops leaves no hole.
            let chunk = collect_chunk(&mut rows);
            if let Some(ticket) = running.take() {
                match ticket.wait() {
                    Ok(rows) => rows_durable += rows,
                    Err(failure) => return Err(LoadError { rows_durable, failure }),
                }
                progress(LoadProgress { rows_durable, elapsed: began.elapsed() });
            }
            if chunk.is_empty() {
                return Ok(rows_durable);
            }
            running = Some(self.submit_chunk(sql, chunk));
        }
    }

    fn submit_chunk(&self, sql: &str, chunk: Vec<Vec<Value>>) -> Ticket<u64, rusqlite::Error> {
        let bytes = chunk.iter().flatten().map(Value::bytes).sum();
        let sql = sql.to_owned();
        self.with(Terms::new().bytes(bytes)).submit(move |tx| {
            tx.assume_trace(); // the rows before the one that fails
            tx.with_statement(&sql, |insert| {
                for row in &chunk {
                    insert.execute(rusqlite::params_from_iter(row.iter().map(Bound)))?;
                }
                Ok(chunk.len() as u64)
            })
        })
    }
}

fn collect_chunk(rows: &mut impl Iterator<Item = Vec<Value>>) -> Vec<Vec<Value>> {
    let mut chunk = Vec::new();
    let mut bytes = 0;
    while chunk.len() < CHUNK_ROWS && bytes < CHUNK_BYTES {
        let Some(row) = rows.next() else { break };
        bytes += row.iter().map(Value::bytes).sum::<usize>();
        chunk.push(row);
    }
    chunk
}
