//! Reading: a bounded pool of read-only connections, each closure in a snapshot of its own.
//!
//! Invariant: nobody waits for a connection who may keep others from giving theirs back. A thread
//! that is inside a read, or inside a transaction for which a read may be waiting, is lent one
//! beyond the bound, which is closed afterwards.

use std::{
    cell::Cell,
    path::PathBuf,
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use rusqlite::{
    Connection, OpenFlags,
    hooks::{AuthAction, AuthContext, Authorization},
};

use crate::ffi;

/// Statements that each reading connection keeps prepared.
const STATEMENTS_CACHED: usize = 64;

thread_local! {
    /// Reads and transactions, of any database, that this thread is inside of.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, this thread is inside a read or a transaction.
#[derive(Debug)]
pub(crate) struct Inside(());

impl Inside {
    pub(crate) fn enter() -> Self {
        INSIDE.set(INSIDE.get() + 1);
        Self(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(INSIDE.get() - 1);
    }
}

/// The read-only connections of one database.
#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    busy_timeout: Duration,
    max: usize,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Connection>,
    /// Connections that exist, idle or lent.
    open: usize,
    closed: bool,
}

/// Why a closure could not be given a connection.
pub(crate) enum NoReader {
    Closed,
    Sqlite(rusqlite::Error),
}

impl Readers {
    /// A pool that opens its connections when they are first needed: two a core, but at least four,
    /// and at least `at_least`.
    pub(crate) fn new(path: PathBuf, busy_timeout: Duration, at_least: usize) -> Self {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            path,
            busy_timeout,
            max: (2 * cores).max(4).max(at_least),
            state: Mutex::default(),
            returned: Condvar::new(),
        }
    }

    /// Runs `read` in a read transaction; waits while all connections are lent, unless that could
    /// be a wait for itself.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Connection) -> T) -> Result<T, NoReader> {
        let connection = self.borrow()?;
        let begun = connection
            .busy_timeout(self.busy_timeout)
            .and_then(|()| run_prepared(&connection, "BEGIN"));
        begun.map_err(NoReader::Sqlite)?;
        let _inside = Inside::enter();
        let value = read(&connection);
        connection.give_back();
        Ok(value)
    }

    /// Refuses everything from now on and closes what is idle.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        state.idle.drain(..).for_each(ffi::close);
        self.returned.notify_all();
    }

    fn borrow(&self) -> Result<Lent<'_>, NoReader> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.closed {
                return Err(NoReader::Closed);
            }
            if let Some(connection) = state.idle.pop() {
                return Ok(Lent { readers: self, connection: Some(connection) });
            }
            if state.open < self.max || INSIDE.get() > 0 {
                state.open += 1;
                drop(state);
                // Holds the place; gives it back if opening fails.
                let mut lent = Lent { readers: self, connection: None };
                lent.connection = Some(self.open().map_err(NoReader::Sqlite)?);
                return Ok(lent);
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.path, flags)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
        connection.authorizer(Some(|context: AuthContext<'_>| authorize(&context)))?;
        Ok(connection)
    }
}

/// Runs what every read runs, prepared once a connection: preparing it takes longer than a short read.
fn run_prepared(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute(()).map(|_| ())
}

/// Refuses what would stay on the connection for the next who borrows it.
fn authorize(context: &AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Attach { .. }
        | AuthAction::Detach { .. }
        | AuthAction::CreateTempIndex { .. }
        | AuthAction::CreateTempTable { .. }
        | AuthAction::CreateTempTrigger { .. }
        | AuthAction::CreateTempView { .. } => Authorization::Deny,
        _ => Authorization::Allow,
    }
}

/// A connection that is lent out. Dropped without [`Lent::give_back`] (the closure panicked), it
/// is closed, and its place is free again.
struct Lent<'a> {
    readers: &'a Readers,
    connection: Option<Connection>,
}

impl std::ops::Deref for Lent<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        match &self.connection {
            Some(connection) => connection,
            None => unreachable!("a lent connection is there until it is given back"),
        }
    }
}

impl Lent<'_> {
    fn give_back(mut self) {
        ffi::reset_statements(&self);
        let whole = self.is_autocommit() || run_prepared(&self, "ROLLBACK").is_ok();
        let Some(connection) = self.connection.take_if(|_| whole) else {
            return; // closed by dropping
        };
        let mut state = self.readers.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.closed && state.open <= self.readers.max {
            state.open += 1; // what dropping `self` takes away again
            state.idle.push(connection);
            return;
        }
        drop(state);
        ffi::close(connection);
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            ffi::close(connection);
        }
        let mut state = self.readers.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open -= 1;
        drop(state);
        self.readers.returned.notify_one();
    }
}
