//! How the lab reaches an engine: used directly ([`Plain`]), and through groupcommit ([`Grouped`]).
//!
//! An engine's [`Adapter`] says how a row is written and read with it; everything else about a
//! condition is written once, for every engine. A database is at a path; that of a server is the URL
//! of a schema.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use groupcommit::sqlite::{Experiments, Formation};
use groupcommit::{Failure, Submit, Ticket, TransactionOf};

use crate::error::Cause;
use crate::setting::{Grouping, Setting, Task};
use crate::workload::Batch;

/// What callers write to and read from.
pub(crate) trait Subject: Sync {
    /// Of a transaction that is not answered yet.
    type Ticket;

    /// Writes the rows in one transaction, for the thread of that number: durable unless a ticket is
    /// returned.
    fn write(&self, thread: usize, batch: Batch) -> Result<Option<Self::Ticket>, Cause>;

    /// Returns when the transaction is durable.
    fn wait(&self, ticket: Self::Ticket) -> Result<(), Cause>;

    /// Reads a row.
    fn read(&self, key: i64) -> Result<(), Cause>;
}

/// An engine used directly: a call returns when its own commit does.
pub(crate) trait Plain: Sized + Sync {
    /// Opens the database at `path`, or creates it, in the way of the setting's condition.
    fn open(path: &Path, setting: &Setting) -> Result<Self, Cause>;

    /// Writes and commits the rows in one transaction.
    fn write(&self, thread: usize, batch: &Batch) -> Result<(), Cause>;

    /// Reads a row.
    fn read(&self, _key: i64) -> Result<(), Cause> {
        Err(NOT_MEASURED.into())
    }

    /// Closes the database.
    fn close(self) -> Result<(), Cause> {
        Ok(())
    }
}

impl<P: Plain> Subject for P {
    type Ticket = std::convert::Infallible;

    fn write(&self, thread: usize, batch: Batch) -> Result<Option<Self::Ticket>, Cause> {
        Plain::write(self, thread, &batch).map(|()| None)
    }

    fn wait(&self, ticket: Self::Ticket) -> Result<(), Cause> {
        match ticket {}
    }

    fn read(&self, key: i64) -> Result<(), Cause> {
        Plain::read(self, key)
    }
}

const NOT_MEASURED: &str = "the mixed task is not measured on a server: use `web`";

/// What a transaction's closure is given by the adapter `A`.
pub(crate) type Transaction<'g, A> = TransactionOf<'g, <A as Adapter>::Database>;

/// How the lab reaches one engine.
pub(crate) trait Adapter: 'static {
    /// The engine used directly.
    type Plain: Plain;
    /// The engine's database in groupcommit.
    type Database: Submit;
    /// What its calls inside a transaction fail with.
    type Error: Error + Send + Sync + 'static;

    /// Opens the database at `path`, or creates it, for transactions of groupcommit.
    fn open(path: &Path, tuning: Tuning) -> Result<Self::Database, Cause>;

    /// Writes the rows.
    fn write(tx: &mut Transaction<'_, Self>, batch: &Batch) -> Result<(), Self::Error>;

    /// Reads a row in a snapshot.
    fn read(_database: &Self::Database, _key: i64) -> Result<(), Cause> {
        Err(NOT_MEASURED.into())
    }

    /// Calls `each` with every row, in the order of the keys, after opening the database anew.
    fn for_each_row(_path: &Path, _each: &mut dyn FnMut(i64, &str)) -> Result<(), Cause> {
        Err(NOT_MEASURED.into())
    }

    /// Counts the rows, and adds up the keys, after opening the database anew.
    fn count_rows(path: &Path) -> Result<Counted, Cause> {
        let mut counted = Counted { rows: 0, key_sum: 0 };
        Self::for_each_row(path, &mut |key, _| {
            counted.rows += 1;
            counted.key_sum += i128::from(key);
        })?;
        Ok(counted)
    }
}

/// What a fresh look finds in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) rows: u64,
    pub(crate) key_sum: i128,
}

/// How an engine grouped and flushed while the clock ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GroupCounts {
    /// Transactions a commit, on average.
    pub(crate) transactions_mean: f64,
    /// Flushes, where somebody counts them.
    pub(crate) flushes: Option<u64>,
}

impl GroupCounts {
    /// Where each call commits for itself; an engine used directly does not count its flushes.
    pub(crate) const ONE_COMMIT_A_CALL: Self = Self { transactions_mean: 1.0, flushes: None };
}

/// Counters of the pipeline at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counters {
    commits: u64,
    flushes: u64,
}

impl Counters {
    /// What `transactions` transactions came to since `before`.
    pub(crate) fn since(self, before: Self, transactions: usize) -> GroupCounts {
        let commits = self.commits.saturating_sub(before.commits);
        let flushes = self.flushes.saturating_sub(before.flushes);
        let transactions_mean =
            if commits == 0 { 0.0 } else { transactions as f64 / commits as f64 };
        GroupCounts { transactions_mean, flushes: Some(flushes) }
    }
}

/// A database of groupcommit, opened as it comes but for what the setting says.
pub(crate) struct Grouped<A: Adapter> {
    database: A::Database,
    is_async: bool,
}

impl<A: Adapter> Grouped<A> {
    /// Opens the database at `path`, or creates it.
    pub(crate) fn open(path: &Path, setting: &Setting) -> Result<Self, Cause> {
        let database = A::open(path, Tuning::of(setting))?;
        Ok(Self { database, is_async: setting.condition.is_async() })
    }

    /// The counters of groups executed and flushes done so far.
    pub(crate) fn counters(&self) -> Counters {
        let stats = self.database.stats();
        Counters { commits: stats.commits, flushes: stats.flushes }
    }

    /// Drains and closes the database.
    pub(crate) fn close(self) -> Result<(), Cause> {
        self.database.close_any()
    }
}

impl<A: Adapter> Subject for Grouped<A>
where
    Failure<A::Error>: Into<Cause>,
{
    type Ticket = Ticket<(), A::Error>;

    fn write(&self, _: usize, batch: Batch) -> Result<Option<Self::Ticket>, Cause> {
        let write = move |tx: &mut Transaction<'_, A>| A::write(tx, &batch);
        if self.is_async {
            return Ok(Some(self.database.submit(write)));
        }
        self.database.transact(write).map_err(Into::into).map(|()| None)
    }

    fn wait(&self, ticket: Self::Ticket) -> Result<(), Cause> {
        ticket.wait().map_err(Into::into)
    }

    fn read(&self, key: i64) -> Result<(), Cause> {
        A::read(&self.database, key)
    }
}

/// What a setting changes in a database of groupcommit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tuning {
    formation: Formation,
    flush_delay: Duration,
}

impl Tuning {
    /// A fixed group of a size goes after [`Grouping::PATIENCE`] even if it is not full; one that
    /// waits for a time takes whatever has come by then.
    fn of(setting: &Setting) -> Self {
        let grouping = match setting.task {
            Task::Load { grouping, .. } => grouping,
            _ => Grouping::Adaptive,
        };
        let formation = match grouping {
            Grouping::Adaptive => Formation::Adaptive,
            Grouping::Size(transactions) => {
                Formation::Fixed { transactions, delay: Grouping::PATIENCE }
            }
            Grouping::Delay(delay) => Formation::Fixed { transactions: usize::MAX, delay },
        };
        Self { formation, flush_delay: setting.flush_delay }
    }

    /// The options, with it.
    pub(crate) fn apply<O: Experiments>(self, options: O) -> O {
        options.formation(self.formation).flush_delay(self.flush_delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_the_time_between_two_readings() {
        let before = Counters { commits: 3, flushes: 5 };
        let after = Counters { commits: 7, flushes: 8 };
        let counts = after.since(before, 1_000);
        assert_eq!(counts, GroupCounts { transactions_mean: 250.0, flushes: Some(3) });
        assert_eq!(
            before.since(before, 0),
            GroupCounts { transactions_mean: 0.0, flushes: Some(0) }
        );
    }
}
