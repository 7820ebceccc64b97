//! The servers that the tests share, and a schema of its own for each test.

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

use groupcommit_postgres::{Database, Statement};
pub(crate) use groupcommit_testkit::remote::ids;
use groupcommit_testkit::servers::{
    Life, or_skip,
    postgres::{self, Kind, Servers},
    proxy::{Marks, Proxy},
};

/// Starts servers that end with this process.
pub(crate) fn start(kind: Kind) -> Servers {
    or_skip(postgres::start(kind, Life::Process)).unwrap_or_else(|| std::process::exit(0))
}

/// The server that most tests share.
pub(crate) fn shared() -> &'static Servers {
    static SHARED: OnceLock<Servers> = OnceLock::new();
    SHARED.get_or_init(|| start(Kind::Single))
}

/// A proxy before the server at `port` that knows this engine's groups.
pub(crate) fn proxy(port: u16) -> Proxy {
    let marks = Marks { begin: b"BEGIN\0", commit: b"THEN 0 ELSE 1 END; COMMIT\0" };
    Proxy::new(port, marks).unwrap()
}

/// A new schema on `servers`, with the table `t`; its URL, for a client that connects to `port`.
pub(crate) fn schema_through(servers: &Servers, port: u16) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("test_{}_{count}", std::process::id());
    let sql = format!(
        "CREATE SCHEMA {name}; CREATE TABLE {name}.t (id bigint PRIMARY KEY, v text NOT NULL)"
    );
    servers.sql(&sql).unwrap();
    format!("postgres://postgres@127.0.0.1:{port}/postgres?options=-c%20search_path%3D{name}")
}

pub(crate) fn schema() -> String {
    schema_through(shared(), shared().port())
}

/// Opens a database in a new schema.
pub(crate) fn open() -> Database {
    Database::open(&schema()).unwrap()
}

pub(crate) fn insert(id: i64) -> Statement {
    groupcommit_testkit::remote::insert::<crate::conformance::Engine>(id)
}
