//! Reads: single statements over a few connections that only read.
//!
//! 1. Never more than the set number of connections, however many read at once. A read that is given
//!    up keeps its place until the server has ended it, for which its successor is there already.
//! 2. A read that lost its connection before anything of it was handed out is run once more on another.
//! 3. In a cluster a read waits until its node has all that was committed before.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use groupcommit_core::NotRun;
use groupcommit_remote::{
    RowSource,
    lines::{self, Lines, Refused},
    runtime,
};
use groupcommit_statement::{Statement, StatementResult, Value};
use tokio::sync::{mpsc, oneshot};

use crate::{
    Error, MySql,
    connect::Use,
    session::{Answer, Failed, Server, Session, is_lost},
};

/// Rows that are decoded ahead of who takes them.
const ROWS_AHEAD: usize = 256;

/// Opens connections for reads.
struct Door(MySql);

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
    protocol: MySql,
    line: lines::Lent<Door>,
    /// `None` while it is asked something, and for good when it is lost.
    session: Option<Session>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        *self.line.connection().place() = self.session.take();
    }
}

impl Lent {
    /// Asks the server something.
    ///
    /// # Cancel safety
    ///
    /// Dropping it has the server end what it was asked.
    async fn ask<T, F>(mut self, ask: impl FnOnce(Session) -> F) -> Result<(Self, T), Error>
    where
        T: Send + 'static,
        F: Future<Output = (Session, Result<T, Error>)> + Send + 'static,
    {
        let session = self.session.take().ok_or(Error::Lost(None))?;
        let server = session.server.clone();
        let question = Box::pin(ask(session));
        let (lent, answer) = Asked { open: Some(Open { lent: self, question }), server }.await;
        Ok((lent, answer?))
    }

    /// Gives the connection back; `successor` in its place, if there is one.
    fn give_back(mut self, successor: Option<Session>) {
        self.session = successor.or(self.session.take());
    }

    /// Takes the connection back from a question, if it is good for another.
    fn answered<T>(&mut self, session: Session, answer: &Result<T, Error>) {
        if !matches!(answer, Err(Error::Lost(_))) {
            self.session = Some(session);
        }
    }
}

type Question<T> = Pin<Box<dyn Future<Output = (Session, Result<T, Error>)> + Send>>;

/// A question that the server has not answered yet.
struct Open<T> {
    lent: Lent,
    question: Question<T>,
}

/// Waits for the answer to a question.
struct Asked<T: Send + 'static> {
    /// `None` once it is answered.
    open: Option<Open<T>>,
    server: Server,
}

impl<T: Send + 'static> Future for Asked<T> {
    type Output = (Lent, Result<T, Error>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(open) = &mut self.open else { unreachable!("it was answered") };
        let (session, answer) = ready!(open.question.as_mut().poll(cx));
        let Some(Open { mut lent, .. }) = self.open.take() else { unreachable!("it was there") };
        lent.answered(session, &answer);
        Poll::Ready((lent, answer))
    }
}

impl<T: Send + 'static> Drop for Asked<T> {
    /// Nobody waits any more.
    fn drop(&mut self) {
        let Some(Open { mut lent, question }) = self.open.take() else { return };
        let server = self.server.clone();
        // Without a thread all connections are closed.
        let Ok(handle) = runtime::handle() else { return };
        handle.spawn(async move {
            let successor = end(&lent.protocol, server).await;
            // To its end, or to that of its connection.
            let (session, answer) = question.await;
            lent.answered(session, &answer);
            lent.give_back(successor);
        });
    }
}

/// The connections that reads share.
pub struct Readers {
    lines: Lines<Door>,
}

impl groupcommit_remote::Readers<MySql> for Readers {
    fn new(protocol: MySql, connections: usize) -> Self {
        Self { lines: Lines::new(Door(protocol), connections) }
    }

    fn close(&self) {
        self.lines.close();
    }

    async fn stream(&self, read: &Statement) -> Result<MySqlRows, Error> {
        let mut has_lost = false;
        loop {
            match begin(self.take().await?, read).await {
                Err(Error::Lost(_)) if !has_lost => has_lost = self.note_loss(),
                other => return other,
            }
        }
    }

    /// The caller's own thread takes the rows from the connection.
    async fn whole(&self, read: &Statement) -> Result<StatementResult, Error> {
        let mut has_lost = false;
        loop {
            match whole(self.take().await?, read).await {
                Err(Error::Lost(_)) if !has_lost => has_lost = self.note_loss(),
                other => return other,
            }
        }
    }
}

impl Readers {
    async fn take(&self) -> Result<Lent, Error> {
        let line = self.lines.take().await.map_err(|refused| match refused {
            Refused::Closed => Error::NotRun(NotRun::Closed),
            Refused::NotOpened(error) => Error::NotRun(NotRun::Unavailable(error)),
        })?;
        let session = line.connection().place().take();
        Ok(Lent { protocol: self.lines.opener().0.clone(), line, session })
    }

    /// All connections may have been lost with their server.
    fn note_loss(&self) -> bool {
        self.lines.forget_free();
        true
    }
}

/// The text of a read, for a connection that it has for itself.
async fn render(lent: Lent, read: &Statement) -> Result<(Lent, Vec<u8>), Error> {
    let (protocol, sql) = (lent.protocol.clone(), read.sql().clone());
    let asked = lent.ask(|mut session| async move {
        let template = protocol.template(&mut session, &sql).await;
        (session, template)
    });
    let (lent, template) = asked.await?;
    template.is_shared()?;
    let mut text = Vec::new();
    template.render(read.params(), &mut text)?;
    Ok((lent, text))
}

/// Runs a read to its end.
async fn whole(lent: Lent, read: &Statement) -> Result<StatementResult, Error> {
    let (lent, text) = render(lent, read).await?;
    let asked = lent.ask(|mut session| async move {
        let mut result = StatementResult::default();
        let ran = session.run(&text, |_, found| result = found).await;
        (session, ran.map(|()| result).map_err(|Failed { error, .. }| Error::of_server(error)))
    });
    Ok(asked.await?.1)
}

/// Runs a read up to its columns; its rows follow.
async fn begin(lent: Lent, read: &Statement) -> Result<MySqlRows, Error> {
    let (lent, text) = render(lent, read).await?;
    let (columns, columns_come) = oneshot::channel();
    let (rows, rows_come) = mpsc::channel(ROWS_AHEAD);
    let (over, is_over) = oneshot::channel();
    // Goes on when nobody takes its rows any more, to end it.
    runtime::near()?.spawn(serve(lent, text, columns, rows, over));
    match columns_come.await {
        Ok(Ok(columns)) => Ok(MySqlRows { columns, arriving: rows_come, over: Some(is_over) }),
        Ok(Err(error)) => Err(Error::of_server(error)),
        Err(_) => Err(Error::Lost(None)),
    }
}

/// Ends what a connection does that nobody waits for any more; another takes its place.
async fn end(protocol: &MySql, connection: Server) -> Option<Session> {
    let protocol = protocol.clone();
    let connected = runtime::run_apart(async move {
        let mut next = protocol.connect_async(Use::Read).await?;
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
    rows: mpsc::Sender<Vec<Value>>,
    over: oneshot::Sender<Answer<()>>,
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
                lent.session = end(&lent.protocol, connection).await;
                // To its end, or to that of its connection.
                serving.await
            }
        }
    };
    let is_usable =
        lent.session.is_none() && served.as_ref().err().is_none_or(|error| !is_lost(error));
    // Whoever asked may have gone.
    match (served, columns.take()) {
        (Err(error), Some(columns)) => drop(columns.send(Err(error))),
        (served, _) => drop(over.send(served)),
    }
    if is_usable {
        lent.session = Some(session);
    }
}

/// The rows of a read, as they arrive. It has a connection to itself until the last one is taken or
/// this is dropped.
pub struct MySqlRows {
    columns: Vec<String>,
    arriving: mpsc::Receiver<Vec<Value>>,
    /// How it ended, which is said before there are no more rows; `None` once it was told.
    over: Option<oneshot::Receiver<Answer<()>>>,
}

impl RowSource<MySql> for MySqlRows {
    fn columns(&self) -> Vec<String> {
        self.columns.clone()
    }

    async fn next(&mut self) -> Result<Option<Vec<Value>>, Error> {
        if let Some(row) = self.arriving.recv().await {
            return Ok(Some(row));
        }
        match self.over.take().map(|mut over| over.try_recv()) {
            None | Some(Ok(Ok(()))) => Ok(None),
            Some(Ok(Err(error))) => Err(Error::of_server(error)),
            // Whoever served it ended before it did: its runtime was shut down.
            Some(Err(_)) => Err(Error::Lost(None)),
        }
    }
}
