//! Reading: a bounded pool of read-only connections, each closure in a snapshot of its own.
//!
//! Invariants:
//! 1. Every read finds a connection as it was opened. Where a read may have set something on one, that
//!    is closed instead of given back.
//! 2. Nobody waits for a connection who may keep others from giving theirs back. A thread that is
//!    inside a read, or inside a transaction for which a read may be waiting, is lent one beyond the
//!    bound, which is closed afterwards.

use std::{
    cell::Cell,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use groupcommit_core::Cause;
use rusqlite::{
    Connection, OpenFlags,
    hooks::{AuthAction, AuthContext, Authorization},
};

use crate::{connection::Configuration, ffi, guard, wal::Log};

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
    log: Arc<Log>,
    busy_timeout: Duration,
    max: usize,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Reader>,
    /// Connections that exist, idle or lent.
    open: usize,
    /// Threads that wait for one: only then is it worth a call of the system to wake one.
    waiting: usize,
    closed: bool,
}

#[derive(Debug)]
struct Reader {
    connection: Connection,
    /// As it was opened.
    configuration: Configuration,
    /// A pragma was prepared that may have set something.
    was_set: Arc<AtomicBool>,
}

impl Reader {
    fn close(self) {
        ffi::close(self.connection);
    }

    /// Whether one statement, of whatever kind, left the connection as it was opened.
    fn is_untouched(&self) -> bool {
        self.connection.is_autocommit() && !self.was_set.load(Relaxed)
    }

    /// Ends what a read left open; whether the connection is as it was opened.
    fn clean(&self) -> bool {
        let connection = &self.connection;
        ffi::reset_statements(connection);
        let ended = connection.is_autocommit() || run_prepared(connection, "ROLLBACK").is_ok();
        ended && !self.was_set.load(Relaxed) && self.configuration.is_of(connection)
    }
}

/// Why a closure could not be given a connection.
pub(crate) enum NoReader {
    Closed,
    /// The file at the path is no longer the database.
    Gone(Cause),
    Sqlite(rusqlite::Error),
}

impl Readers {
    /// A pool that opens its connections when they are first needed: two a core, but at least four,
    /// and at least `at_least`.
    pub(crate) fn new(
        path: PathBuf,
        log: Arc<Log>,
        busy_timeout: Duration,
        at_least: usize,
    ) -> Self {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            path,
            log,
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

    /// Runs `read` with one statement. It is a snapshot by itself, so no transaction is put around it.
    pub(crate) fn read_statement<T>(
        &self,
        sql: &str,
        read: impl FnOnce(&mut rusqlite::Statement<'_>) -> rusqlite::Result<T>,
    ) -> Result<rusqlite::Result<T>, NoReader> {
        let connection = self.borrow()?;
        connection.busy_timeout(self.busy_timeout).map_err(NoReader::Sqlite)?;
        let _inside = Inside::enter();
        let result = connection.prepare_cached(sql).and_then(|mut statement| read(&mut statement));
        connection.give_back_after_statement();
        Ok(result)
    }

    /// Refuses everything from now on and closes what is idle.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        state.idle.drain(..).for_each(Reader::close);
        self.returned.notify_all();
    }

    fn borrow(&self) -> Result<Lent<'_>, NoReader> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.closed {
                return Err(NoReader::Closed);
            }
            if let Some(reader) = state.idle.pop() {
                return Ok(Lent { readers: self, reader: Some(reader) });
            }
            if state.open < self.max || INSIDE.get() > 0 {
                state.open += 1;
                drop(state);
                // Holds the place; gives it back if opening fails.
                let mut lent = Lent { readers: self, reader: None };
                lent.reader = Some(self.open().map_err(NoReader::Sqlite)?);
                self.log.check_in_place().map_err(|error| NoReader::Gone(Arc::new(error)))?;
                return Ok(lent);
            }
            state.waiting += 1;
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    /// Wakes a thread that waits for a connection: one was returned, or may be opened.
    fn tell(&self, state: MutexGuard<'_, State>) {
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.returned.notify_one();
        }
    }

    fn open(&self) -> rusqlite::Result<Reader> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.path, flags)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
        let was_set = Arc::new(AtomicBool::new(false));
        let noticed = was_set.clone();
        connection
            .authorizer(Some(move |context: AuthContext<'_>| authorize(&context, &noticed)))?;
        Ok(Reader { configuration: Configuration::of(&connection), connection, was_set })
    }
}

/// Runs what every read runs, prepared once a connection: preparing it takes longer than a short read.
fn run_prepared(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute(()).map(|_| ())
}

/// Refuses what would reach beyond the database, and notices what may stay on the connection.
fn authorize(context: &AuthContext<'_>, was_set: &AtomicBool) -> Authorization {
    match context.action {
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => return Authorization::Deny,
        _ if guard::changes_temp(context) => return Authorization::Deny,
        AuthAction::Pragma { .. } if !guard::is_harmless_pragma(context) => {
            was_set.store(true, Relaxed);
        }
        _ => {}
    }
    Authorization::Allow
}

/// A connection that is lent out. Dropped without [`Lent::give_back`] (the closure panicked), it
/// is closed, and its place is free again.
struct Lent<'a> {
    readers: &'a Readers,
    reader: Option<Reader>,
}

impl std::ops::Deref for Lent<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        match &self.reader {
            Some(reader) => &reader.connection,
            None => unreachable!("a lent connection is there until it is given back"),
        }
    }
}

impl Lent<'_> {
    fn give_back(self) {
        self.give_back_if(Reader::clean);
    }

    /// As [`give_back`](Self::give_back), of one on which nothing but a statement was run.
    fn give_back_after_statement(self) {
        self.give_back_if(|reader| reader.is_untouched() || reader.clean());
    }

    fn give_back_if(mut self, is_as_opened: impl FnOnce(&Reader) -> bool) {
        let Some(reader) = self.reader.take_if(|reader| is_as_opened(reader)) else {
            return; // closed by dropping
        };
        let mut state = self.readers.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed || state.open > self.readers.max {
            drop(state);
            return reader.close();
        }
        state.idle.push(reader);
        self.readers.tell(state);
        // Its place is that of the idle connection now.
        std::mem::forget(self);
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.close();
        }
        let mut state = self.readers.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open -= 1;
        self.readers.tell(state);
    }
}
