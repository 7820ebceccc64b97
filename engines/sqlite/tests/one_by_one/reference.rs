//! The sequential model: each transaction alone, as a real transaction of SQLite's own, on a
//! connection of its own.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use groupcommit_sqlite::rusqlite::Connection;

use crate::{
    End, content,
    steps::{Member, Scope, Step, Stop, run_steps},
};

struct Alone {
    connection: Connection,
    depth: Cell<u32>,
}

impl Scope for Alone {
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
        Member::Closure(steps) => steps.clone(),
        Member::Data(statements) => {
            let run = |sql| Step::Run { sql, swallow: false };
            statements.iter().cloned().map(run).collect()
        }
    };
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    // What follows a statement that rolled the transaction back does not commit by itself.
    connection.commit_hook(Some(|| true)).unwrap();
    let mut alone = Alone { connection, depth: Cell::new(0) };
    let mut records = Vec::new();
    let ran = catch_unwind(AssertUnwindSafe(|| run_steps(&alone, &steps, &mut records)));
    alone.connection.commit_hook(None::<fn() -> bool>).unwrap();
    let rolled_back = alone.connection.is_autocommit();
    let end = match ran {
        Err(_) => End::Panicked,
        Ok(Err(Stop(code))) => End::Failed(code),
        Ok(Ok(())) if rolled_back => End::Refused("rolled back".into()),
        Ok(Ok(())) => match alone.connection.execute_batch("COMMIT") {
            Ok(()) => return End::Committed(records),
            Err(error) => {
                let code = error.sqlite_error().unwrap().extended_code;
                assert_eq!(code, 787, "SQLITE_CONSTRAINT_FOREIGNKEY");
                End::Refused("foreign key".into())
            }
        },
    };
    if !rolled_back {
        alone.connection.execute_batch("ROLLBACK").unwrap();
    }
    end
}

/// How each member ends, and what the database then holds.
pub(crate) fn run(schema: &str, members: &[Member]) -> (Vec<End>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reference.db");
    let open = || {
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF").unwrap();
        connection
    };
    open().execute_batch(schema).unwrap();
    let ends = members.iter().map(|member| run_alone(open(), member)).collect();
    (ends, content(&open()))
}
