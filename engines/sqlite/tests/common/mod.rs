//! What the integration tests share: scratch databases, groups that are certain to be one group,
//! and a look at the file through a plain connection.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::{
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver, Sender},
};

use groupcommit_sqlite::{
    Database, Error, Failure, Rejected, Ticket, Transaction,
    rusqlite::{self, Connection, ErrorCode},
};
use tempfile::TempDir;

/// What a closure without a type of its own returns.
pub(crate) type Done<T = ()> = Result<T, rusqlite::Error>;

/// A database in a folder of its own.
pub(crate) struct Scratch {
    pub(crate) db: Database,
    pub(crate) path: PathBuf,
    folder: TempDir,
}

impl Scratch {
    /// A database with `schema`.
    pub(crate) fn new(schema: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.db");
        let db = Database::open(&path).unwrap();
        let schema = schema.to_owned();
        db.exclusive(move |conn| conn.execute_batch(&schema)).unwrap();
        Self { db, path, folder }
    }

    /// With `CREATE TABLE t (id INTEGER PRIMARY KEY, v)`.
    pub(crate) fn with_table() -> Self {
        Self::new("CREATE TABLE t (id INTEGER PRIMARY KEY, v)")
    }

    /// Closes this and opens it again.
    pub(crate) fn reopen(self) -> Self {
        let Self { db, path, folder } = self;
        db.close().ok(); // fails where the database had failed before
        let db = Database::open(&path).unwrap();
        Self { db, path, folder }
    }

    /// Leaves the folder to the caller, who removes it; to drop the database before its tickets.
    pub(crate) fn keep_folder(mut self) -> Self {
        self.folder.disable_cleanup(true);
        self
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn wal_path(&self) -> PathBuf {
        self.path.with_extension("db-wal")
    }

    /// A connection that knows nothing of groupcommit.
    pub(crate) fn plain(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    /// Submits a transaction into one group, between neighbours that insert 1 and 2 into table `t`.
    /// They commit; what it came to itself is returned.
    pub(crate) fn between_neighbours<T, E>(
        &self,
        submit: impl FnOnce(&Database) -> Ticket<T, E>,
    ) -> Result<T, Failure<E>>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let held = hold(&self.db);
        let before = neighbour(&self.db, 1);
        let ticket = submit(&self.db);
        let after = neighbour(&self.db, 2);
        held.release().wait().unwrap();
        assert_eq!(before.wait().unwrap(), 1);
        let result = ticket.wait();
        assert_eq!(after.wait().unwrap(), 1);
        result
    }

    /// The ids of table `t`, read by a connection that knows nothing of groupcommit.
    pub(crate) fn ids(&self) -> Vec<i64> {
        ids(&self.plain())
    }
}

pub(crate) fn ids(connection: &Connection) -> Vec<i64> {
    let mut statement = connection.prepare("SELECT id FROM t ORDER BY id").unwrap();
    let rows = statement.query_map((), |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

pub(crate) fn insert(tx: &Transaction, id: i64) -> Done<usize> {
    tx.execute("INSERT INTO t (id, v) VALUES (?1, 'v')", [id])
}

/// A member that inserts one row, as a neighbour of others.
pub(crate) fn neighbour(db: &Database, id: i64) -> Ticket<usize, rusqlite::Error> {
    db.submit(move |tx| insert(tx, id))
}

/// A transaction that is being executed until it is released: what is submitted meanwhile waits,
/// and then goes into one group.
pub(crate) struct Held {
    release: Sender<()>,
    pub(crate) ticket: Ticket<(), rusqlite::Error>,
}

pub(crate) fn hold(db: &Database) -> Held {
    let (started, has_started) = mpsc::channel();
    let (release, released): (_, Receiver<()>) = mpsc::channel();
    let ticket = db.submit(move |_| {
        started.send(()).unwrap();
        released.recv().unwrap();
        Ok(())
    });
    has_started.recv().unwrap();
    Held { release, ticket }
}

impl Held {
    pub(crate) fn release(self) -> Ticket<(), rusqlite::Error> {
        self.release.send(()).unwrap();
        self.ticket
    }
}

/// SQLite's code of the closure's own error, or of the engine's.
pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, Failure<rusqlite::Error>>) -> ErrorCode {
    let text = format!("{result:?}");
    let error = match result {
        Err(Failure::Rejected(Rejected::Caller(error))) => error.sqlite_error_code(),
        Err(Failure::Rejected(Rejected::Engine(cause))) => {
            cause.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code)
        }
        ref other => panic!("expected to be rejected by SQLite, got {other:?}"),
    };
    error.unwrap_or_else(|| panic!("an error that is not SQLite's: {text}"))
}

/// The error with which the engine rejected a closure that had returned a value.
pub(crate) fn rejected_by_engine<T: std::fmt::Debug, E: std::fmt::Debug>(
    result: &Result<T, Failure<E>>,
) -> &Error {
    match result {
        Err(Failure::Rejected(Rejected::Engine(cause))) => {
            cause.downcast_ref().unwrap_or_else(|| panic!("another error: {cause:?}"))
        }
        other => panic!("expected to be rejected by the engine, got {other:?}"),
    }
}
