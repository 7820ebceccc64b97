//! Promise 4: a group of random transactions comes to the same results, and leaves the same
//! database, as the same transactions run one at a time by SQLite itself.
//!
//! `PROPTEST_CASES` sets the number of cases; [`hostile`] has transactions that are worse than random.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;
mod generate;
mod giants;
mod hostile;
mod reference;
mod steps;
mod wide;

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use groupcommit_sqlite::{
    Database, Error, Failure, NotRun, Rejected, StatementResult, Terms, Ticket,
    rusqlite::{self, Connection},
};
use proptest::prelude::*;

use crate::{
    common::{Scratch, hold},
    generate::{members, schema},
    steps::{Done, Member, Record, Step, Stop, code, run_steps},
};

/// What became of a member.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum End {
    Committed(Vec<Record>),
    /// Its own error, by SQLite's extended code.
    Failed(String),
    /// It completed, and was then refused.
    Refused(String),
    Panicked,
    /// It had no effect, because it was cancelled or its deadline passed.
    NotRun,
    /// Nobody waited for it.
    Unseen,
}

enum Submitted {
    Closure(Ticket<Vec<Record>, Stop>),
    Data(Vec<steps::Sql>, Ticket<Vec<StatementResult>, rusqlite::Error>),
    Dropped,
    Exclusive(Result<(), Failure<rusqlite::Error>>),
}

fn submit(db: &Database, member: &Member) -> Submitted {
    let closure = |terms: Terms, steps: Vec<Step>, last: Option<&'static str>| {
        db.with(terms).submit(move |tx| {
            let mut records = Vec::new();
            run_steps(&*tx, &steps, &mut records)?;
            if let Some(endless) = last {
                tx.execute_batch(endless)?;
            }
            Ok(records)
        })
    };
    match member.clone() {
        Member::Closure(steps) => Submitted::Closure(closure(Terms::new(), steps, None)),
        Member::Endless(steps, sql) => {
            let terms = Terms::new().deadline(Duration::from_millis(20));
            Submitted::Closure(closure(terms, steps, Some(sql)))
        }
        Member::Cancelled(steps) => {
            let ticket = closure(Terms::new(), steps, None);
            // It may have run already; its outcome tells.
            let _too_late = !ticket.cancel();
            Submitted::Closure(ticket)
        }
        Member::Dropped(steps) => {
            drop(closure(Terms::new(), steps, None));
            Submitted::Dropped
        }
        Member::Exclusive(sql) => {
            Submitted::Exclusive(db.exclusive(move |conn| conn.execute_batch(sql)))
        }
        Member::Data(statements) => {
            let plain = statements.iter().map(steps::Sql::to_statement).collect();
            Submitted::Data(statements, db.submit_statements(plain))
        }
    }
}

fn end(submitted: Submitted) -> End {
    match submitted {
        Submitted::Closure(ticket) => match ticket.wait() {
            Ok(records) => End::Committed(records),
            Err(Failure::Rejected(Rejected::Caller(Stop(code)))) => End::Failed(code),
            Err(failure) => end_of(failure),
        },
        Submitted::Data(statements, ticket) => match ticket.wait() {
            Ok(results) => {
                let done = results.into_iter().map(Done::of).zip(&statements);
                End::Committed(done.map(|(done, sql)| Ok(done.of_sql(sql))).collect())
            }
            Err(Failure::Rejected(Rejected::Caller(error))) => End::Failed(code(&error)),
            Err(failure) => end_of(failure),
        },
        Submitted::Dropped => End::Unseen,
        Submitted::Exclusive(result) => match result {
            Ok(()) => End::Committed(Vec::new()),
            Err(Failure::Rejected(Rejected::Caller(error))) => End::Failed(code(&error)),
            Err(failure) => end_of(failure),
        },
    }
}

fn end_of<E: std::fmt::Debug>(failure: Failure<E>) -> End {
    match failure {
        Failure::Rejected(Rejected::Panicked(_)) => End::Panicked,
        Failure::Rejected(Rejected::Engine(cause)) => match cause.downcast_ref() {
            Some(Error::ForeignKey) => End::Refused("foreign key".into()),
            Some(Error::RolledBack) => End::Refused("rolled back".into()),
            Some(Error::ConfigurationChanged) => End::Refused("configuration".into()),
            Some(Error::LeftOpen) => End::Refused("left open".into()),
            Some(other) => panic!("another error: {other:?}"),
            // SQLite's own, of the commit.
            None => End::Refused(code(cause.downcast_ref().unwrap())),
        },
        Failure::NotRun(NotRun::Cancelled | NotRun::DeadlinePassed) => End::NotRun,
        other => panic!("another failure: {other:?}"),
    }
}

/// Every table with every row, as text.
pub(crate) fn content(connection: &Connection) -> Vec<String> {
    let mut schema = connection
        .prepare("SELECT name, sql, type FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
        .unwrap();
    let objects: Vec<(String, String, String)> = schema
        .query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let mut lines = Vec::new();
    for (name, sql, kind) in objects {
        lines.push(sql);
        if kind == "table" {
            let with_rowid = connection.prepare(&format!("SELECT rowid, * FROM {name}"));
            let all = with_rowid.or_else(|_| connection.prepare(&format!("SELECT * FROM {name}")));
            let mut all = all.unwrap();
            let columns = all.column_count();
            let rows = all.query_map((), |row| {
                (0..columns).map(|column| row.get(column)).collect::<Result<Vec<_>, _>>()
            });
            for row in rows.unwrap() {
                let row: Vec<rusqlite::types::Value> = row.unwrap();
                let row: Vec<String> = row.iter().map(brief).collect();
                lines.push(format!("{name}: {row:?}"));
            }
        }
    }
    lines
}

/// A value as text; a long one by its length and a hash.
fn brief(value: &rusqlite::types::Value) -> String {
    match value {
        rusqlite::types::Value::Blob(blob) if blob.len() > 64 => {
            let mut hasher = DefaultHasher::new();
            blob.hash(&mut hasher);
            format!("{} bytes, {:x}", blob.len(), hasher.finish())
        }
        value => format!("{value:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_group_equals_its_transactions_one_by_one(schema in schema(), members in members()) {
        let (expected, expected_content) = reference::run(&schema, &members, |_| true);
        let test = Scratch::new(&schema);
        let held = hold(&test.db);
        let submitted: Vec<_> = members.iter().map(|member| submit(&test.db, member)).collect();
        held.release().wait().unwrap();
        let ends: Vec<_> = submitted.into_iter().map(end).collect();
        for ((member, end), expected) in members.iter().zip(&ends).zip(&expected) {
            prop_assert_eq!(Some(end), expected.as_ref(), "of {:#?}", member);
        }
        prop_assert_eq!(content(&test.plain()), expected_content);
    }
}
