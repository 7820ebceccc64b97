//! Reads: single statements over a few connections that only read, pipelined when there are many.
//!
//! 1. Never more than the set number of connections, however many read at once; but for one that
//!    waits to be ended, whose successor is there already.
//! 2. A read that lost its connection before its first row is run once more on another.
//! 3. When all reads of a connection that are not at their end were given up, its process on the
//!    server is ended, and so are they. No read is ended for another's sake.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc, Mutex as StdMutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use futures_util::{Stream as _, future::join};
use groupcommit_core::NotRun;
use groupcommit_remote::{
    RowSource,
    lines::{self, Lines, Open as _, Refused},
    runtime,
};
use tokio::sync::Mutex;
use tokio_postgres::{Client, RowStream, Statement as Prepared};

use crate::{
    Error, Postgres, Statement, StatementResult, Value,
    session::{ONLY_READ, Process, RESET, Texts, is_lost},
    settle, statement,
    value::{Bound, Column},
};

/// Rows of a read that is given up of which the last may be here already.
const ROWS_AT_HAND_MAX: usize = 100;

/// Reads on their way over one connection, when there are so many.
const PIPELINED_MAX: usize = 16;

/// Opens connections for reads.
struct Door(Postgres);

impl lines::Open for Door {
    type Connection = Line;
    type Error = Error;

    const READS_MAX: usize = PIPELINED_MAX;

    async fn open(&self) -> Result<Line, Error> {
        let (client, process, may_set) = self.0.connect_for_reads().await?;
        Ok(Line {
            client,
            process,
            may_set,
            texts: Mutex::default(),
            is_stale: AtomicBool::new(false),
            reads: StdMutex::default(),
        })
    }

    fn is_usable(line: &Line) -> bool {
        !line.client.is_closed() && !line.reads().is_ending
    }
}

type Lent = lines::Lent<Door>;

/// A connection, and the reads on it.
struct Line {
    client: Client,
    process: Process,
    /// A read may change settings through a function.
    may_set: bool,
    texts: Mutex<Texts>,
    /// What is prepared may not fit the schema any more.
    is_stale: AtomicBool,
    reads: StdMutex<Reads>,
}

/// How many reads were sent on one connection and have not come to their end.
#[derive(Debug, Default)]
struct Reads {
    open: usize,
    /// Of these. Each keeps its claim to the connection, on which the server is still busy with it.
    given_up: Vec<Lent>,
    /// Nobody waits for any of them, and no other joins them: the connection is to be ended.
    is_ending: bool,
}

impl Line {
    fn reads(&self) -> std::sync::MutexGuard<'_, Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A read that was sent, and its claim to the connection.
struct Open {
    lines: Arc<Lines<Door>>,
    lent: Option<Lent>,
    is_at_end: bool,
}

impl Open {
    /// `None` where the connection is being ended.
    fn new(lines: Arc<Lines<Door>>, lent: Lent) -> Option<Self> {
        {
            let mut reads = lent.connection().reads();
            if reads.is_ending {
                return None;
            }
            reads.open += 1;
        }
        Some(Self { lines, lent: Some(lent), is_at_end: true })
    }

    /// No other read is to come behind it.
    fn retire(&self) {
        if let Some(lent) = &self.lent {
            lent.retire();
        }
    }

    /// What the server says of it; a connection that is lost serves no other.
    fn failed(&self, error: tokio_postgres::Error) -> Error {
        if is_lost(&error) {
            self.retire();
        }
        Error::Server(error)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let Some(lent) = self.lent.take() else { return };
        let line = lent.connection().clone();
        // Whatever calls back into the pool happens without the lock.
        let (mut over, mut given_up) = (None, None);
        if self.is_at_end {
            over = Some(lent);
        } else {
            lent.retire();
            given_up = Some(lent);
        }
        let ending = {
            let mut reads = line.reads();
            reads.open -= usize::from(over.is_some());
            reads.given_up.extend(given_up);
            let is_ending = !reads.given_up.is_empty() && reads.given_up.len() == reads.open;
            reads.is_ending |= is_ending;
            let ending = if is_ending { std::mem::take(&mut reads.given_up) } else { Vec::new() };
            reads.open -= ending.len();
            ending
        };
        drop(over);
        if !ending.is_empty()
            && let Ok(handle) = runtime::handle()
        {
            let lines = self.lines.clone();
            handle.spawn(async move { end(&lines, &line, ending).await });
        }
    }
}

/// Ends a connection all of whose reads were given up; another takes its place.
async fn end(lines: &Lines<Door>, line: &Line, given_up: Vec<Lent>) {
    let successor = match lines.opener().open().await {
        Ok(successor) => successor,
        Err(error) => {
            tracing::debug!(%error, "a read that was given up was left alone");
            // It keeps its place until it is over by itself: what is sent behind it is answered then.
            drop(line.client.batch_execute("").await);
            return;
        }
    };
    settle::end_async(&successor.client, &line.process, "").await;
    if let Some(lent) = given_up.into_iter().next() {
        lent.replace(successor);
    }
}

/// The connections that reads share.
pub struct Readers {
    lines: Arc<Lines<Door>>,
}

impl groupcommit_remote::Readers<Postgres> for Readers {
    fn new(protocol: Postgres, connections: usize) -> Self {
        Self { lines: Arc::new(Lines::new(Door(protocol), connections)) }
    }

    fn close(&self) {
        self.lines.close();
    }

    async fn stream(&self, read: &Statement) -> Result<PostgresRows, Error> {
        statement::check(read.sql())?;
        let mut attempts_left = 1_u8;
        loop {
            let lent = self.lines.take().await.map_err(|refused| match refused {
                Refused::Closed => Error::NotRun(NotRun::Closed),
                Refused::NotOpened(error) => Error::NotRun(NotRun::Unavailable(error)),
            })?;
            match self.send(lent, read).await {
                Err(Error::Server(error)) if is_lost(&error) && attempts_left > 0 => {
                    // All may have been lost with their server.
                    self.lines.forget_free();
                    attempts_left -= 1;
                }
                // Nothing was sent: the connection is being ended.
                Err(Error::Lost(None)) => {}
                other => return other,
            }
        }
    }

    async fn whole(&self, read: &Statement) -> Result<StatementResult, Error> {
        let mut attempts_left = 1_u8;
        loop {
            match self.stream(read).await?.collect().await {
                // No row was handed out.
                Err(Error::Server(error)) if is_lost(&error) && attempts_left > 0 => {
                    attempts_left -= 1;
                }
                other => return other,
            }
        }
    }
}

impl Readers {
    async fn send(&self, lent: Lent, read: &Statement) -> Result<PostgresRows, Error> {
        let line = lent.connection().clone();
        // Nothing is sent before.
        let mut texts = line.texts.lock().await;
        let open = Open::new(self.lines.clone(), lent);
        let Some(mut open) = open else { return Err(Error::Lost(None)) };
        if line.is_stale.swap(false, Ordering::Relaxed) {
            texts.forget();
        }
        // Given up from here on, it keeps the server busy.
        open.is_at_end = false;
        let prepared = texts.prepare(&line.client, read.sql()).await;
        open.is_at_end = true;
        drop(texts);
        let prepared = prepared?.map_err(|error| open.failed(error))?;
        let (expected, given) = (prepared.params().len(), read.params().len());
        if expected != given {
            return Err(Error::Parameters { expected, given });
        }
        if statement::may_set(read.sql()) {
            // No other read is to find the settings that it leaves.
            open.retire();
        }
        open.is_at_end = false;
        let params = read.params().iter().map(Bound);
        let read = line.client.query_raw(&prepared, params);
        let sent = if line.may_set {
            // Sent ahead of it, for what another read may have left.
            let reset = format!("{RESET}; {ONLY_READ}");
            let (reset, sent) = join(line.client.batch_execute(&reset), read).await;
            reset.and(sent)
        } else {
            read.await
        };
        match sent {
            Ok(stream) => Ok(PostgresRows { prepared, stream: Box::pin(stream), open }),
            Err(error) => {
                open.is_at_end = true;
                if !is_lost(&error) {
                    self.forget_prepared();
                }
                Err(open.failed(error))
            }
        }
    }

    /// The schema may have changed under what was prepared.
    fn forget_prepared(&self) {
        for line in self.lines.connections() {
            line.is_stale.store(true, Ordering::Relaxed);
        }
    }
}

/// The rows of a read, as they arrive. Other reads use other connections for as long as there are
/// any, and then queue behind these rows.
pub struct PostgresRows {
    prepared: Prepared,
    stream: Pin<Box<RowStream>>,
    open: Open,
}

impl Drop for PostgresRows {
    fn drop(&mut self) {
        // Often there is nothing left but the word that there is nothing left.
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..ROWS_AT_HAND_MAX {
            match self.stream.as_mut().poll_next(&mut cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(None | Some(Err(_))) => {
                    self.open.is_at_end = true;
                    return;
                }
                Poll::Pending => return,
            }
        }
    }
}

impl RowSource<Postgres> for PostgresRows {
    fn columns(&self) -> Vec<String> {
        self.prepared.columns().iter().map(|column| column.name().to_owned()).collect()
    }

    async fn next(&mut self) -> Result<Option<Vec<Value>>, Error> {
        let next = poll_fn(|cx| self.stream.as_mut().poll_next(cx)).await;
        if matches!(next, None | Some(Err(_))) {
            self.open.is_at_end = true;
        }
        let Some(row) = next.transpose().map_err(Error::Server)? else { return Ok(None) };
        let columns = self.prepared.columns().len();
        let values = (0..columns).map(|column| row.try_get(column).map(|Column(value)| value));
        values.collect::<Result<_, _>>().map(Some).map_err(Error::Server)
    }
}

impl PostgresRows {
    /// All rows that are left.
    async fn collect(mut self) -> Result<StatementResult, Error> {
        let columns = self.columns();
        let mut rows = Vec::new();
        while let Some(row) = self.next().await? {
            rows.push(row);
        }
        let mut result = StatementResult::default();
        result.rows_affected = rows.len() as u64;
        result.columns = columns;
        result.rows = rows;
        Ok(result)
    }
}
