//! Reads: single statements over a few connections that only read.
//!
//! 1. Never more than the set number of connections, however many read at once. A read that is given
//!    up keeps its place until the server has ended it, for which its successor is there already.
//! 2. A read that lost its connection before its first row is run once more on another.
//! 3. In a cluster a read waits until its node has all that was committed before.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use groupcommit_core::NotRun;
use groupcommit_server::runtime;
use groupcommit_statement::{Statement, StatementResult, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::{
    Error,
    session::{Answer, Connector, Session, Use, is_lost},
};

/// Rows that are decoded ahead of who takes them.
const ROWS_AHEAD: usize = 256;

/// The connections that reads share.
pub(crate) struct Readers {
    pool: Arc<Pool>,
}

struct Pool {
    connector: Connector,
    places: Arc<Semaphore>,
    idle: Mutex<Vec<Session>>,
    is_closed: AtomicBool,
}

/// A connection that one read has for itself.
struct Lent {
    pool: Arc<Pool>,
    session: Option<Session>,
    _place: OwnedSemaphorePermit,
}

impl Readers {
    pub(crate) fn new(connector: Connector, connections: usize) -> Self {
        let pool = Pool {
            connector,
            places: Arc::new(Semaphore::new(connections.max(1))),
            idle: Mutex::default(),
            is_closed: AtomicBool::new(false),
        };
        Self { pool: Arc::new(pool) }
    }

    pub(crate) fn close(&self) {
        self.pool.is_closed.store(true, Ordering::SeqCst);
        self.pool.places.close();
        self.pool.idle().clear();
    }

    /// Sends a read and returns its rows as they arrive.
    pub(crate) async fn stream(&self, read: &Statement) -> Result<Rows, Error> {
        let mut attempts_left = 1_u8;
        loop {
            let pool = self.pool.clone();
            let place = pool.places.clone().acquire_owned().await;
            let place = place.map_err(|_| Error::NotRun(NotRun::Closed))?;
            let read = read.clone();
            // Dropped with this future, which has the other end stop what nobody waits for.
            let (_waits, gone) = oneshot::channel::<()>();
            let begun = runtime::run(async move {
                tokio::select! {
                    biased;
                    begun = begin(pool, place, read) => begun,
                    _ = gone => Err(Error::NotRun(NotRun::Closed)),
                }
            });
            let begun = begun.await;
            match begun {
                Err(Error::Lost(_)) if attempts_left > 0 => {
                    // All may have been lost with their server.
                    self.pool.idle().clear();
                    attempts_left -= 1;
                }
                other => return other,
            }
        }
    }
}

impl Pool {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && !self.pool.is_closed.load(Ordering::SeqCst)
        {
            self.pool.idle().push(session);
        }
    }
}

/// Runs a read up to its columns; its rows follow.
async fn begin(
    pool: Arc<Pool>,
    place: OwnedSemaphorePermit,
    read: Statement,
) -> Result<Rows, Error> {
    let idle = pool.idle().pop();
    let mut session = match idle {
        Some(session) => session,
        None => pool.connector.connect_async(Use::Read).await?,
    };
    let template = pool.connector.template(&mut session, read.sql()).await;
    let mut lent = Lent { pool, session: Some(session), _place: place };
    if let Err(Error::Lost(_)) = &template {
        lent.session = None;
    }
    let template = template?;
    template.is_shared()?;
    let mut text = Vec::new();
    template.render(read.params(), &mut text)?;
    let (columns, columns_come) = oneshot::channel();
    let (rows, rows_come) = mpsc::channel(ROWS_AHEAD);
    tokio::spawn(serve(lent, text, columns, rows));
    match columns_come.await {
        Ok(Ok(columns)) => Ok(Rows { columns, rows: rows_come }),
        Ok(Err(error)) if is_lost(&error) => Err(Error::Lost(Some(error))),
        Ok(Err(error)) => Err(Error::Server(error)),
        Err(_) => Err(Error::Lost(None)),
    }
}

/// Passes on the rows of a read until there are no more, or nobody takes them.
async fn serve(
    mut lent: Lent,
    text: Vec<u8>,
    columns: oneshot::Sender<Answer<Vec<String>>>,
    rows: mpsc::Sender<Answer<Vec<Value>>>,
) {
    let Some(mut session) = lent.session.take() else { return };
    let connection = session.server.clone();
    let mut columns = Some(columns);
    let served = {
        let mut serving = pin!(session.stream(&text, &mut columns, &rows));
        tokio::select! {
            biased;
            served = &mut serving => served,
            () = rows.closed() => {
                let connected = lent.pool.connector.connect_async(Use::Read).await;
                if let Ok(mut next) = connected {
                    next.end_of(&connection).await;
                    lent.session = Some(next);
                }
                // To its end, or to that of its connection.
                serving.await
            }
        }
    };
    let is_usable =
        lent.session.is_none() && served.as_ref().err().is_none_or(|error| !is_lost(error));
    if let Err(error) = served {
        match columns.take() {
            Some(columns) => drop(columns.send(Err(error))),
            None => drop(rows.send(Err(error)).await),
        }
    }
    if is_usable {
        lent.session = Some(session);
    }
}

/// The rows of a read, as they arrive. It has a connection for itself until they are all taken or
/// this is dropped: so no more of these than there are connections
/// ([`Options::readers`](crate::Options::readers)), less one, may be kept open while one reads.
pub struct Rows {
    columns: Vec<String>,
    rows: mpsc::Receiver<Answer<Vec<Value>>>,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("columns", &self.columns).finish_non_exhaustive()
    }
}

impl Rows {
    /// The names of the columns.
    #[must_use]
    pub fn columns(&self) -> Vec<String> {
        self.columns.clone()
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
        match self.rows.recv().await {
            Some(Ok(row)) => Ok(Some(row)),
            Some(Err(error)) if is_lost(&error) => Err(Error::Lost(Some(error))),
            Some(Err(error)) => Err(Error::Server(error)),
            None => Ok(None),
        }
    }

    /// All rows that are left.
    pub(crate) async fn collect(mut self) -> Result<StatementResult, Error> {
        let mut result = StatementResult::default();
        while let Some(row) = self.next().await? {
            result.rows.push(row);
        }
        result.rows_affected = result.rows.len() as u64;
        result.columns = self.columns;
        Ok(result)
    }
}
