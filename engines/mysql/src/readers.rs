//! Reads: single statements over a few connections that only read.
//!
//! 1. Never more than the set number of connections, however many read at once. A read that is given
//!    up keeps its place until the server has ended it, for which its successor is there already.
//! 2. A read that lost its connection before its first row is run once more on another.
//! 3. In a cluster a read waits until its node has all that was committed before.

use std::{
    pin::pin,
    sync::{Mutex, PoisonError},
};

use groupcommit_core::NotRun;
use groupcommit_server::{
    lines::{self, Lines, Refused},
    runtime,
};
use groupcommit_statement::{Statement, StatementResult, Value};
use tokio::sync::{mpsc, oneshot};

use crate::{
    Error,
    session::{Answer, Connector, Server, Session, Use, is_lost},
};

/// Rows that are decoded ahead of who takes them.
const ROWS_AHEAD: usize = 256;

/// Opens connections for reads.
struct Door(Connector);

impl lines::Open for Door {
    type Connection = Line;
    type Error = Error;

    // An answer is read to its end before the next question is sent.
    const READS_MAX: usize = 1;

    async fn open(&self) -> Result<Line, Error> {
        Ok(Line(Mutex::new(Some(self.0.connect_async(Use::Read).await?))))
    }

    fn is_usable(line: &Line) -> bool {
        line.place().is_some()
    }
}

/// A connection, while no read has it; `None` for good when one has lost it.
struct Line(Mutex<Option<Session>>);

impl Line {
    fn place(&self) -> std::sync::MutexGuard<'_, Option<Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that one read has for itself.
struct Lent {
    connector: Connector,
    line: lines::Lent<Door>,
    session: Option<Session>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        *self.line.connection().place() = self.session.take();
    }
}

/// The connections that reads share.
pub(crate) struct Readers {
    lines: Lines<Door>,
}

impl Readers {
    pub(crate) fn new(connector: Connector, connections: usize) -> Self {
        Self { lines: Lines::new(Door(connector), connections) }
    }

    pub(crate) fn close(&self) {
        self.lines.close();
    }

    /// Sends a read and returns its rows as they arrive.
    pub(crate) async fn stream(&self, read: &Statement) -> Result<Rows, Error> {
        let mut attempts_left = 1_u8;
        loop {
            let line = self.lines.take().await.map_err(|refused| match refused {
                Refused::Closed => Error::NotRun(NotRun::Closed),
                Refused::NotOpened(error) => Error::NotRun(NotRun::Unavailable(error)),
            })?;
            let session = line.connection().place().take();
            let lent = Lent { connector: self.lines.opener().0.clone(), line, session };
            let read = read.clone();
            // Dropped with this future, which has the other end stop what nobody waits for.
            let (_waits, gone) = oneshot::channel::<()>();
            match runtime::run(begin(lent, read, gone)).await {
                Err(Error::Lost(_)) if attempts_left > 0 => {
                    // All may have been lost with their server.
                    self.lines.forget_free();
                    attempts_left -= 1;
                }
                other => return other,
            }
        }
    }
}

/// Runs a read up to its columns; its rows follow.
async fn begin(
    mut lent: Lent,
    read: Statement,
    mut gone: oneshot::Receiver<()>,
) -> Result<Rows, Error> {
    let Some(mut session) = lent.session.take() else { return Err(Error::Lost(None)) };
    let connection = session.server.clone();
    let template = {
        let mut asking = pin!(lent.connector.template(&mut session, read.sql()));
        tokio::select! {
            biased;
            template = &mut asking => template,
            _ = &mut gone => {
                let successor = end(&lent.connector, connection).await;
                // To its end, or to that of its connection.
                drop(asking.await);
                lent.session = successor;
                return Err(Error::NotRun(NotRun::Closed));
            }
        }
    };
    if !matches!(template, Err(Error::Lost(_))) {
        lent.session = Some(session);
    }
    let template = template?;
    template.is_shared()?;
    let mut text = Vec::new();
    template.render(read.params(), &mut text)?;
    let (columns, columns_come) = oneshot::channel();
    let (rows, rows_come) = mpsc::channel(ROWS_AHEAD);
    tokio::spawn(serve(lent, text, columns, rows));
    let columns = tokio::select! {
        biased;
        columns = columns_come => columns,
        // Nobody takes rows then, which ends it.
        _ = gone => return Err(Error::NotRun(NotRun::Closed)),
    };
    match columns {
        Ok(Ok(columns)) => Ok(Rows { columns, rows: rows_come }),
        Ok(Err(error)) if is_lost(&error) => Err(Error::Lost(Some(error))),
        Ok(Err(error)) => Err(Error::Server(error)),
        Err(_) => Err(Error::Lost(None)),
    }
}

/// Ends what a connection does that nobody waits for any more; another takes its place.
async fn end(connector: &Connector, connection: Server) -> Option<Session> {
    let connector = connector.clone();
    let connected = runtime::run_apart(async move {
        let mut next = connector.connect_async(Use::Read).await?;
        next.end_of(&connection).await;
        Ok::<_, Error>(next)
    });
    connected.await.ok()
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
                lent.session = end(&lent.connector, connection).await;
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
