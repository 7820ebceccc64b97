//! The servers that the tests share, and a database of its own for each test.

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

use groupcommit_mysql::{Database, Statement};
pub(crate) use groupcommit_testkit::remote::ids;
use groupcommit_testkit::servers::{
    Life,
    mysql::{self, Kind, Servers},
    or_skip,
    proxy::{Marks, Proxy},
};

/// Starts servers that end with this process.
pub(crate) fn start(kind: Kind) -> Servers {
    or_skip(mysql::start(kind, Life::Process)).unwrap_or_else(|| std::process::exit(0))
}

/// The server that most tests share.
pub(crate) fn shared() -> &'static Servers {
    static SHARED: OnceLock<Servers> = OnceLock::new();
    SHARED.get_or_init(|| start(Kind::Single))
}

/// The cluster that tests share which stop none of its nodes.
pub(crate) fn cluster() -> &'static Servers {
    static SHARED: OnceLock<Servers> = OnceLock::new();
    SHARED.get_or_init(|| start(Kind::Galera))
}

/// A proxy before the server at `port` that knows this engine's groups.
pub(crate) fn proxy(port: u16) -> Proxy {
    let marks = Marks { begin: b"START TRANSACTION\n;SAVEPOINT", commit: b"\n;COMMIT" };
    Proxy::new(port, marks).unwrap()
}

/// A new database on `servers`, with the table `t`; its URL, for a client that connects to `hosts`.
pub(crate) fn database_through(servers: &Servers, hosts: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("test_{count}");
    servers
        .sql(&format!(
            "CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin; \
             CREATE TABLE {name}.t (id BIGINT PRIMARY KEY, v TEXT NOT NULL)"
        ))
        .unwrap();
    format!("mysql://root@{hosts}/{name}")
}

pub(crate) fn at(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

pub(crate) fn database() -> String {
    database_through(shared(), &at(shared().port(0)))
}

/// Opens a new database.
pub(crate) fn open() -> Database {
    Database::open(&database()).unwrap()
}

pub(crate) fn insert(id: i64) -> Statement {
    groupcommit_testkit::remote::insert::<crate::conformance::Engine>(id)
}

/// Each attempt left a row, whatever came of it; few are kept.
pub(crate) fn has_a_short_record(servers: &Servers, url: &str) {
    let name = url.rsplit('/').next().unwrap();
    let rows = servers.sql(&format!("SELECT count(*) FROM {name}.groupcommit_outcome")).unwrap();
    assert!(rows.trim().parse::<u32>().unwrap() <= 20, "{rows}");
}
