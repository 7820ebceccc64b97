//! Reads: single statements, pipelined over a few connections that only read.
//!
//! 1. Never more than the set number of connections, however many read at once.
//! 2. A read that lost its connection before its first row is run once more on another.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use futures_util::Stream as _;
use groupcommit_core::NotRun;
use groupcommit_server::runtime;
use tokio::sync::Mutex;
use tokio_postgres::{Client, RowStream, Statement as Prepared};

use crate::{
    Error, Statement, StatementResult, Value,
    session::{Connector, Session, is_lost},
    statement,
    value::{Bound, Column},
};

/// One connection, made when it is needed.
#[derive(Default)]
struct Slot {
    session: Mutex<Option<Session>>,
    /// Reads whose rows are not all taken.
    open: Arc<AtomicUsize>,
}

/// Counts a read as open for as long as it exists.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(open.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The connections that reads share.
pub(crate) struct Readers {
    connector: Connector,
    slots: Vec<Slot>,
    is_closed: AtomicBool,
}

impl Readers {
    pub(crate) fn new(connector: Connector, connections: usize) -> Self {
        let slots = (0..connections.max(1)).map(|_| Slot::default()).collect();
        Self { connector, slots, is_closed: AtomicBool::new(false) }
    }

    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        for slot in &self.slots {
            if let Ok(mut session) = slot.session.try_lock() {
                session.take();
            }
        }
    }

    /// Sends a read and returns its rows as they arrive.
    pub(crate) async fn stream(&self, read: &Statement) -> Result<Rows, Error> {
        statement::check(read.sql())?;
        let mut attempts_left = 1_u8;
        loop {
            let (client, prepared, open) = match self.prepared(read.sql()).await {
                Err(Error::Server(error)) if is_lost(&error) && attempts_left > 0 => {
                    attempts_left -= 1;
                    continue;
                }
                other => other?,
            };
            let (expected, given) = (prepared.params().len(), read.params().len());
            if expected != given {
                return Err(Error::Parameters { expected, given });
            }
            match client.query_raw(&prepared, read.params().iter().map(Bound)).await {
                Ok(stream) => return Ok(Rows { prepared, stream: Box::pin(stream), _open: open }),
                Err(error) if is_lost(&error) && attempts_left > 0 => {
                    attempts_left -= 1;
                }
                Err(error) => {
                    self.forget_prepared().await;
                    return Err(Error::Server(error));
                }
            }
        }
    }

    /// The connection with the fewest open reads, with the statement prepared on it.
    async fn prepared(&self, sql: &Arc<str>) -> Result<(Arc<Client>, Prepared, Open), Error> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(Error::NotRun(NotRun::Closed));
        }
        let least = self.slots.iter().min_by_key(|slot| slot.open.load(Ordering::Relaxed));
        let Some(least) = least else { return Err(Error::NotRun(NotRun::Closed)) };
        let open = Open::new(&least.open);
        let mut slot = least.session.lock().await;
        let mut session = match slot.take() {
            Some(session) if !session.client.is_closed() => session,
            _ => self.connect().await?,
        };
        let prepared = session.prepare_async(sql).await;
        let client = session.client.clone();
        if !matches!(&prepared, Err(Error::Server(error)) if is_lost(error)) {
            *slot = Some(session);
        }
        Ok((client, prepared?, open))
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
            if let Some(session) = &mut *slot.session.lock().await {
                session.forget_prepared();
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
    _open: Open,
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
