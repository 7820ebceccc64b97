//! Reads: single statements, pipelined over a few connections that only read.
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
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use futures_util::Stream as _;
use groupcommit_core::NotRun;
use groupcommit_server::runtime;
use tokio::sync::Mutex;
use tokio_postgres::{Client, RowStream, Statement as Prepared};

use crate::{
    Error, Statement, StatementResult, Value,
    session::{Connector, Server, Session, is_lost},
    settle, statement,
    value::{Bound, Column},
};

/// Rows of a read that is given up of which the last may be here already.
const ROWS_AT_HAND_MAX: usize = 100;

/// One connection, made when it is needed.
#[derive(Default)]
struct Slot {
    line: Mutex<Option<Line>>,
    /// Reads whose rows are not all taken, or that wait for the connection.
    open: AtomicUsize,
}

/// A connection, and the reads on it.
struct Line {
    session: Session,
    reads: Arc<StdMutex<Reads>>,
}

/// How many reads were sent on one connection and have not come to their end.
#[derive(Debug, Default)]
struct Reads {
    open: usize,
    /// Of these.
    given_up: usize,
    /// Nobody waits for any of them, and no other joins them: the connection is to be ended.
    is_ending: bool,
}

impl Line {
    fn new(session: Session) -> Self {
        Self { session, reads: Arc::default() }
    }

    fn is_usable(&self) -> bool {
        !self.session.client.is_closed() && !lock(&self.reads).is_ending
    }
}

fn lock(reads: &StdMutex<Reads>) -> std::sync::MutexGuard<'_, Reads> {
    reads.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a read as open for as long as it exists.
struct Open {
    pool: Arc<Pool>,
    slot: usize,
    sent: Option<Sent>,
}

/// A read that was sent, and on which connection.
struct Sent {
    reads: Arc<StdMutex<Reads>>,
    server: Server,
    is_at_end: bool,
}

impl Open {
    fn at_end(&mut self) {
        if let Some(sent) = &mut self.sent {
            sent.is_at_end = true;
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.pool.slots[self.slot].open.fetch_sub(1, Ordering::Relaxed);
        let Some(sent) = self.sent.take() else { return };
        {
            let mut reads = lock(&sent.reads);
            if sent.is_at_end {
                reads.open -= 1;
            } else {
                reads.given_up += 1;
            }
            if reads.is_ending || reads.given_up == 0 || reads.given_up < reads.open {
                return;
            }
            reads.is_ending = true;
        }
        let (pool, slot) = (self.pool.clone(), self.slot);
        if let Ok(handle) = runtime::handle() {
            handle.spawn(async move { pool.end(slot, &sent).await });
        }
    }
}

/// The connections that reads share.
pub(crate) struct Readers {
    pool: Arc<Pool>,
}

struct Pool {
    connector: Connector,
    slots: Vec<Slot>,
    is_closed: AtomicBool,
}

impl Readers {
    pub(crate) fn new(connector: Connector, connections: usize) -> Self {
        let slots = (0..connections.max(1)).map(|_| Slot::default()).collect();
        Self { pool: Arc::new(Pool { connector, slots, is_closed: AtomicBool::new(false) }) }
    }

    pub(crate) fn close(&self) {
        self.pool.is_closed.store(true, Ordering::SeqCst);
        for slot in &self.pool.slots {
            if let Ok(mut line) = slot.line.try_lock() {
                line.take();
            }
        }
    }

    /// Sends a read and returns its rows as they arrive.
    pub(crate) async fn stream(&self, read: &Statement) -> Result<Rows, Error> {
        statement::check(read.sql())?;
        let mut attempts_left = 1_u8;
        loop {
            let (client, prepared, mut open) = match self.pool.prepared(read.sql()).await {
                Err(Error::Server(error)) if is_lost(&error) && attempts_left > 0 => {
                    attempts_left -= 1;
                    continue;
                }
                other => other?,
            };
            let (expected, given) = (prepared.params().len(), read.params().len());
            if expected != given {
                open.at_end();
                return Err(Error::Parameters { expected, given });
            }
            match client.query_raw(&prepared, read.params().iter().map(Bound)).await {
                Ok(stream) => return Ok(Rows { prepared, stream: Box::pin(stream), open }),
                Err(error) if is_lost(&error) && attempts_left > 0 => {
                    open.at_end();
                    attempts_left -= 1;
                }
                Err(error) => {
                    open.at_end();
                    self.pool.forget_prepared().await;
                    return Err(Error::Server(error));
                }
            }
        }
    }
}

impl Pool {
    /// The connection with the fewest open reads, with the statement prepared on it.
    async fn prepared(
        self: &Arc<Self>,
        sql: &Arc<str>,
    ) -> Result<(Arc<Client>, Prepared, Open), Error> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(Error::NotRun(NotRun::Closed));
        }
        let load = |slot: &usize| self.slots[*slot].open.load(Ordering::Relaxed);
        let slot = (0..self.slots.len()).min_by_key(load).unwrap_or_default();
        self.slots[slot].open.fetch_add(1, Ordering::Relaxed);
        let mut open = Open { pool: self.clone(), slot, sent: None };
        let mut place = self.slots[slot].line.lock().await;
        let line = match place.take() {
            Some(line) if line.is_usable() => place.insert(line),
            _ => place.insert(Line::new(self.connect().await?)),
        };
        let prepared = match line.session.prepare_async(sql).await {
            Ok(prepared) => prepared,
            Err(error) => {
                if matches!(&error, Error::Server(error) if is_lost(error)) {
                    place.take();
                }
                return Err(error);
            }
        };
        lock(&line.reads).open += 1;
        let (reads, server) = (line.reads.clone(), line.session.server.clone());
        open.sent = Some(Sent { reads, server, is_at_end: false });
        let client = line.session.client.clone();
        if statement::may_set(sql) {
            // No other read is to find the settings that it leaves: the connection ends with it.
            place.take();
        }
        Ok((client, prepared, open))
    }

    /// Ends a connection all of whose reads were given up; another takes its place.
    async fn end(&self, slot: usize, old: &Sent) {
        let mut place = self.slots[slot].line.lock().await;
        if place.as_ref().is_some_and(|line| Arc::ptr_eq(&line.reads, &old.reads)) {
            place.take();
        }
        match self.connect().await {
            Ok(session) => {
                settle::end_async(&session, &old.server, "").await;
                if place.is_none() && !self.is_closed.load(Ordering::SeqCst) {
                    *place = Some(Line::new(session));
                }
            }
            Err(error) => tracing::debug!(%error, "a read that was given up was left alone"),
        }
    }

    async fn connect(&self) -> Result<Session, Error> {
        let connector = self.connector.clone();
        runtime::run(async move {
            let session = connector.connect_async().await?;
            let read_only = "SET default_transaction_read_only = on";
            session.client.batch_execute(read_only).await.map_err(Error::Server)?;
            Ok(session)
        })
        .await
    }

    /// The schema may have changed under what was prepared.
    async fn forget_prepared(&self) {
        for slot in &self.slots {
            if let Some(line) = &mut *slot.line.lock().await {
                line.session.forget_prepared();
            }
        }
    }
}

/// The rows of a read, as they arrive. Other reads use other connections for as long as there are
/// any; behind rows that are not taken they wait. So no more of these than there are connections
/// ([`Options::readers`](crate::Options::readers)), less one, may be kept open while one reads.
pub struct Rows {
    prepared: Prepared,
    stream: Pin<Box<RowStream>>,
    open: Open,
}

impl Drop for Rows {
    fn drop(&mut self) {
        // Often there is nothing left but the word that there is nothing left.
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..ROWS_AT_HAND_MAX {
            match self.stream.as_mut().poll_next(&mut cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(None | Some(Err(_))) => return self.open.at_end(),
                Poll::Pending => return,
            }
        }
    }
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("columns", &self.columns()).finish_non_exhaustive()
    }
}

impl Rows {
    /// The names of the columns.
    #[must_use]
    pub fn columns(&self) -> Vec<String> {
        self.prepared.columns().iter().map(|column| column.name().to_owned()).collect()
    }

    /// The next row; `None` when there are no more.
    ///
    /// # Errors
    ///
    /// What the server says, or that the connection was lost.
    ///
    /// # Cancel safety
    ///
    /// No row is lost when the future is dropped before it is ready.
    pub async fn next(&mut self) -> Result<Option<Vec<Value>>, Error> {
        let next = poll_fn(|cx| self.stream.as_mut().poll_next(cx)).await;
        if matches!(next, None | Some(Err(_))) {
            self.open.at_end();
        }
        let Some(row) = next.transpose().map_err(Error::Server)? else { return Ok(None) };
        let columns = self.prepared.columns().len();
        let values = (0..columns).map(|column| row.try_get(column).map(|Column(value)| value));
        values.collect::<Result<_, _>>().map(Some).map_err(Error::Server)
    }

    /// All rows that are left.
    pub(crate) async fn collect(mut self) -> Result<StatementResult, Error> {
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
