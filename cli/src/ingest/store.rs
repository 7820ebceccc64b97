//! What a database does for an ingest. Everything else is the same for all of them.

use std::error::Error;
use std::sync::Arc;

use groupcommit::sql::Engine;
use groupcommit::{Failure, NotRun, Rejected, Stats, Ticket};

use crate::exit::{Problem, explain};
use crate::ingest::job::{Job, Shape};
use crate::ingest::ledger::{Entry, Place, Reject};
use crate::ingest::options::Format;
use crate::ingest::table::{Existing, create_statement};

/// The table of entries.
pub(crate) const ENTRIES: &str = "_groupcommit_ingest";

/// What to do where nothing better is known.
pub(crate) const CORRECT: &str = "correct that, then use --resume";

/// A database that records go into.
pub(crate) trait Store: Sized + Send + Sync {
    /// What the transaction of a record returns.
    type Output: Send + 'static;
    /// What the transaction of a record fails with.
    type Error: Error + Send + Sync + 'static;

    /// The name in messages.
    fn name(&self) -> String;

    /// What makes its flushes promise less than they should.
    fn warnings(&self) -> Vec<String>;

    /// The database's own counters.
    fn stats(&self) -> Stats;

    /// Looks at a table; `None` if there is no such table, or the database has none.
    fn describe(&self, table: &str) -> Result<Option<Existing>, Trouble>;

    /// Where it keeps how far its ingests are.
    fn ledger(&self) -> &impl Ledger;

    /// Whether an ingest left a ledger here.
    fn has_ledger(&self) -> Result<bool, Trouble> {
        self.describe(ENTRIES).map(|table| table.is_some())
    }

    /// Whether two names mean the same table.
    fn is_same_table(&self, one: &str, other: &str) -> bool {
        one == other
    }

    /// The database whose SQL it speaks, if any.
    fn engine(&self) -> Option<Engine> {
        None
    }

    /// The statement that creates `table`, where it has to be created.
    fn creates(&self, table: &str, shape: &Shape) -> Option<String> {
        let is_rows = shape.format != Format::Sql;
        let engine = self.engine().filter(|_| is_rows)?;
        Some(create_statement(engine, table, &shape.columns))
    }

    /// Gets ready for records of `shape` behind `entry`.
    fn prepare(
        &mut self,
        entry: &Entry,
        shape: &Shape,
        existing: Option<&Existing>,
    ) -> Result<(), Trouble>;

    /// Whether an earlier run decided a record that is behind the place of the entry.
    fn is_decided(&mut self, _job: &Job) -> Result<bool, Trouble> {
        Ok(false)
    }

    /// Submits a record: its row or its verdict, and its place.
    fn submit(&mut self, job: &Arc<Job>) -> Ticket<Self::Output, Self::Error>;

    /// Why the record was rejected by a transaction that committed and returned `output`.
    fn rejection(_output: Self::Output) -> Option<Box<str>> {
        None
    }

    /// What a failure of the record's transaction means.
    fn judge(&self, job: &Job, failure: &Failure<Self::Error>) -> Trouble;

    /// Everything up to `place` is decided and durable.
    fn settled(&mut self, _place: Place) -> Result<(), Trouble> {
        Ok(())
    }

    /// Notes durably that the end of the input was reached at `place`.
    fn finish(&mut self, place: Place) -> Result<(), Trouble>;

    /// Closes the database.
    fn close(&self) -> Result<(), String>;
}

/// Where a database keeps how far its ingests are, and what they rejected.
pub(crate) trait Ledger {
    /// Every entry.
    fn entries(&self) -> Result<Vec<Entry>, Trouble>;

    /// Keeps a new entry in place of the one of number `before`; `creates` makes its table.
    fn begin(
        &self,
        entry: &Entry,
        before: Option<i64>,
        creates: Option<String>,
    ) -> Result<(), Trouble>;

    /// At most `count_max` rejected records of the entry behind record `after`, in order.
    fn rejects(&self, id: i64, after: u64, count_max: u32) -> Result<Vec<Reject>, Trouble>;
}

/// Why something did not happen in the database.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The record's own fault: it is rejected for this reason.
    Record(String),
    /// The record before has not been decided, or this one has: another ingest of this input runs.
    OutOfStep,
    /// Another process holds the write lock.
    Busy,
    /// The environment failed: what it says, and what to do.
    Failed(String, &'static str),
    /// A commit or a flush could not be confirmed.
    Unknown(String),
}

impl Trouble {
    /// What a failure means that says nothing about a record.
    pub(crate) fn of<E: Error + 'static>(failure: &Failure<E>) -> Self {
        match failure {
            Failure::Unknown(unknown) => Self::Unknown(explain(unknown.cause().as_ref())),
            Failure::NotRun(NotRun::Busy(_)) => Self::Busy,
            Failure::NotRun(reason) => Self::Failed(explain(reason), CORRECT),
            Failure::Rejected(Rejected::Caller(error)) => Self::Failed(explain(error), CORRECT),
            Failure::Rejected(Rejected::Engine(cause)) => {
                Self::Failed(explain(cause.as_ref()), CORRECT)
            }
            Failure::Rejected(other) => Self::Failed(format!("{other:?}"), CORRECT),
        }
    }

    /// A sentence: `doing` is what was not possible, `durable` what is durable.
    pub(crate) fn problem(self, doing: &str, name: &str, durable: Option<&str>) -> Problem {
        let is_begun = durable.is_some();
        let durable = durable.map_or_else(String::new, |durable| format!("; {durable}"));
        let (what, advice) = match self {
            Self::Unknown(what) => {
                return Problem::unknown(format!(
                    "could not {doing} {name}, and the outcome is unknown ({what}){durable}; check the disk, then use \
                     --resume, which continues from what {name} has"
                ));
            }
            Self::Busy => (
                "another process holds its write lock".to_owned(),
                "end that transaction or raise --busy-timeout, then use --resume",
            ),
            Self::OutOfStep => (
                "another ingest of this input is running".to_owned(),
                "let it finish, then use --resume",
            ),
            Self::Failed(what, advice) => (what, advice),
            Self::Record(what) => (what, CORRECT),
        };
        let then = if is_begun { "" } else { ", then use --resume" };
        let advice = advice.strip_suffix(then).unwrap_or(advice);
        Problem::environment(format!("cannot {doing} {name} ({what}){durable}; {advice}"))
    }
}
