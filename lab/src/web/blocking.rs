//! Blocking clients: one thing after the other, on a connection a request or on one of a pool; and
//! the same clients behind a bounded bridge.

use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use groupcommit_bridge::{Bridge, Connect, Limits};

use crate::client::Blocking;
use crate::error::Cause;
use crate::web::asynchronous::Asynchronous;
use crate::web::work::{Place, Range, Request};

/// Answers a request on one connection.
pub(super) fn answer<B: Blocking>(
    connection: &mut B,
    place: &Place,
    request: &Request,
    answered: &mut dyn FnMut(),
) -> Result<(), Cause> {
    let read = |connection: &mut B, range: Range| {
        connection.run(&place.read, &[range.from, range.to], None).map(drop)
    };
    read(connection, request.important)?;
    answered();
    connection.run(&place.update, &[request.counter], None)?;
    request.less.iter().try_for_each(|&range| read(connection, range))
}

/// Connections that requests borrow.
pub(super) struct Pool<B> {
    place: Place,
    state: Mutex<State<B>>,
    returned: Condvar,
}

struct State<B> {
    idle: Vec<B>,
    open: usize,
}

impl<B: Blocking> Pool<B> {
    pub(super) fn new(place: &Place) -> Self {
        let state = Mutex::new(State { idle: Vec::new(), open: 0 });
        Self { place: place.clone(), state, returned: Condvar::new() }
    }

    pub(super) fn answer(
        &self,
        request: &Request,
        answered: &mut dyn FnMut(),
    ) -> Result<(), Cause> {
        let mut connection = self.borrow()?;
        let result = answer::<B>(&mut connection, &self.place, request, answered);
        self.state.lock().unwrap_or_else(PoisonError::into_inner).idle.push(connection);
        self.returned.notify_one();
        result
    }

    fn borrow(&self) -> Result<B, Cause> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(connection) = state.idle.pop() {
                return Ok(connection);
            }
            if state.open < self.place.connections {
                state.open += 1;
                drop(state);
                // A request that fails ends the measurement.
                return B::connect(&self.place.url);
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// How a bridge connects a blocking client.
struct Door<B> {
    url: String,
    client: PhantomData<fn() -> B>,
}

/// The failure of a connection, as an error type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotConnected(#[source] Cause);

impl<B: Blocking> Connect for Door<B> {
    type Connection = B;
    type Error = NotConnected;

    fn connect(&self) -> Result<B, NotConnected> {
        B::connect(&self.url).map_err(NotConnected)
    }
}

/// A blocking client behind a bounded bridge.
pub(super) struct Bridged<B: Blocking> {
    bridge: Bridge<Door<B>>,
    place: Place,
}

impl<B: Blocking> Bridged<B> {
    pub(super) fn new(place: &Place) -> Arc<Self> {
        let limits = Limits { connections: place.connections, ..Limits::default() };
        let door = Door { url: place.url.clone(), client: PhantomData };
        Arc::new(Self { bridge: Bridge::new(door, limits), place: place.clone() })
    }
}

impl<B: Blocking> Asynchronous for Bridged<B> {
    async fn read(&self, range: Range) -> Result<(), Cause> {
        let sql = self.place.read.clone();
        let read = move |connection: &mut B| connection.run(&sql, &[range.from, range.to], None);
        self.bridge.call(read).await?.map(drop)
    }

    async fn update(&self, counter: i64) -> Result<(), Cause> {
        let sql = self.place.update.clone();
        let update = move |connection: &mut B| connection.run(&sql, &[counter], None);
        self.bridge.call(update).await?.map(drop)
    }

    fn close(&self) -> Result<(), Cause> {
        self.bridge.close();
        Ok(())
    }
}
