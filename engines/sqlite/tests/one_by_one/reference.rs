//! The sequential model: each transaction alone, as a real transaction of SQLite's own, on a
//! connection of its own.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use groupcommit_sqlite::rusqlite::{self, Connection, config::DbConfig};

use crate::{
    End, content,
    steps::{Done, Member, Scope, Sql, Step, Stop, code, run_sql, run_steps},
};

struct Alone {
    connection: Connection,
    depth: Cell<u32>,
}

impl Scope for Alone {
    const IS_HOSTILE: bool = false;

    fn run_own(&self, sql: &Sql) -> rusqlite::Result<Done> {
        run_sql(&self.connection, sql)
    }

    fn forbidden(&self, _: &str, _: u8) -> rusqlite::Result<()> {
        // It may be interrupted before it is denied.
        self.connection.execute_batch("SELECT 1")?;
        let denied = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_AUTH);
        Err(rusqlite::Error::SqliteFailure(denied, None))
    }

    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn savepoint(&self, inner: &mut dyn FnMut(&Self) -> Result<(), Stop>) -> Result<(), Stop> {
        let rolled_back = || Err(Stop("rolled back".to_owned()));
        if self.connection.is_autocommit() {
            return rolled_back();
        }
        let depth = self.depth.replace(self.depth.get() + 1);
        self.connection.execute_batch(&format!("SAVEPOINT s{depth}"))?;
        let result = inner(self);
        self.depth.set(depth);
        if self.connection.is_autocommit() {
            return if result.is_ok() { rolled_back() } else { result };
        }
        if result.is_err() {
            self.connection.execute_batch(&format!("ROLLBACK TO s{depth}"))?;
        }
        self.connection.execute_batch(&format!("RELEASE s{depth}"))?;
        result
    }
}

fn run_alone(mut connection: Connection, member: &Member) -> End {
    let steps = match member {
        Member::Closure(steps) | Member::Cancelled(steps) | Member::Dropped(steps) => steps.clone(),
        Member::Endless(..) => unreachable!("it never completes"),
        Member::Exclusive(sql) => return run_exclusive(&connection, sql),
        Member::Data(statements) => {
            let run = |sql| Step::Run { sql, swallow: false };
            statements.iter().cloned().map(run).collect()
        }
    };
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    // What follows a statement that rolled the transaction back does not commit by itself.
    connection.commit_hook(Some(|| true)).unwrap();
    let switches_before = switches(&connection);
    let mut alone = Alone { connection, depth: Cell::new(0) };
    let mut records = Vec::new();
    let ran = catch_unwind(AssertUnwindSafe(|| run_steps(&alone, &steps, &mut records)));
    alone.connection.commit_hook(None::<fn() -> bool>).unwrap();
    let rolled_back = alone.connection.is_autocommit();
    let end = match ran {
        Err(_) => End::Panicked,
        Ok(Err(Stop(code))) => End::Failed(code),
        Ok(Ok(())) if rolled_back => End::Refused("rolled back".into()),
        Ok(Ok(())) if switches(&alone.connection) != switches_before => {
            End::Refused("configuration".into())
        }
        Ok(Ok(())) => match alone.connection.execute_batch("COMMIT") {
            Ok(()) => return End::Committed(records),
            Err(error) => match code(&error).as_str() {
                "787" => End::Refused("foreign key".into()), // SQLITE_CONSTRAINT_FOREIGNKEY
                other => End::Refused(other.into()),
            },
        },
    };
    if !alone.connection.is_autocommit() {
        alone.connection.execute_batch("ROLLBACK").unwrap();
    }
    end
}

/// The switches that a member may turn.
pub(crate) const SWITCHES: [DbConfig; 5] = [
    DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY,
    DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER,
    DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW,
    DbConfig::SQLITE_DBCONFIG_DEFENSIVE,
    DbConfig::SQLITE_DBCONFIG_DQS_DML,
];

fn switches(connection: &Connection) -> [bool; SWITCHES.len()] {
    SWITCHES.map(|switch| connection.db_config(switch).unwrap())
}

fn run_exclusive(connection: &Connection, sql: &str) -> End {
    let end = match connection.execute_batch(sql) {
        Err(error) => End::Failed(code(&error)),
        Ok(()) if !connection.is_autocommit() => End::Refused("left open".into()),
        Ok(()) => End::Committed(Vec::new()),
    };
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK").unwrap();
    }
    end
}

/// How each member ends for which `runs` holds, and what the database then holds. The others are
/// left out, as if they had never been submitted.
pub(crate) fn run(
    schema: &str,
    members: &[Member],
    runs: impl Fn(usize) -> bool,
) -> (Vec<Option<End>>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reference.db");
    let open = || {
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF").unwrap();
        connection
    };
    open().execute_batch(schema).unwrap();
    let ends = members
        .iter()
        .enumerate()
        .map(|(index, member)| runs(index).then(|| run_alone(open(), member)))
        .collect();
    (ends, content(&open()))
}
