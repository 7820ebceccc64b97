//! Blocking clients: one thing after the other, on a connection a request or on one of a pool; and
//! the same clients behind a bounded bridge.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use groupcommit_bridge::{Bridge, Connect, Limits};

use crate::error::Cause;
use crate::web::asynchronous::Asynchronous;
use crate::web::work::{Range, Request};

/// A blocking client of a database.
pub(super) trait Blocking: Send + Sync + 'static {
    type Connection: Send + 'static;

    fn connect(&self) -> Result<Self::Connection, Cause>;

    fn read(connection: &mut Self::Connection, range: Range) -> Result<(), Cause>;

    fn update(connection: &mut Self::Connection, counter: i64) -> Result<(), Cause>;
}

/// Answers a request on one connection.
pub(super) fn answer<B: Blocking>(
    connection: &mut B::Connection,
    request: &Request,
    answered: &mut dyn FnMut(),
) -> Result<(), Cause> {
    B::read(connection, request.important)?;
    answered();
    B::update(connection, request.counter)?;
    request.less.iter().try_for_each(|&range| B::read(connection, range))
}

/// Connections that requests borrow.
pub(super) struct Pool<B: Blocking> {
    client: B,
    state: Mutex<State<B>>,
    returned: Condvar,
    most: usize,
}

struct State<B: Blocking> {
    idle: Vec<B::Connection>,
    open: usize,
}

impl<B: Blocking> Pool<B> {
    pub(super) fn new(client: B, most: usize) -> Self {
        let state = Mutex::new(State { idle: Vec::new(), open: 0 });
        Self { client, state, returned: Condvar::new(), most }
    }

    pub(super) fn answer(
        &self,
        request: &Request,
        answered: &mut dyn FnMut(),
    ) -> Result<(), Cause> {
        let mut connection = self.borrow()?;
        let result = answer::<B>(&mut connection, request, answered);
        self.state.lock().unwrap_or_else(PoisonError::into_inner).idle.push(connection);
        self.returned.notify_one();
        result
    }

    fn borrow(&self) -> Result<B::Connection, Cause> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(connection) = state.idle.pop() {
                return Ok(connection);
            }
            if state.open < self.most {
                state.open += 1;
                drop(state);
                // A request that fails ends the measurement.
                return self.client.connect();
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// How a bridge connects a blocking client.
struct Door<B>(B);

/// The failure of a connection, as an error type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotConnected(#[source] Cause);

impl<B: Blocking> Connect for Door<B> {
    type Connection = B::Connection;
    type Error = NotConnected;

    fn connect(&self) -> Result<B::Connection, NotConnected> {
        self.0.connect().map_err(NotConnected)
    }
}

/// A blocking client behind a bounded bridge.
pub(super) struct Bridged<B: Blocking>(Bridge<Door<B>>);

impl<B: Blocking> Bridged<B> {
    pub(super) fn new(client: B, connections: usize) -> Arc<Self> {
        let limits = Limits { connections, ..Limits::default() };
        Arc::new(Self(Bridge::new(Door(client), limits)))
    }
}

impl<B: Blocking> Asynchronous for Bridged<B> {
    async fn read(&self, range: Range) -> Result<(), Cause> {
        self.0.call(move |connection| B::read(connection, range)).await?
    }

    async fn update(&self, counter: i64) -> Result<(), Cause> {
        self.0.call(move |connection| B::update(connection, counter)).await?
    }

    fn close(&self) -> Result<(), Cause> {
        self.0.close();
        Ok(())
    }
}
